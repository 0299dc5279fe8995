// Verbs on real files of three slots. Whole stores are tested in disk_tier_test.cc.
#include "kv/tiers/disk/slot_store.h"

#include <gtest/gtest.h>

#include <array>

#include "base/check.h"
#include "support/scratch_directory.h"

namespace quire {
namespace {

using Found = SlotStore::Found;

constexpr int64_t kSlots = 3;
constexpr double kNow = 1000;

RecordName NameOf(int number) {
  RecordName name;
  name.digest[0] = static_cast<uint8_t>(number);
  name.digest[31] = 1;  // never the name of no parent
  return name;
}

IndexEntry EntryOf(int number) {
  return {.name = NameOf(number), .last_use_s = kNow, .record_bytes = kSlotAlignment};
}

int64_t NumFaults(const SlotStore& slots, RecordFault fault) {
  return slots.tally().faults[static_cast<size_t>(fault)];
}

class SlotStoreTest : public ::testing::Test {
 protected:
  static DiskDirectory OpenDirectory(const std::filesystem::path& path) {
    auto directory = DiskDirectory::Open(FileOps::System(), path, DiskDirectory::Missing::kMake);
    QUIRE_CHECK(directory.ok(), "{}", directory.error().message);
    return std::move(*directory);
  }
  static IndexHeader Header() {
    IndexHeader header;
    header.fingerprint = FingerprintOf(header.ingredients);
    header.slot_bytes = kSlotAlignment;
    return header;
  }

  // The files as they are on the disk, in the place of those that `slots` had.
  void OpenInto(SlotStore& slots, SlotFilesMode mode) {
    SlotContents contents;
    auto files = SlotFiles::Open(FileOps::System(), directory_, Header(), mode, 1 << 20, &contents);
    QUIRE_CHECK(files.ok(), "{}", files.error().message);
    slots.Adopt(std::move(*files), std::move(contents));
  }
  void Open() {
    OpenInto(slots_, SlotFilesMode::kWrite);
    const auto files = slots_.files();
    ASSERT_EQ(files->Grow(0, kSlots), 0);
    ASSERT_TRUE(slots_.Extend(files, 0, kSlots));
  }
  int Write(const Found& slot, int number) {
    std::array<std::byte, 64> header{};
    header[0] = static_cast<std::byte>(number);
    return slots_.Write(*slots_.files(), slot, EntryOf(number), header, {});
  }
  void Store(int number) {
    const auto slot = slots_.TakeFree(slots_.files());
    ASSERT_TRUE(slot.has_value());
    ASSERT_EQ(Write(*slot, number), 0);
  }
  static int NumberIn(const SlotStore::Pinned& pinned) {
    std::array<std::byte, 1> first{};
    const std::array<iovec, 1> parts = {PartOf(std::span<std::byte>(first))};
    EXPECT_EQ(pinned.files->Read(pinned.found.slot, parts), RecordFault::kNone);
    return static_cast<int>(first[0]);
  }

