// Records that are not what they should be: each is refused, and called what it is.
#include <gtest/gtest.h>

#include <cstring>

#include "kv/tiers/record_fixture.h"
#include "kv/tiers/zstd_frame.h"

namespace quire {
namespace {

constexpr RecordFault kNone = RecordFault::kNone;
const Making kPlain{.name = "plain"};
const Making kMac{.name = "mac", .has_key = true};
const Making kEncrypted{.name = "encrypted", .has_key = true, .encrypts = true};

RecordFault Open(const Bytes& record, const KeyRing* keys, SealDemand demand = SealDemand::kNone) {
  StoredBlock block;
  Bytes payload;
  return OpenRecord(record, keys, demand, &block, &payload);
}

TEST(DamagedRecord, IsRefusedWhateverBitChanged) {
  for (const Making& making : AllMakings()) {
    const RecordCodec codec = CodecOf(making);
    const Bytes record = Encoded(making);
    for (size_t byte = 0; byte < record.size(); byte += byte < kRecordHeaderBytes ? 1 : 7) {
      const int bit = static_cast<int>(byte * 5 % 8);
      const Bytes spoilt = Flipped(record, byte, bit);
      ASSERT_NE(Decode(codec, spoilt).fault, kNone) << making.name << ", byte " << byte;
      ASSERT_NE(VerifyRecord(spoilt, nullptr, SealDemand::kNone), kNone)
          << making.name << ", byte " << byte;
    }
  }
  // All bits of one header.
  const RecordCodec codec = CodecOf(kMac);
  const Bytes record = Encoded(kMac);
  for (size_t i = 0; i < 8 * kRecordHeaderBytes; ++i) {
    ASSERT_NE(Decode(codec, Flipped(record, i / 8, i % 8)).fault, kNone) << "bit " << i;
  }
}

TEST(DamagedRecord, IsCalledByWhatChanged) {
  const Bytes record = Encoded(kPlain);
  const auto fault_at = [&](size_t byte) {
    return Decode(CodecOf(kPlain), Flipped(record, byte)).fault;
  };
  EXPECT_EQ(fault_at(1), RecordFault::kForeign);
  EXPECT_EQ(fault_at(8), RecordFault::kVersion);
  EXPECT_EQ(fault_at(32), RecordFault::kChecksum);  // lengths that no record has
  for (const size_t byte : {20u, 24u, 48u, 64u, 96u, 128u, 260u, 290u, 350u, 400u, 500u, 600u}) {
    EXPECT_EQ(fault_at(byte), RecordFault::kChecksum) << byte;
  }
}

TEST(DamagedRecord, CutOffAnywhereIsRefused) {
  for (const Making& making : AllMakings()) {
    const RecordCodec codec = CodecOf(making);
    const Bytes record = Encoded(making);
    for (size_t size = 0; size < record.size(); ++size) {
      const Bytes cut(record.begin(), record.begin() + size);
      ASSERT_EQ(Open(cut, GoldenRing().get()), RecordFault::kTruncated) << size;
      if (size < kRecordHeaderBytes) {
        RecordHead head;
        ASSERT_EQ(ReadHead(cut, &head), RecordFault::kTruncated) << size;
      } else {
        ASSERT_EQ(Decode(codec, cut).fault, RecordFault::kTruncated) << making.name << size;
      }
    }
    Bytes longer = record;
    longer.push_back({});
    EXPECT_EQ(Open(longer, GoldenRing().get()), RecordFault::kChecksum);
    EXPECT_EQ(Decode(codec, longer).fault, RecordFault::kChecksum);
  }
}

TEST(DamagedRecord, OfZerosOrTextIsForeign) {
  RecordHead head;
  EXPECT_EQ(ReadHead({}, &head), RecordFault::kTruncated);
  EXPECT_EQ(ReadHead(Bytes(4096), &head), RecordFault::kForeign);
  EXPECT_EQ(ReadHead(Bytes(40, std::byte{'x'}), &head), RecordFault::kForeign);
}

// A field of the header, changed by somebody who knows how checksums are made.
struct ChangedField {
  const char* name;
  size_t byte;
  RecordFault unsealed;  // what it is called where nothing is sealed
};
constexpr ChangedField kFields[] = {
    {"unknown flag", 14, RecordFault::kVersion},
    {"KV type, unknown", 17, RecordFault::kVersion},
    {"group", 20, RecordFault::kOtherBlock},
    {"group, absurd", 22, RecordFault::kChecksum},
    {"entry", 24, RecordFault::kOtherBlock},
    {"entry, negative", 27, RecordFault::kChecksum},
    {"slots", 28, RecordFault::kVersion},
    {"payload bytes", 32, RecordFault::kChecksum},
    {"body bytes", 40, RecordFault::kChecksum},
    {"payload bytes, huge", 39, RecordFault::kChecksum},
    {"seal", 64, RecordFault::kVersion},
    {"key id", 96, RecordFault::kVersion},
    {"nonce", 104, RecordFault::kVersion},
    {"numerics version", 116, RecordFault::kOtherModel},
    {"first unused", 120, RecordFault::kVersion},
    {"fingerprint", 128, RecordFault::kOtherModel},
    {"weights", 160, RecordFault::kOtherModel},
    {"architecture", 192, RecordFault::kOtherModel},
    {"layout", 224, RecordFault::kOtherModel},
    {"name", 256, RecordFault::kOtherBlock},
    {"tenant", 288, RecordFault::kOtherBlock},
    {"second unused", 304, RecordFault::kVersion},
    {"last unused", 383, RecordFault::kVersion},
    {"root", 384, RecordFault::kOtherBlock},
    {"parent", 416, RecordFault::kOtherBlock},
    {"tokens", 448, RecordFault::kOtherBlock},
    {"last token", 511, RecordFault::kOtherBlock},
};

TEST(ForgedRecord, WithoutASealIsCalledByTheFieldThatChanged) {
  for (const ChangedField& field : kFields) {
    // A bit that no field's bounds notice, apart from those that are to be noticed.
    Bytes record = Flipped(Encoded(kPlain), field.byte, field.byte == 27 ? 7 : 1);
    MendChecksum(record);
    const RecordFault fault = Decode(CodecOf(kPlain), record).fault;
    EXPECT_EQ(fault, field.unsealed) << field.name << ": " << NameOf(fault);
  }
}

TEST(ForgedRecord, WithASealIsFoundOut) {
  for (const Making& making : {kMac, kEncrypted}) {
    const RecordCodec codec = CodecOf(making);
    const Bytes whole = Encoded(making);
    for (size_t byte = 20; byte < whole.size(); ++byte) {
      Bytes record = Flipped(whole, byte, 1);
      MendChecksum(record);
      const RecordFault fault = Decode(codec, record, GoldenBlock(0), SealDemand::kDemanded).fault;
      const bool is_bounded = byte == 22 || byte == 23 || (byte >= 28 && byte < 48);
      const bool is_checksum = byte >= 48 && byte < 64;  // mended
      const bool is_key = byte >= 96 && byte < 104;
      if (is_checksum) {
        ASSERT_EQ(fault, kNone) << making.name << ", byte " << byte;
      } else if (is_bounded) {
        ASSERT_NE(fault, kNone) << making.name << ", byte " << byte;
      } else if (is_key) {
        ASSERT_EQ(fault, RecordFault::kUnknownKey) << making.name << ", byte " << byte;
      } else if (making.encrypts && byte >= 80 && byte < 96) {
        // Behind the tag: not proven by it, and zero.
        ASSERT_EQ(fault, RecordFault::kVersion) << making.name << ", byte " << byte;
      } else {
        ASSERT_EQ(fault, RecordFault::kForged) << making.name << ", byte " << byte;
      }
      ASSERT_EQ(Open(record, GoldenRing().get()) == kNone, is_checksum) << byte;
    }
  }
}

TEST(ForgedRecord, CannotShedItsSeal) {
  for (const Making& making : {kMac, kEncrypted}) {
    Bytes record = Encoded(making);
    std::memset(record.data() + 12, 0, 4);   // flags
    std::memset(record.data() + 64, 0, 52);  // seal, key id, nonce
    MendChecksum(record);
    EXPECT_EQ(Decode(CodecOf(making), record, GoldenBlock(0), SealDemand::kDemanded).fault,
              RecordFault::kUnsealed);
    EXPECT_EQ(VerifyRecord(record, GoldenRing().get(), SealDemand::kDemanded),
              RecordFault::kUnsealed);
  }
  // What a MAC sealed cannot be passed off as encrypted, and the other way round.
  for (const Making& making : {kMac, kEncrypted}) {
    Bytes record = Encoded(making);
    record[12] ^= std::byte{6};
    MendChecksum(record);
    EXPECT_EQ(Decode(CodecOf(making), record).fault, RecordFault::kForged) << making.name;
  }
}

TEST(ForgedRecord, WithThePayloadOfAnotherIsFoundOut) {
  StoredBlock other = GoldenBlock(0);
  other.tokens = TokensFrom(500);
  other.id = ChildOf(other.parent, other.tokens);
  for (const Making& making : {kPlain, kMac, kEncrypted}) {
    const RecordCodec codec = CodecOf(making);
    Bytes payload = GoldenPayload(256);
    payload[3] ^= std::byte{1};
    Bytes theirs;
    codec.Encode(other, payload, Packing::kNone, theirs);
    Bytes record = Encoded(making);
    std::copy(theirs.begin() + kRecordHeaderBytes, theirs.end(),
              record.begin() + kRecordHeaderBytes);
    EXPECT_EQ(Decode(codec, record).fault, RecordFault::kChecksum) << making.name;
    MendChecksum(record);
    if (making.has_key) {
      EXPECT_EQ(Decode(codec, record).fault, RecordFault::kForged) << making.name;
    }
    // The other's record, whole, under this one's name.
    EXPECT_EQ(Decode(codec, theirs).fault, RecordFault::kOtherBlock) << making.name;
  }
}

TEST(ForeignRecord, OfAnotherModelTypeOrLayoutIsCalledSo) {
  const Bytes record = Encoded(kPlain);
  StoredModel model = GoldenModel();
  model.type = KvType::kBF16;
  EXPECT_EQ(Decode(RecordCodec(model, nullptr, false), record).fault, RecordFault::kOtherModel);
  model = GoldenModel();
  model.ingredients.numerics_version = 8;
  model.fingerprint = FingerprintOf(model.ingredients);
  EXPECT_EQ(Decode(RecordCodec(model, nullptr, false), record).fault, RecordFault::kOtherModel);
  model.group_bytes = {128};  // its blocks are shorter
  EXPECT_EQ(Decode(RecordCodec(model, nullptr, false), record).fault, RecordFault::kOtherModel);
  model = GoldenModel();
  model.group_bytes = {128};
  EXPECT_EQ(Decode(RecordCodec(model, nullptr, false), record).fault, RecordFault::kOtherModel);
}

TEST(ForeignRecord, OfAnotherBlockIsCalledSo) {
  StoredModel model = GoldenModel();
  model.group_bytes = {256, 256};
  for (const Making& making : {kPlain, kMac, kEncrypted}) {
    const RecordCodec codec(model, making.has_key ? GoldenRing() : nullptr, making.encrypts);
    const Bytes record = Encoded(making);
    const auto fault_of = [&](const StoredBlock& wanted) {
      return Decode(codec, record, wanted).fault;
    };
    const StoredBlock own = GoldenBlock(0);
    EXPECT_EQ(fault_of(own), kNone);

    EXPECT_EQ(fault_of(GoldenBlock(1)), RecordFault::kOtherBlock);
    StoredBlock wanted = own;
    wanted.entry = 2;
    EXPECT_EQ(fault_of(wanted), RecordFault::kOtherBlock);
    wanted = own;
    wanted.root = RootOf(model.fingerprint, "another tenant");
    EXPECT_EQ(fault_of(wanted), RecordFault::kOtherBlock);
    wanted = own;
    wanted.parent = wanted.root;
    EXPECT_EQ(fault_of(wanted), RecordFault::kOtherBlock);
    // A collision: the same identity claimed for other tokens.
    wanted = own;
    wanted.tokens[5] += 1;
    EXPECT_EQ(fault_of(wanted), RecordFault::kOtherBlock);
    wanted = own;
    wanted.id[31] ^= 1;
    EXPECT_EQ(fault_of(wanted), RecordFault::kOtherBlock);
  }
}

TEST(SealDemand, IsAskedOfRecordsWithoutASeal) {
  const Bytes record = Encoded(kPlain);
  const RecordCodec keyed = CodecOf(kMac);
  EXPECT_EQ(Decode(keyed, record, GoldenBlock(0), SealDemand::kDemanded).fault,
            RecordFault::kUnsealed);
  EXPECT_EQ(Decode(keyed, record, GoldenBlock(0), SealDemand::kNone).fault, kNone);
  EXPECT_EQ(VerifyRecord(record, nullptr, SealDemand::kDemanded), RecordFault::kUnsealed);
}

TEST(SealDemand, IsNotMetByAKeyThatIsNotThere) {
  for (const Making& making : {kMac, kEncrypted}) {
    const Bytes record = Encoded(making);
    const auto others = RingOf({SecretFrom(9)});
    const RecordCodec other(GoldenModel(), others, making.encrypts);
    EXPECT_EQ(Decode(other, record).fault, RecordFault::kUnknownKey);
    EXPECT_EQ(Decode(CodecOf(kPlain), record).fault, RecordFault::kUnknownKey);
    EXPECT_EQ(VerifyRecord(record, others.get(), SealDemand::kNone), RecordFault::kUnknownKey);
    EXPECT_EQ(VerifyRecord(record, nullptr, SealDemand::kDemanded), RecordFault::kUnknownKey);
  }
}

TEST(SealDemand, IsMetByAnOlderKeyOfTheRing) {
  for (const Making& making : {kMac, kEncrypted}) {
    const auto ring = RingOf({SecretFrom(9), SecretFrom(0)});
    const RecordCodec codec(GoldenModel(), ring, making.encrypts);
    const Decoded decoded = Decode(codec, Encoded(making), GoldenBlock(0), SealDemand::kDemanded);
    EXPECT_EQ(decoded.fault, kNone) << making.name;
    EXPECT_EQ(decoded.payload, GoldenPayload(256)) << making.name;
    EXPECT_EQ(Open(Encoded(making), ring.get(), SealDemand::kDemanded), kNone);
  }
}

// A record whose body is this frame and whose payload is said to have so many bytes.
Bytes PackedRecord(const Bytes& frame, uint64_t payload_bytes) {
  const StoredBlock block = GoldenBlock(0);
  const RecordCodec codec = CodecOf(kPlain);
  const HeaderBytes header = MakeHeader({.fingerprint = codec.model().fingerprint,
                                         .ingredients = codec.model().ingredients,
                                         .name = codec.NameOf(block.key()),
                                         .tenant = codec.TagOf(block.root),
                                         .entry = block.entry,
                                         .is_packed = true,
                                         .payload_bytes = payload_bytes,
                                         .body_bytes = frame.size()},
                                        {block.root, block.parent, block.tokens});
  Bytes record(header.begin(), header.end());
  record.insert(record.end(), frame.begin(), frame.end());
  MendChecksum(record);
  return record;
}

Bytes FrameOf(const Bytes& payload) {
  Bytes frame(payload.size() + 64);
  frame.resize(PackFrame(payload, frame).value());
  return frame;
}

TEST(PackedRecord, MustUnpackToItsLength) {
  const RecordCodec codec = CodecOf(kPlain);
  const Bytes frame = FrameOf(GoldenPayload(256));
  EXPECT_EQ(Decode(codec, PackedRecord(frame, 256)).payload, GoldenPayload(256));
  const auto fault_of = [&](const Bytes& spoilt) {
    return Decode(codec, PackedRecord(spoilt, 256)).fault;
  };
  // A mebibyte of zeros in a few bytes, and one byte too many or too few.
  EXPECT_EQ(fault_of(FrameOf(Bytes(1 << 20))), RecordFault::kBadPayload);
  EXPECT_EQ(fault_of(FrameOf(Bytes(257))), RecordFault::kBadPayload);
  EXPECT_EQ(fault_of(FrameOf(Bytes(255))), RecordFault::kBadPayload);
  for (size_t size = 1; size < frame.size(); ++size) {
    EXPECT_EQ(fault_of(Bytes(frame.begin(), frame.begin() + size)), RecordFault::kBadPayload);
  }
  EXPECT_EQ(fault_of(GoldenPayload(100)), RecordFault::kBadPayload);  // no frame
}

TEST(PackedRecord, OfALengthThatNoBlockHasIsRefusedBeforeMemoryIsTaken) {
  const Bytes frame = FrameOf(Bytes(1 << 20));
  EXPECT_EQ(Open(PackedRecord(frame, uint64_t{1} << 40), nullptr), RecordFault::kChecksum);
  EXPECT_EQ(Open(PackedRecord(frame, 1 << 21), nullptr), RecordFault::kBadPayload);
  EXPECT_EQ(Decode(CodecOf(kPlain), PackedRecord(frame, 1 << 20)).fault, RecordFault::kOtherModel);
}

// A frame may claim any size and window: three bytes of it are spoilt in all ways that matter.
TEST(PackedRecord, IsNotBelievedItsSizes) {
  const Bytes frame = FrameOf(GoldenPayload(256));
  for (size_t byte = 4; byte < 12 && byte < frame.size(); ++byte) {
    for (int value = 0; value < 256; ++value) {
      Bytes spoilt = frame;
      spoilt[byte] = static_cast<std::byte>(value);
      const Decoded decoded = Decode(CodecOf(kPlain), PackedRecord(spoilt, 256));
      EXPECT_TRUE(decoded.fault == kNone || decoded.fault == RecordFault::kBadPayload);
    }
  }
}

TEST(RecordFault, HasANameEach) {
  std::vector<std::string_view> names;
  for (int i = 0; i < kNumRecordFaults; ++i) names.push_back(NameOf(static_cast<RecordFault>(i)));
  EXPECT_EQ(names.front(), "none");
  EXPECT_EQ(names.back(), "down");
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  EXPECT_FALSE(names.front().empty());
}

}  // namespace
}  // namespace quire
