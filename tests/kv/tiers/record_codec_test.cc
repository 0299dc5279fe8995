#include "kv/tiers/record_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "kv/tiers/record_fixture.h"

namespace quire {
namespace {

constexpr RecordFault kNone = RecordFault::kNone;

StoredBlock Opened(const Bytes& record, const KeyRing* keys, Bytes* payload) {
  StoredBlock block;
  EXPECT_EQ(OpenRecord(record, keys, SealDemand::kNone, &block, payload), kNone);
  return block;
}

void ExpectSameBlock(const StoredBlock& a, const StoredBlock& b) {
  EXPECT_EQ(a.key(), b.key());
  EXPECT_EQ(a.parent, b.parent);
  EXPECT_EQ(a.root, b.root);
  EXPECT_EQ(a.entry, b.entry);
  EXPECT_EQ(a.tokens, b.tokens);
}

TEST(RecordGoldens, OfAnotherProgramAreRead) {
  const RecordCodec open(GoldenModel(), nullptr, false);
  const RecordCodec keyed(GoldenModel(), GoldenRing(), false);
  for (const std::string name : {"plain", "zstd", "mac", "encrypted", "encrypted_zstd"}) {
    const bool is_sealed = name != "plain" && name != "zstd";
    const Bytes record = ReadGolden(name + ".record");
    const Decoded decoded = Decode(is_sealed ? keyed : open, record, GoldenBlock(),
                                   is_sealed ? SealDemand::kDemanded : SealDemand::kNone);
    EXPECT_EQ(decoded.fault, kNone) << name << ": " << NameOf(decoded.fault);
    EXPECT_EQ(decoded.payload, GoldenPayload()) << name;
    Bytes payload;
    ExpectSameBlock(Opened(record, GoldenRing().get(), &payload), GoldenBlock());
    EXPECT_EQ(payload, GoldenPayload()) << name;
  }
}

TEST(RecordGoldens, AreWrittenByteForByte) {
  Bytes record;
  RecordCodec(GoldenModel(), nullptr, false)
      .Encode(GoldenBlock(), GoldenPayload(), Packing::kNone, record);
  EXPECT_EQ(record, ReadGolden("plain.record"));
  RecordCodec(GoldenModel(), GoldenRing(), false)
      .Encode(GoldenBlock(), GoldenPayload(), Packing::kNone, record);
  EXPECT_EQ(record, ReadGolden("mac.record"));
}

TEST(Record, ComesBackWhateverItHolds) {
  std::mt19937 random(7);
  for (int round = 0; round < 120; ++round) {
    const Making& making = AllMakings()[round % AllMakings().size()];
    StoredModel model = GoldenModel();
    model.group_bytes = {1 + random() % 5000, 64 + random() % 5000};
    const RecordCodec codec(model, making.has_key ? GoldenRing() : nullptr, making.encrypts);
    StoredBlock block = GoldenBlock(static_cast<int>(random() % 2));
    block.entry = static_cast<int>(random() % 100'000);
    for (int32_t& token : block.tokens) token = static_cast<int32_t>(random());
    block.id = ChildOf(block.parent, block.tokens);
    Bytes payload(model.group_bytes[block.group]);
    const uint32_t mask = round % 3 == 0 ? 255 : 3;  // noise, and what packs well
    for (std::byte& value : payload) value = static_cast<std::byte>(random() & mask);

    Bytes record;
    codec.Encode(block, payload, making.packing, record);
    EXPECT_LE(record.size(), codec.MaxRecordBytes());
    const Decoded decoded = Decode(codec, record, block);
    ASSERT_EQ(decoded.fault, kNone) << "seed 7, round " << round << ", " << making.name;
    ASSERT_EQ(decoded.payload, payload) << "seed 7, round " << round << ", " << making.name;
    EXPECT_EQ(VerifyRecord(record, GoldenRing().get(), SealDemand::kNone), kNone);
    EXPECT_EQ(VerifyRecord(record, nullptr, SealDemand::kNone), kNone);
  }
}

TEST(Record, IsDecodedWhereItsBodyLies) {
  for (const Making& making : AllMakings()) {
    Bytes record = Encoded(making);
    const std::span<std::byte> bytes(record);
    std::vector<std::byte> memory(256);
    const auto body = bytes.subspan(kRecordHeaderBytes);
    const auto place = std::span(memory).first(body.size());
    std::copy(body.begin(), body.end(), place.begin());
    const RecordFault fault = CodecOf(making).Decode(bytes.first<kRecordHeaderBytes>(), place,
                                                     GoldenBlock(0), SealDemand::kNone, memory);
    if (making.packing == Packing::kZstd) {
      EXPECT_EQ(fault, RecordFault::kBadPayload) << making.name;
    } else {
      EXPECT_EQ(fault, kNone) << making.name;
      EXPECT_EQ(memory, GoldenPayload(256)) << making.name;
    }
  }
}

TEST(Record, ThatZstdCannotShortenIsStoredAsItIs) {
  std::mt19937 random(3);
  Bytes noise(256);
  for (std::byte& value : noise) value = static_cast<std::byte>(random());
  Bytes record;
  CodecOf({}).Encode(GoldenBlock(0), noise, Packing::kZstd, record);
  RecordHead head;
  ASSERT_EQ(ReadHead(record, &head), kNone);
  EXPECT_FALSE(head.is_packed);
  EXPECT_EQ(record.size(), kRecordHeaderBytes + noise.size());
  EXPECT_EQ(Decode(CodecOf({}), record).payload, noise);
}

TEST(Record, IsEncodedIntoMemoryThatIsThereAlready) {
  Bytes record;
  record.reserve(CodecOf({}).MaxRecordBytes());
  const std::byte* memory = record.data();
  for (const Making& making : AllMakings()) {
    CodecOf(making).Encode(GoldenBlock(), GoldenPayload(), making.packing, record);
    EXPECT_EQ(record.data(), memory) << making.name;
  }
}

TEST(Record, HeadTellsWhatItIsBeforeAnythingIsProven) {
  const Bytes record = Encoded({.has_key = true, .encrypts = true}, GoldenBlock());
  RecordHead head;
  ASSERT_EQ(ReadHead(std::span(record).first(kRecordHeaderBytes), &head), kNone);
  EXPECT_EQ(head.fingerprint, GoldenModel().fingerprint);
  EXPECT_EQ(head.ingredients.layout, GoldenModel().ingredients.layout);
  EXPECT_EQ(head.ingredients.numerics_version, 7);
  EXPECT_EQ(head.type, KvType::kF16);
  EXPECT_EQ(head.group, 1);
  EXPECT_EQ(head.entry, 1);
  EXPECT_TRUE(head.is_sealed && head.is_encrypted && !head.is_packed);
  EXPECT_EQ(head.key, GoldenRing()->id());
  EXPECT_EQ(head.payload_bytes, 2048);
  const RecordCodec keyed(GoldenModel(), GoldenRing(), true);
  EXPECT_EQ(head.name, keyed.NameOf(GoldenBlock().key()));
  EXPECT_EQ(head.tenant, keyed.TagOf(GoldenBlock().root));
}

TEST(Record, NamesAndTagsAreKeyedWhereThereIsAKey) {
  const RecordCodec open(GoldenModel(), nullptr, false);
  const RecordCodec keyed(GoldenModel(), GoldenRing(), false);
  const RecordCodec other(GoldenModel(), RingOf({SecretFrom(9)}), false);
  const BlockKey key = GoldenBlock().key();
  EXPECT_NE(open.NameOf(key), keyed.NameOf(key));
  EXPECT_NE(other.NameOf(key), keyed.NameOf(key));
  EXPECT_NE(open.NameOf(key), open.NameOf(GoldenBlock(0).key()));
  EXPECT_NE(open.TagOf(GoldenBlock().root), keyed.TagOf(GoldenBlock().root));
  EXPECT_NE(open.TagOf(GoldenBlock().root), open.TagOf(RootOf(GoldenModel().fingerprint, "b")));
}

// Privacy: nothing that tells of a prompt is seen from outside.
TEST(EncryptedRecord, ShowsNeitherIdentitiesNorTokensNorPayloadAndNeverTwiceTheSame) {
  const Making making{.has_key = true, .encrypts = true};
  const Bytes record = Encoded(making);
  const StoredBlock block = GoldenBlock(0);
  const auto contains = [&](const void* bytes, size_t size) {
    const auto* begin = static_cast<const std::byte*>(bytes);
    return std::search(record.begin(), record.end(), begin, begin + size) != record.end();
  };
  EXPECT_FALSE(contains(block.root.data(), 8));
  EXPECT_FALSE(contains(block.parent.data(), 8));
  EXPECT_FALSE(contains(block.id.data(), 8));
  EXPECT_FALSE(contains(block.tokens.data(), 8));
  EXPECT_FALSE(contains(GoldenPayload(256).data() + 100, 8));
  const Bytes again = Encoded(making);
  EXPECT_NE(ReadNonce(std::span(record).first<kRecordHeaderBytes>()),
            ReadNonce(std::span(again).first<kRecordHeaderBytes>()));
  EXPECT_NE(Bytes(record.begin() + kHiddenOffset, record.end()),
            Bytes(again.begin() + kHiddenOffset, again.end()));
}

TEST(EncryptedRecord, IsVerifiedWithoutTheKeyAndOpenedOnlyWithIt) {
  const Bytes record = Encoded({.has_key = true, .encrypts = true});
  EXPECT_EQ(VerifyRecord(record, nullptr, SealDemand::kNone), kNone);
  EXPECT_EQ(VerifyRecord(Flipped(record, 600), nullptr, SealDemand::kNone), RecordFault::kChecksum);
  StoredBlock block;
  Bytes payload;
  EXPECT_EQ(OpenRecord(record, nullptr, SealDemand::kNone, &block, &payload),
            RecordFault::kUnknownKey);
  EXPECT_EQ(Decode(CodecOf({}), record).fault, RecordFault::kUnknownKey);
}

TEST(RecordCodec, ServesManyThreads) {
  for (const Making& making : AllMakings()) {
    const RecordCodec codec = CodecOf(making);
    std::atomic<int> num_right = 0;
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
          Bytes record;
          for (int round = 0; round < 20; ++round) {
            codec.Encode(GoldenBlock(), GoldenPayload(), making.packing, record);
            num_right += Decode(codec, record, GoldenBlock()).payload == GoldenPayload();
          }
        });
      }
    }
    EXPECT_EQ(num_right, 80) << making.name;
  }
}

TEST(RecordCodec, RefusesBlocksThatNoRecordHolds) {
  StoredModel model = GoldenModel();
  EXPECT_TRUE(RecordCodec::CanStore(model).ok());
  model.group_bytes = {kMaxRecordBytes};
  EXPECT_EQ(RecordCodec::CanStore(model).error().code, ErrorCode::kUnsupported);
  for (const size_t num_groups : {0, kMaxStoredGroups + 1}) {
    model.group_bytes.assign(num_groups, 64);
    EXPECT_EQ(RecordCodec::CanStore(model).error().code, ErrorCode::kUnsupported);
  }
}

}  // namespace
}  // namespace quire