  ScratchDirectory scratch_;
  DiskDirectory directory_ = OpenDirectory(scratch_.path() / "kv");
  std::filesystem::path slab_ = directory_.SlabPath(Header().fingerprint);
  std::filesystem::path index_ = directory_.IndexPath(Header().fingerprint);
  SlotStore slots_{SlotFilesMode::kWrite, {}};
};

TEST_F(SlotStoreTest, GivesTheSlotOfWhatWasWritten) {
  EXPECT_FALSE(slots_.is_open());
  EXPECT_EQ(slots_.Pin(NameOf(7)), std::nullopt);
  Open();
  Store(7);
  EXPECT_TRUE(slots_.Holds(NameOf(7)));
  EXPECT_FALSE(slots_.Holds(NameOf(8)));
  const auto pinned = slots_.Pin(NameOf(7));
  ASSERT_TRUE(pinned.has_value());
  EXPECT_EQ(NumberIn(*pinned), 7);
  EXPECT_TRUE(slots_.IsStill(*pinned));
  slots_.Unpin(pinned->found);
  EXPECT_EQ(slots_.tally().num_listed, 1);
}

TEST_F(SlotStoreTest, WhatIsPinnedGivesNoWay) {
  Open();
  for (const int number : {1, 2, 3}) Store(number);
  const auto files = slots_.files();
  EXPECT_EQ(slots_.TakeFree(files), std::nullopt);
  std::array<SlotStore::Pinned, kSlots> pinned = {*slots_.Pin(NameOf(1)), *slots_.Pin(NameOf(2)),
                                                  *slots_.Pin(NameOf(3))};
  EXPECT_EQ(slots_.TakeWorst(files, EntryOf(4), nullptr), std::nullopt);
  EXPECT_EQ(slots_.tally().evictions, 0);
  slots_.Unpin(pinned[1].found);
  const auto taken = slots_.TakeWorst(files, EntryOf(4), nullptr);
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ(taken->slot, pinned[1].found.slot);
  EXPECT_EQ(slots_.tally().evictions, 1);
  EXPECT_FALSE(slots_.IsStill(pinned[1]));
}

TEST_F(SlotStoreTest, ARecordThatCouldNotBeWrittenLeavesItsSlotFree) {
  Open();
  const auto taken = slots_.TakeFree(slots_.files());
  ASSERT_TRUE(taken.has_value());
  // Opened to be read alone, so that every write fails.
  SlotStore reader(SlotFilesMode::kRead, {});
  OpenInto(reader, SlotFilesMode::kRead);
  EXPECT_NE(slots_.Write(*reader.files(), *taken, EntryOf(1), {}, {}), 0);
  EXPECT_FALSE(slots_.Holds(NameOf(1)));
  EXPECT_EQ(slots_.TakeFree(slots_.files())->slot, taken->slot);
}

TEST_F(SlotStoreTest, FilesThatWereDeletedAreForgottenWithWhatTheyHeld) {
  Open();
  Store(7);
  const auto files = slots_.files();
  std::filesystem::remove(slab_);
  EXPECT_EQ(slots_.Look(), SlotFiles::Condition::kGone);
  EXPECT_FALSE(slots_.is_open());
  EXPECT_FALSE(slots_.Holds(NameOf(7)));
  // Who had begun with them gets nothing more of them.
  EXPECT_EQ(slots_.NumSlots(files), std::nullopt);
  EXPECT_EQ(slots_.TakeFree(files), std::nullopt);
  EXPECT_EQ(slots_.TakeWorst(files, EntryOf(8), nullptr), std::nullopt);
  EXPECT_FALSE(slots_.Extend(files, 0, kSlots));
  EXPECT_EQ(slots_.WriteUses(SIZE_MAX), 0);
  EXPECT_EQ(slots_.Mend(), 0);
}

TEST_F(SlotStoreTest, ASlabThatWasCutLosesItsLastSlots) {
  Open();
  for (const int number : {1, 2, 3}) Store(number);
  std::filesystem::resize_file(slab_, kSlotAlignment);
  EXPECT_EQ(slots_.Look(), SlotFiles::Condition::kCut);
  EXPECT_EQ(slots_.NumSlots(slots_.files()), 1);
  EXPECT_EQ(slots_.tally().num_listed, 1);
  EXPECT_EQ(NumFaults(slots_, RecordFault::kTruncated), 1);
}

TEST_F(SlotStoreTest, AnIndexThatWasCutIsWrittenAnewFromMemory) {
  Open();
  for (const int number : {1, 2, 3}) Store(number);
  std::filesystem::resize_file(index_, kIndexHeaderBytes + kIndexEntryBytes);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(slots_.Look(), SlotFiles::Condition::kCut);
  EXPECT_TRUE(slots_.is_index_cut());
  EXPECT_EQ(NumFaults(slots_, RecordFault::kTruncated), 1);
  EXPECT_EQ(slots_.Mend(), 0);
  EXPECT_FALSE(slots_.is_index_cut());
  EXPECT_EQ(slots_.Look(), SlotFiles::Condition::kWhole);
}

TEST_F(SlotStoreTest, AFileThatWasMadeLongerIsCutToWhatIsOurs) {
  Open();
  std::filesystem::resize_file(slab_, 10 * kSlotAlignment);
  EXPECT_EQ(slots_.Mend(), 0);
  EXPECT_EQ(std::filesystem::file_size(slab_), kSlots * kSlotAlignment);
}

TEST_F(SlotStoreTest, WhatIsLostCountsUnlessItHasChangedHands) {
  Open();
  Store(7);
  const Found before = slots_.Pin(NameOf(7))->found;
  slots_.Unpin(before);
  EXPECT_EQ(slots_.Lose(NameOf(7), before, RecordFault::kChecksum), RecordFault::kChecksum);
  EXPECT_FALSE(slots_.Holds(NameOf(7)));
  EXPECT_EQ(slots_.Lose(NameOf(7), before, RecordFault::kChecksum), RecordFault::kAbsent);
  Store(7);  // in the same slot, for another turn
  EXPECT_EQ(slots_.Pin(NameOf(7))->found.slot, before.slot);
  EXPECT_EQ(slots_.Lose(NameOf(7), before, RecordFault::kChecksum), RecordFault::kAbsent);
  EXPECT_TRUE(slots_.Holds(NameOf(7)));
  EXPECT_EQ(NumFaults(slots_, RecordFault::kChecksum), 1);
}

TEST_F(SlotStoreTest, AReaderThatHasLookedAgainStillLosesWhatIsInItsSlot) {
  Open();
  Store(7);
  SlotStore reader(SlotFilesMode::kRead, {});
  OpenInto(reader, SlotFilesMode::kRead);
  const auto pinned = reader.Pin(NameOf(7));
  ASSERT_TRUE(pinned.has_value());
  OpenInto(reader, SlotFilesMode::kRead);
  EXPECT_FALSE(reader.IsStill(*pinned));
  reader.Unpin(pinned->found);
  EXPECT_EQ(reader.Lose(NameOf(7), pinned->found, RecordFault::kChecksum), RecordFault::kChecksum);
  EXPECT_FALSE(reader.Holds(NameOf(7)));
}

TEST_F(SlotStoreTest, OnlyAWriterCountsWhatWasWrongWhenItOpened) {
  SlotStore reader(SlotFilesMode::kRead, {});
  for (SlotStore* slots : {&slots_, &reader}) {
    SlotContents contents;
    contents.faults[static_cast<size_t>(RecordFault::kForeign)] = 2;
    slots->Adopt(nullptr, std::move(contents));
  }
  EXPECT_EQ(NumFaults(slots_, RecordFault::kForeign), 2);
  EXPECT_EQ(NumFaults(reader, RecordFault::kForeign), 0);
}

}  // namespace
}  // namespace quire
