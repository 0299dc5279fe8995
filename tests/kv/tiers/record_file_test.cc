#include "kv/tiers/record_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "kv/tiers/record_fixture.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

const Making kMac{.has_key = true};

std::string Golden(const std::string& name) {
  return ReadFile(std::string(QUIRE_TESTS_DIR) + "/golden/kv/" + name);
}

// What a reading took.
struct Taken {
  Result<RecordFileSummary> summary = RecordFileSummary{};
  std::vector<Bytes> records{};

  int64_t num_bad() const { return summary.value().num_bad; }
  bool is_whole() const { return summary.value().is_whole; }
};

class RecordFile : public ::testing::Test {
 protected:
  Taken Read(const KeyRing* keys = nullptr, SealDemand demand = SealDemand::kNone) {
    Taken taken;
    taken.summary = ReadRecordFile(path_, keys, demand, [&](std::span<const std::byte> record) {
      taken.records.emplace_back(record.begin(), record.end());
      return true;
    });
    if (taken.summary.ok()) {
      EXPECT_EQ(taken.summary->num_records, static_cast<int64_t>(taken.records.size()));
    }
    return taken;
  }
  Taken ReadText(const std::string& text, const KeyRing* keys = nullptr) {
    WriteFile(path_, text);
    return Read(keys);
  }
  // Writes and publishes.
  void Write(const std::vector<Bytes>& records, std::shared_ptr<const KeyRing> keys = nullptr) {
    auto writer = RecordFileWriter::Create(path_, std::move(keys));
    ASSERT_TRUE(writer.ok()) << writer.error().message;
    for (const Bytes& record : records) ASSERT_TRUE((*writer)->Add(record).ok());
    ASSERT_TRUE((*writer)->Finish().ok());
  }
  size_t NumFiles() const {
    return static_cast<size_t>(
        std::distance(std::filesystem::directory_iterator(directory_.path()), {}));
  }

  ScratchDirectory directory_;
  std::filesystem::path path_ = directory_.path() / "prompts.export";
};

TEST_F(RecordFile, GivesBackWhatWasPutIn) {
  const std::vector<Bytes> records = {Encoded({}), Encoded({}, GoldenBlock(1)),
                                      Encoded({.packing = Packing::kZstd})};
  Write(records);
  const Taken taken = Read();
  EXPECT_EQ(taken.records, records);
  EXPECT_TRUE(taken.is_whole());
  EXPECT_EQ(taken.num_bad(), 0);
  EXPECT_EQ(NumFiles(), 1u);
  struct stat status{};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);

  Write({});  // in its place
  EXPECT_TRUE(Read().is_whole());
  EXPECT_TRUE(Read().records.empty());
}

TEST_F(RecordFile, OfAnotherProgramIsReadAndWrittenByteForByte) {
  const Taken plain = ReadText(Golden("plain.export"));
  EXPECT_TRUE(plain.is_whole());
  EXPECT_EQ(plain.records.size(), 2u);
  const Taken sealed = ReadText(Golden("sealed.export"), GoldenRing().get());
  EXPECT_TRUE(sealed.is_whole());
  EXPECT_EQ(sealed.records.size(), 2u);
  Write(plain.records);
  EXPECT_EQ(ReadFile(path_), Golden("plain.export"));
  Write(sealed.records, GoldenRing());
  EXPECT_EQ(ReadFile(path_), Golden("sealed.export"));
}

TEST_F(RecordFile, ThatIsNotFinishedLeavesNothingBehind) {
  {
    auto writer = RecordFileWriter::Create(path_, nullptr);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->Add(Encoded({})).ok());
    EXPECT_FALSE(std::filesystem::exists(path_));
  }
  EXPECT_EQ(NumFiles(), 0u);
}

TEST_F(RecordFile, TakesOnlyRecordsAndWithAKeyOnlySealedOnes) {
  auto writer = RecordFileWriter::Create(path_, GoldenRing());
  ASSERT_TRUE(writer.ok());
  EXPECT_FALSE((*writer)->Add(Bytes(1000)).ok());
  Bytes longer = Encoded(kMac);
  longer.push_back({});
  EXPECT_FALSE((*writer)->Add(longer).ok());
  EXPECT_THAT((*writer)->Add(Encoded({})).error().message, HasSubstr("without a seal"));
  EXPECT_TRUE((*writer)->Add(Encoded(kMac)).ok());
  EXPECT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ(Read(GoldenRing().get()).records.size(), 1u);
}

TEST_F(RecordFile, CutOffGivesTheRecordsBeforeAndIsNotWhole) {
  const std::string text = Golden("sealed.export");
  const size_t record_bytes = 8 + kRecordHeaderBytes + 2048;
  for (size_t size = 32; size < text.size(); size += size % record_bytes < 60 ? 1 : 211) {
    const Taken taken = ReadText(text.substr(0, size), GoldenRing().get());
    ASSERT_TRUE(taken.summary.ok()) << size;
    ASSERT_FALSE(taken.is_whole()) << size;
    ASSERT_EQ(taken.records.size(), std::min<size_t>((size - 32) / record_bytes, 2)) << size;
  }
  for (size_t size = 0; size < 32; ++size) {
    ASSERT_EQ(ReadText(text.substr(0, size)).summary.error().code, ErrorCode::kCorrupt) << size;
  }
  EXPECT_FALSE(ReadText(text + "x", GoldenRing().get()).is_whole());
}

