// Values that are not what they should be: never a wrong block, and the place is free afterwards.
#include <random>

#include "kv/tiers/redis/redis_fixture.h"

namespace quire {
namespace {

using ::testing::HasSubstr;
using testing::RedisServer;

class RedisDamage : public ::testing::Test {
 protected:
  void SetUp() override {
    QUIRE_SKIP_WITHOUT_REDIS();
    server_ = std::make_unique<RedisServer>();
    tier_ = Open(server_->url());
  }
  void Put(int number, const std::string& value) {
    server_->Ask({"SET", KeyOf(*codec_, BlockOf(number)), value});
  }
  std::string ValueOf(int number) {
    return server_->Ask({"GET", KeyOf(*codec_, BlockOf(number))}).text;
  }
  static std::string RecordOf(const RecordCodec& codec, const StoredBlock& block, int number) {
    Bytes record;
    codec.Encode(block, PayloadOf(number), Packing::kZstd, record);
    return {reinterpret_cast<const char*>(record.data()), record.size()};
  }
  // A load gives this fault, counts it, takes the value away, and the block can be stored anew.
  void ExpectFault(RecordFault fault) {
    const int64_t before = FaultCount(*tier_, fault);
    EXPECT_EQ(LoadOne(*tier_, 1), fault) << NameOf(fault);
    EXPECT_EQ(FaultCount(*tier_, fault), before + 1) << NameOf(fault);
    EXPECT_FALSE(Finds(*tier_, 1)) << NameOf(fault);
    EXPECT_EQ(Store(*tier_, 1), StoreOutcome::kStored) << NameOf(fault);
    EXPECT_EQ(LoadOne(*tier_, 1), RecordFault::kNone) << NameOf(fault);
    EXPECT_TRUE(tier_->state().is_up);
  }

