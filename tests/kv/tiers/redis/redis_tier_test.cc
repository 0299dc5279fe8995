// The Redis tier over a server that works.
#include "kv/tiers/redis/redis_tier.h"

#include <algorithm>

#include "kv/tiers/redis/redis_fixture.h"

namespace quire {
namespace {

using ::testing::HasSubstr;
using testing::In;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::RedisServer;
using ::testing::SizeIs;

class RedisTier : public ::testing::Test {
 protected:
  void SetUp() override { QUIRE_SKIP_WITHOUT_REDIS(); }
};

TEST_F(RedisTier, GivesBackWhatWasStored) {
  RedisServer server;
  const auto tier = Open(server.url());
  EXPECT_TRUE(tier->state().is_up) << tier->state().reason;
  EXPECT_FALSE(Finds(*tier, 1));
  EXPECT_EQ(Store(*tier, 1), StoreOutcome::kStored);
  EXPECT_TRUE(tier->MayHold(BlockOf(1).key()));
  EXPECT_TRUE(Finds(*tier, 1));
  EXPECT_FALSE(Finds(*tier, 2));
  EXPECT_EQ(LoadOne(*tier, 1), RecordFault::kNone);
  EXPECT_EQ(LoadOne(*tier, 2), RecordFault::kAbsent);
  const TierCounters counters = tier->status().counters;
  EXPECT_EQ(counters.names_asked, 3);
  EXPECT_EQ(counters.names_found, 1);
  EXPECT_EQ(counters.blocks_stored, 1);
  EXPECT_EQ(counters.blocks_loaded, 1);
  EXPECT_EQ(counters.bytes_loaded, 2048);
}

TEST_F(RedisTier, IsSharedByAllOfAModel) {
  RedisServer server;
  const auto writer = Open(server.url());
  const auto reader = Open(server.tcp_url());
  for (int i = 0; i < 20; ++i) ASSERT_EQ(Store(*writer, i), StoreOutcome::kStored);
  std::vector<int> numbers(20);
  std::iota(numbers.begin(), numbers.end(), 0);
  EXPECT_THAT(Load(*reader, numbers), ::testing::Each(RecordFault::kNone));
}

TEST_F(RedisTier, FindsAndLoadsMoreThanOneBatch) {
  RedisServer server;
  const auto tier = Open(server.url());
  std::vector<BlockKey> keys;
  std::vector<int> numbers;
  for (int i = 0; i < 600; ++i) {
    if (i % 3 == 0) {
      ASSERT_EQ(Store(*tier, i), StoreOutcome::kStored);
    }
    keys.push_back(BlockOf(i).key());
    numbers.push_back(i);
  }
  std::vector<bool> found;
  ASSERT_TRUE(tier->Find(keys, In(kLongMs), found).ok());
  const auto faults = Load(*tier, numbers);
  for (size_t i = 0; i < 600; ++i) {
    EXPECT_EQ(found[i], i % 3 == 0) << i;
    EXPECT_EQ(faults[i], i % 3 == 0 ? RecordFault::kNone : RecordFault::kAbsent) << i;
  }
}

TEST_F(RedisTier, DoesNotSendWhatTheServerHas) {
  RedisServer server;
  const auto one = Open(server.url());
  const auto other = Open(server.url());
  EXPECT_EQ(Store(*one, 1), StoreOutcome::kStored);
  EXPECT_EQ(Store(*one, 1), StoreOutcome::kHeld);
  EXPECT_FALSE(other->MayHold(BlockOf(1).key()));
  EXPECT_EQ(Store(*other, 1), StoreOutcome::kHeld);
  EXPECT_TRUE(other->MayHold(BlockOf(1).key()));
}

TEST_F(RedisTier, AsksAgainAboutWhatItSawLongAgo) {
  RedisServer server;
  double now_ms = 0;
  const auto tier = Open(server.url(), {.ttl_s = 100, .now_ms = [&] { return now_ms; }});
  ASSERT_EQ(Store(*tier, 1), StoreOutcome::kStored);
  now_ms = 49'999;
  EXPECT_TRUE(tier->MayHold(BlockOf(1).key()));
  now_ms = 50'000;
  EXPECT_FALSE(tier->MayHold(BlockOf(1).key()));
  server.Ask({"FLUSHALL"});
  EXPECT_EQ(Store(*tier, 1), StoreOutcome::kStored);
}

TEST_F(RedisTier, ForgetsWhatTurnsOutToBeGone) {
  RedisServer server;
  const auto tier = Open(server.url());
  ASSERT_EQ(Store(*tier, 1), StoreOutcome::kStored);
  server.Ask({"FLUSHALL"});
  EXPECT_TRUE(tier->MayHold(BlockOf(1).key()));
  EXPECT_FALSE(Finds(*tier, 1));
  EXPECT_FALSE(tier->MayHold(BlockOf(1).key()));
  EXPECT_EQ(Store(*tier, 1), StoreOutcome::kStored);
}

TEST_F(RedisTier, WhatGoesBetweenLookUpAndLoadIsAbsent) {
  RedisServer server;
  const auto tier = Open(server.url());
  for (int i = 0; i < 3; ++i) ASSERT_EQ(Store(*tier, i), StoreOutcome::kStored);
  ASSERT_TRUE(Finds(*tier, 1));
  server.Ask({"DEL", KeyOf(*SealingCodec(), BlockOf(1))});
  EXPECT_THAT(Load(*tier, {0, 1, 2}),
              ::testing::ElementsAre(RecordFault::kNone, RecordFault::kAbsent, RecordFault::kNone));
  EXPECT_FALSE(tier->MayHold(BlockOf(1).key()));
}

TEST_F(RedisTier, RecordsExpireAndUseKeepsThem) {
  RedisServer server;
  const auto tier = Open(server.url(), {.ttl_s = 1000});
  const std::string key = KeyOf(*SealingCodec(), BlockOf(1));
  const std::string other_key = KeyOf(*SealingCodec(), BlockOf(2));
  ASSERT_EQ(Store(*tier, 1), StoreOutcome::kStored);
  ASSERT_EQ(Store(*tier, 2), StoreOutcome::kStored);
  const int64_t ttl_ms = server.Ask({"PTTL", key}).integer;
  EXPECT_GT(ttl_ms, 900'000);
  EXPECT_LE(ttl_ms, 1'000'000);
  server.Ask({"PEXPIRE", key, "500000"});
  server.Ask({"PEXPIRE", other_key, "500000"});
  EXPECT_EQ(LoadOne(*tier, 1), RecordFault::kNone);
  const BlockKey other = BlockOf(2).key();
  tier->Touch(std::span(&other, 1));
  ASSERT_TRUE(tier->Flush(In(kLongMs)).ok());
  EXPECT_GT(server.Ask({"PTTL", key}).integer, 900'000) << "it was loaded";
  EXPECT_GT(server.Ask({"PTTL", other_key}).integer, 900'000) << "it was touched";
}

TEST_F(RedisTier, RecordsNeverExpireWhereNoTimeIsGiven) {
  RedisServer server;
  const auto tier = Open(server.url(), {.ttl_s = 0});
  ASSERT_EQ(Store(*tier, 1), StoreOutcome::kStored);
  EXPECT_EQ(server.Ask({"PTTL", KeyOf(*SealingCodec(), BlockOf(1))}).integer, -1);
  EXPECT_EQ(Store(*Open(server.url(), {.ttl_s = 0}), 1), StoreOutcome::kHeld);
}

TEST_F(RedisTier, EveryKeyIsUnderOneName) {
  RedisServer server;
  const auto tier = Open(server.url(), {.tenant_max_bytes = 1 << 20});
  ASSERT_TRUE(tier->Measure(In(kLongMs)).has_value());
  ASSERT_EQ(Store(*tier, 1), StoreOutcome::kStored);
  EXPECT_THAT(server.Keys("*"), SizeIs(2)) << "a value and a tenant";
  EXPECT_THAT(server.Keys("quire:kv:1:*"), SizeIs(2));
}

TEST_F(RedisTier, WhatIsMeasuredIsGoneAfterwards) {
  RedisServer server;
  const auto tier = Open(server.url());
  const auto speed = tier->Measure(In(kLongMs));
  ASSERT_TRUE(speed.has_value());
  EXPECT_GT(speed->latency_ms, 0);
  EXPECT_GT(speed->bytes_per_ms, 0);
  EXPECT_THAT(server.Keys("*"), IsEmpty());
  EXPECT_EQ(tier->status().counters.blocks_loaded, 0);
}

TEST_F(RedisTier, UsesTheDatabaseOfItsUrl) {
  RedisServer server;
  const auto third = Open(server.url() + "?db=3");
  ASSERT_EQ(Store(*third, 1), StoreOutcome::kStored);
  EXPECT_FALSE(Finds(*Open(server.url()), 1));
  EXPECT_TRUE(Finds(*Open(server.tcp_url() + "/3"), 1));
}

// The user that docs/kv-redis.md proposes.
TEST_F(RedisTier, NeedsNoMoreThanTheRulesOfTheDocs) {
  RedisServer server;
  ASSERT_EQ(server
                .Ask({"ACL", "SETUSER", "quire", "on", ">pa:ss", "~quire:kv:*", "+ping", "+select",
                      "+strlen", "+getrange", "+set", "+pexpire", "+unlink", "+zadd", "+zcard",
                      "+zpopmin", "+zremrangebyscore"})
                .text,
            "OK");
  const auto tier = Open(server.tcp_url("quire:pa%3Ass@") + "/1", {.tenant_max_bytes = 6000});
  ASSERT_TRUE(tier->state().is_up) << tier->state().reason;
  ASSERT_TRUE(tier->Measure(In(kLongMs)).has_value());
  for (int i = 0; i < 4; ++i) ASSERT_EQ(Store(*tier, i), StoreOutcome::kStored);
  EXPECT_EQ(LoadOne(*tier, 3), RecordFault::kNone);
  EXPECT_TRUE(Finds(*tier, 3));
  EXPECT_TRUE(tier->Flush(In(kLongMs)).ok());
  EXPECT_EQ(tier->state().reason, "");
  EXPECT_THAT(tier->status().place, Not(HasSubstr("ss")));
}

TEST_F(RedisTier, SharesNothingBetweenTenantsKeysAndModels) {
  RedisServer server;
  const auto tier = Open(server.url());
  ASSERT_EQ(Store(*tier, 1, "one"), StoreOutcome::kStored);
  EXPECT_FALSE(Finds(*tier, 1, "other"));
  EXPECT_FALSE(Finds(*Open(server.url(), {}, SealingCodec(9)), 1, "one"));
  EXPECT_FALSE(Finds(*Open(server.url(), {.trust_remote = true}, BareCodec()), 1, "one"));
  EXPECT_TRUE(Finds(*tier, 1, "one"));
}

TEST_F(RedisTier, ATenantKeepsWhatItUsedLastWithinItsQuota) {
  RedisServer server;
  // Room for three records of 512 + 2,048 bytes or little more.
  const auto tier = Open(server.url(), {.tenant_max_bytes = 8200});
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(Store(*tier, i, "one"), StoreOutcome::kStored);
    ASSERT_LE(server.Keys("*").size(), 4u);
  }
  ASSERT_EQ(Store(*tier, 100, "other"), StoreOutcome::kStored);
  int num_held = 0;
  for (int i = 0; i < 10; ++i) num_held += Finds(*tier, i, "one") ? 1 : 0;
  EXPECT_EQ(num_held, 3);
  EXPECT_TRUE(Finds(*tier, 9, "one"));
  EXPECT_TRUE(Finds(*tier, 100, "other"));
  EXPECT_EQ(tier->status().counters.evictions, 7);
}

TEST_F(RedisTier, ARecordThatIsLargerThanItsTenantsQuotaIsRefused) {
  RedisServer server;
  const auto tier = Open(server.url(), {.tenant_max_bytes = 1000});
  EXPECT_EQ(Store(*tier, 1), StoreOutcome::kQuota);
  EXPECT_EQ(tier->status().counters.stores_refused, 1);
  EXPECT_THAT(server.Keys("*"), IsEmpty());
}

TEST_F(RedisTier, ServesManyThreadsOverFewConnections) {
  RedisServer server;
  const auto tier = Open(server.url());
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const StoreOutcome outcome = Store(*tier, t * 10 + i);
        EXPECT_TRUE(outcome == StoreOutcome::kStored || outcome == StoreOutcome::kHeld);
        EXPECT_EQ(LoadOne(*tier, t * 10 + i), RecordFault::kNone);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string clients = server.Ask({"CLIENT", "LIST"}).text;
  EXPECT_LE(std::count(clients.begin(), clients.end(), '\n'), 4 + 1) << "one is this test's";
}

TEST(OpenRedisTier, WantsAKeyOrTrust) {
  const auto tier = OpenRedisTier(BareCodec(), {.url = "redis://:secret@localhost"});
  ASSERT_FALSE(tier.ok());
  EXPECT_EQ(tier.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(tier.error().message, HasSubstr("--kv-trust-remote"));
  EXPECT_THAT(tier.error().message, Not(HasSubstr("secret")));
}

TEST(OpenRedisTier, RefusesAUrlThatIsNone) {
  EXPECT_EQ(OpenRedisTier(SealingCodec(), {.url = "localhost"}).error().code,
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace quire
