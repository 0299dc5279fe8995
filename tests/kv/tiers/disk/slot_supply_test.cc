#include "kv/tiers/disk/slot_supply.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "kv/tiers/disk/disk_fixture.h"
#include "support/faulty_files.h"

namespace quire {
namespace {

using testing::FaultyFiles;

constexpr uint64_t kSlotBytes = 4096;
constexpr double kNow = 1000;

IndexEntry EntryOf(int number, uint8_t tenant = 0) {
  IndexEntry entry = {.tenant = {tenant}, .last_use_s = kNow, .record_bytes = kSlotBytes};
  entry.name.digest[0] = static_cast<uint8_t>(number);
  entry.name.digest[31] = 1;
  return entry;
}

// A writer's files in a directory of 256 KiB, of which an extent is four slots.
class SlotSupplyTest : public ::testing::Test {
 protected:
  SlotSupplyTest() : model_(OpenModel()) {
    auto opened = model_.OpenToWrite();
    QUIRE_CHECK(opened.ok(), "{}", opened.error().message);
    slots_.Adopt(std::move(opened->files), std::move(opened->contents));
  }
  DiskModel OpenModel() {
    auto model = DiskModel::Open(*testing::SmallCodec(), {.directory = scratch_.path() / "kv",
                                                          .max_bytes = 64 * kSlotBytes,
                                                          .min_free_bytes = 0,
                                                          .files = &files_});
    QUIRE_CHECK(model.ok(), "{}", model.error().message);
    return std::move(*model);
  }

  SlotSupply::Supplied Take(SlotSupply& supply, const IndexEntry& entry, double now_s = kNow) {
    return supply.Take(slots_.files(), entry, now_s);
  }
  void List(const SlotSupply::Supplied& supplied, const IndexEntry& entry) {
    ASSERT_TRUE(supplied.slot.has_value());
    ASSERT_EQ(slots_.Write(*slots_.files(), *supplied.slot, entry, {}, {}), 0);
  }
  int64_t NumAsked() const { return files_.num_calls(FaultyFiles::Call::kAllocate); }

  ScratchDirectory scratch_;
  FaultyFiles files_;
  DiskModel model_;
  SlotStore slots_{SlotFilesMode::kWrite, {.by_tenant = true}};
};

TEST_F(SlotSupplyTest, GrowsByAnExtentWhereNoSlotIsFree) {
  SlotSupply supply(model_, slots_, 0);
  for (int i = 0; i < 8; ++i) {
    const auto supplied = Take(supply, EntryOf(i));
    EXPECT_TRUE(supplied.slot.has_value());
    EXPECT_EQ(supplied.has_grown, i % 4 == 0) << i;
  }
  EXPECT_EQ(slots_.NumSlots(slots_.files()), 8);
}

TEST_F(SlotSupplyTest, AtTheCapItGivesTheSlotThatIsWorthLeast) {
  SlotSupply supply(model_, slots_, 0);
  int num_stored = 0;
  while (slots_.tally().evictions == 0 && num_stored < 100) {
    const IndexEntry entry = EntryOf(num_stored++);
    List(Take(supply, entry), entry);
  }
  EXPECT_GT(num_stored, 40);
  EXPECT_FALSE(slots_.Holds(EntryOf(0).name));  // used longest ago
  EXPECT_LE(testing::BytesIn(scratch_.path() / "kv"), 64 * kSlotBytes);
}

TEST_F(SlotSupplyTest, FilesThatCouldNotGrowAreLeftAloneForAWhile) {
  SlotSupply supply(model_, slots_, 0);
  files_.Inject({.call = FaultyFiles::Call::kAllocate, .error = ENOSPC});
  const auto refused = Take(supply, EntryOf(0));
  EXPECT_EQ(refused.slot, std::nullopt);
  EXPECT_EQ(refused.refusal, StoreOutcome::kNoRoom);
  EXPECT_EQ(slots_.tally().faults[static_cast<size_t>(RecordFault::kIo)], 1);
  const int64_t num_asked = NumAsked();
  EXPECT_EQ(Take(supply, EntryOf(0), kNow + 4.9).slot, std::nullopt);
  EXPECT_EQ(NumAsked(), num_asked);
  EXPECT_TRUE(Take(supply, EntryOf(0), kNow + SlotSupply::kNoGrowthS).has_grown);
}

TEST_F(SlotSupplyTest, AClockThatWasSetBackKeepsNoFileFromGrowing) {
  SlotSupply supply(model_, slots_, 0);
  files_.Inject({.call = FaultyFiles::Call::kAllocate, .error = ENOSPC});
  EXPECT_FALSE(Take(supply, EntryOf(0)).has_grown);
  EXPECT_TRUE(Take(supply, EntryOf(0), kNow - 0.1).has_grown);
}

TEST_F(SlotSupplyTest, ATenantAtItsQuotaGetsASlotOfItsOwn) {
  SlotSupply supply(model_, slots_, 2 * kSlotBytes);
  for (const int number : {1, 2, 3}) {
    const IndexEntry entry = EntryOf(number, number == 1 ? 1 : 2);
    List(Take(supply, entry), entry);
  }
  EXPECT_TRUE(Take(supply, EntryOf(4, 2)).slot.has_value());
  EXPECT_TRUE(slots_.Holds(EntryOf(1).name));  // another tenant's, and older
  EXPECT_FALSE(slots_.Holds(EntryOf(2).name));
  SlotSupply narrow(model_, slots_, kSlotBytes - 1);
  const auto refused = Take(narrow, EntryOf(5, 3));
  EXPECT_EQ(refused.slot, std::nullopt);
  EXPECT_EQ(refused.refusal, StoreOutcome::kQuota);
}

TEST_F(SlotSupplyTest, FilesThatAreGoneNeitherGrowNorGiveSlots) {
  SlotSupply supply(model_, slots_, 0);
  const auto files = slots_.files();
  slots_.Forget();
  const int64_t num_asked = NumAsked();
  const auto supplied = supply.Take(files, EntryOf(0), kNow);
  EXPECT_EQ(supplied.slot, std::nullopt);
  EXPECT_FALSE(supplied.has_grown);
  EXPECT_EQ(NumAsked(), num_asked);
}

}  // namespace
}  // namespace quire