TEST_F(RecordFile, WithAFlippedBitIsNeverWholeAndNeverGivesAWrongRecord) {
  for (const std::string name : {"plain.export", "sealed.export"}) {
    const auto ring = name == "sealed.export" ? GoldenRing() : nullptr;
    const std::string text = Golden(name);
    const Taken right = ReadText(text, ring.get());
    for (size_t byte = 0; byte < text.size(); byte += byte < 48 ? 1 : 61) {
      std::string spoilt = text;
      spoilt[byte] ^= static_cast<char>(1 << byte % 8);
      const Taken taken = ReadText(spoilt, ring.get());
      if (!taken.summary.ok()) {
        ASSERT_LT(byte, 32u);  // the file's head
        continue;
      }
      ASSERT_FALSE(taken.is_whole()) << name << ", byte " << byte;
      for (const Bytes& record : taken.records) {
        ASSERT_TRUE(std::ranges::count(right.records, record) > 0) << name << ", byte " << byte;
      }
    }
  }
}

TEST_F(RecordFile, PassesOverWhatDoesNotProveItselfAndCountsIt) {
  std::string text = Golden("plain.export");
  text[32 + 8 + 700] ^= 1;  // inside the first record
  const Taken taken = ReadText(text);
  EXPECT_EQ(taken.records.size(), 1u);
  EXPECT_EQ(taken.num_bad(), 1);
  EXPECT_FALSE(taken.is_whole());
}

TEST_F(RecordFile, OfHostileLengthsIsLeftAloneAndTakesNoMemory) {
  for (const uint64_t length : {uint64_t{1}, uint64_t{511}, uint64_t{65} << 20, uint64_t{1} << 40,
                                ~uint64_t{0}, uint64_t{1} << 20}) {
    std::string text = Golden("plain.export");
    std::memcpy(text.data() + 32, &length, sizeof(length));
    const Taken taken = ReadText(text);
    EXPECT_TRUE(taken.records.empty()) << length;
    EXPECT_EQ(taken.num_bad(), 1) << length;
    EXPECT_FALSE(taken.is_whole()) << length;
  }
}

TEST_F(RecordFile, SealedByAnotherKeyIsRefused) {
  WriteFile(path_, Golden("sealed.export"));
  const Taken taken = Read(RingOf({SecretFrom(9)}).get());
  ASSERT_FALSE(taken.summary.ok());
  EXPECT_THAT(taken.summary.error().message, HasSubstr("not in the key file"));
  // An older key of the ring will do.
  EXPECT_TRUE(Read(RingOf({SecretFrom(9), SecretFrom(0)}).get()).is_whole());
}

TEST_F(RecordFile, WithoutASealGivesNothingToWhoeverHasAKey) {
  const Taken taken = ReadText(Golden("plain.export"), GoldenRing().get());
  EXPECT_TRUE(taken.records.empty());
  EXPECT_EQ(taken.num_bad(), 2);
  EXPECT_FALSE(taken.is_whole());
  EXPECT_TRUE(Read(nullptr, SealDemand::kDemanded).records.empty());
}

// Records that are sealed one by one, put together anew by somebody without the key.
TEST_F(RecordFile, PutTogetherByAStrangerIsNotWhole) {
  std::string text = Golden("sealed.export");
  const size_t record_bytes = 8 + kRecordHeaderBytes + 2048;
  text.erase(32, record_bytes);
  const uint64_t count = 1;
  std::memcpy(text.data() + text.size() - 40, &count, sizeof(count));
  const Taken taken = ReadText(text, GoldenRing().get());
  EXPECT_EQ(taken.records.size(), 1u);
  EXPECT_FALSE(taken.is_whole());
}

TEST_F(RecordFile, StopsWhereNobodyWantsMore) {
  WriteFile(path_, Golden("plain.export"));
  int calls = 0;
  const auto summary =
      ReadRecordFile(path_, nullptr, SealDemand::kNone, [&](std::span<const std::byte>) {
        ++calls;
        return false;
      });
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(summary.value().is_whole);
}

TEST_F(RecordFile, SaysWhyItCannotBeReadOrWritten) {
  EXPECT_EQ(Read().summary.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(ReadText("just some text, longer than the head of a file").summary.error().message,
              HasSubstr("not a file that quire cache export wrote"));
  path_ = directory_.path();
  EXPECT_EQ(Read().summary.error().code, ErrorCode::kInvalidArgument);
  path_ = directory_.path() / "pipe";
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(Read().summary.error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(RecordFileWriter::Create(directory_.path() / "absent" / "x", nullptr).ok());
  path_ = "/dev/full";
  EXPECT_FALSE(Read().summary.ok());
}

}  // namespace
}  // namespace quire