  std::shared_ptr<const RecordCodec> codec_ = SealingCodec();
  std::unique_ptr<RedisServer> server_;
  std::unique_ptr<Tier> tier_;
};

TEST_F(RedisDamage, Garbage) {
  Put(1, std::string(2000, 'x'));
  ExpectFault(RecordFault::kForeign);
}

TEST_F(RedisDamage, AValueThatIsTooShortOrTooLong) {
  Put(1, "x");
  ExpectFault(RecordFault::kTruncated);
  Put(1, std::string(size_t{10} << 20, 'x'));
  ExpectFault(RecordFault::kForeign);
}

TEST_F(RedisDamage, ATruncatedRecord) {
  const std::string record = RecordOf(*codec_, BlockOf(1), 1);
  Put(1, record.substr(0, record.size() - 1));
  ExpectFault(RecordFault::kTruncated);
}

TEST_F(RedisDamage, ALookUpTakesAwayWhatCannotBeARecord) {
  for (const std::string& value : {std::string("x"), std::string(size_t{1} << 20, 'x')}) {
    Put(1, value);
    EXPECT_FALSE(Finds(*tier_, 1));
    EXPECT_EQ(ValueOf(1), "");
  }
  EXPECT_EQ(FaultCount(*tier_, RecordFault::kTruncated), 1);
  EXPECT_EQ(FaultCount(*tier_, RecordFault::kForeign), 1);
}

TEST_F(RedisDamage, ARecordOfAnotherBlock) {
  Put(1, RecordOf(*codec_, BlockOf(2), 2));
  ExpectFault(RecordFault::kOtherBlock);
}

TEST_F(RedisDamage, ARecordOfAnotherTenant) {
  Put(1, RecordOf(*codec_, BlockOf(1, 1, "other"), 1));
  ExpectFault(RecordFault::kOtherBlock);
}

TEST_F(RedisDamage, ARecordOfAnotherModel) {
  StoredModel model = GoldenModel();
  model.ingredients.numerics_version = 8;
  model.fingerprint = FingerprintOf(model.ingredients);
  Put(1, RecordOf(RecordCodec(model, GoldenRing(), false), BlockOf(1), 1));
  ExpectFault(RecordFault::kOtherModel);
}

TEST_F(RedisDamage, AnUnsealedRecord) {
  Put(1, RecordOf(*BareCodec(), BlockOf(1), 1));
  ExpectFault(RecordFault::kUnsealed);
}

TEST_F(RedisDamage, ARecordOfAnotherKey) {
  Put(1, RecordOf(*SealingCodec(9), BlockOf(1), 1));
  ExpectFault(RecordFault::kUnknownKey);
}

TEST_F(RedisDamage, AForgedRecord) {
  Bytes record;
  codec_->Encode(BlockOf(1), PayloadOf(1), Packing::kZstd, record);
  record.back() ^= std::byte{1};
  MendChecksum(record);
  Put(1, {reinterpret_cast<const char*>(record.data()), record.size()});
  ExpectFault(RecordFault::kForged);
}

TEST_F(RedisDamage, AKeyOfAnotherType) {
  const std::string key = KeyOf(*codec_, BlockOf(1));
  server_->Ask({"LPUSH", key, "a"});
  EXPECT_EQ(LoadOne(*tier_, 1), RecordFault::kIo);
  EXPECT_THAT(tier_->state().reason, HasSubstr("WRONGTYPE"));
  EXPECT_TRUE(tier_->state().is_up);
  EXPECT_EQ(Store(*tier_, 1), StoreOutcome::kStored) << "it was deleted";
  server_->Ask({"DEL", key});
  server_->Ask({"LPUSH", key, "a"});
  EXPECT_FALSE(Finds(*tier_, 1));
  EXPECT_EQ(Store(*tier_, 1), StoreOutcome::kStored) << "it was deleted";
  EXPECT_EQ(LoadOne(*tier_, 1), RecordFault::kNone);
}

TEST_F(RedisDamage, ATenantsSetOfAnotherTypeStopsStoringAndNothingElse) {
  const auto tier = Open(server_->url(), {.tenant_max_bytes = 1 << 20});
  ASSERT_EQ(Store(*tier, 1), StoreOutcome::kStored);
  const auto keys = server_->Keys("quire:kv:1:tenant:*");
  ASSERT_EQ(keys.size(), 1u);
  server_->Ask({"SET", keys[0], "x"});
  EXPECT_EQ(Store(*tier, 2), StoreOutcome::kFailed);
  EXPECT_THAT(tier->state().reason, HasSubstr("WRONGTYPE"));
  EXPECT_EQ(LoadOne(*tier, 1), RecordFault::kNone);
}

// Without a key the checksum is all there is, and it is enough against accidents.
TEST_F(RedisDamage, AChangedByteWithoutAKey) {
  const auto bare = BareCodec();
  const auto tier = Open(server_->url(), {.trust_remote = true}, bare);
  ASSERT_EQ(Store(*tier, 1), StoreOutcome::kStored);
  const std::string key = KeyOf(*bare, BlockOf(1));
  std::string value = server_->Ask({"GET", key}).text;
  value[value.size() / 2] ^= 4;
  server_->Ask({"SET", key, value});
  EXPECT_EQ(LoadOne(*tier, 1), RecordFault::kChecksum);
  EXPECT_EQ(Store(*tier, 1), StoreOutcome::kStored);
}

TEST_F(RedisDamage, NoRandomDamageGivesAWrongBlock) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto below = [&](size_t bound) { return static_cast<size_t>(random() % bound); };
  constexpr int kBlocks = 20;
  std::vector<int> numbers(kBlocks);
  std::iota(numbers.begin(), numbers.end(), 0);
  int64_t num_bad = 0;
  for (int round = 0; round < 20; ++round) {
    for (const int number : numbers) {
      const StoreOutcome outcome = Store(*tier_, number);
      ASSERT_TRUE(outcome == StoreOutcome::kStored || outcome == StoreOutcome::kHeld);
    }
    std::vector<bool> is_spoilt(kBlocks, false);
    for (int fault = 0; fault < 10; ++fault) {
      const auto number = static_cast<int>(below(kBlocks));
      std::string value = ValueOf(number);
      if (value.empty()) continue;
      switch (below(4)) {
        case 0:
          value[below(value.size())] ^= static_cast<char>(1 << below(8));
          break;
        case 1:
          value.resize(below(value.size()));
          break;
        case 2:
          value = ValueOf(
              static_cast<int>((static_cast<size_t>(number) + 1 + below(kBlocks - 1)) % kBlocks));
          break;
        default:
          value.insert(below(value.size()), below(100) + 1, 'x');
      }
      Put(number, value);
      is_spoilt[static_cast<size_t>(number)] = value != RecordOf(*codec_, BlockOf(number), number);
    }
    const auto faults = Load(*tier_, numbers);  // which compares what it gets
    for (size_t i = 0; i < numbers.size(); ++i) {
      ASSERT_EQ(faults[i] == RecordFault::kNone, !is_spoilt[i]) << NameOf(faults[i]);
      num_bad += is_spoilt[i] ? 1 : 0;
    }
  }
  EXPECT_GT(num_bad, 50);
  EXPECT_TRUE(tier_->state().is_up);
}

}  // namespace
}  // namespace quire
