// Disks that fail, fill up and lose files under an open tier.
#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "kv/tiers/disk/disk_fixture.h"
#include "support/faulty_files.h"

namespace quire {
namespace {

using testing::DiskStore;
using testing::FaultyFiles;
using ::testing::HasSubstr;
using testing::NumFaults;

TEST(DiskTier, FilesThatMayNotBeOpenedAreNamedAtTheStart) {
  FaultyFiles files;
  DiskStore store;
  store.options.files = &files;
  store.Open();
  const auto blocks = store.Prompt(0, 2);
  store.StoreAll(blocks);
  store.Close();
  // The directory, LOCK, and from there on the model's files.
  for (int after = 0; after < 3; ++after) {
    files.Inject({.call = FaultyFiles::Call::kOpen, .after = after, .times = 100, .error = EACCES});
    const Status status = store.TryOpen();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::kIo);
    EXPECT_THAT(status.error().message, HasSubstr(store.path().string()));
    EXPECT_THAT(status.error().message, HasSubstr(std::strerror(EACCES)));
    files.Clear();
  }
  store.Open();
  EXPECT_EQ(store.NumLoadable(blocks), 2);
}

TEST(DiskTier, StopsWritingForAWhileWhenWritesFailAndGoesOnReading) {
  FaultyFiles files;
  DiskStore store;
  double now_s = 1000;
  store.options.files = &files;
  store.options.now_s = [&] { return now_s; };
  store.Open();
  const auto blocks = store.Prompt(0, 10);
  store.StoreAll({blocks[0], blocks[1]});
  files.Inject({.call = FaultyFiles::Call::kWrite, .times = 1000, .error = EIO});
  for (int i = 2; i < 5; ++i) EXPECT_EQ(store.Store(blocks[i]), StoreOutcome::kFailed);
  EXPECT_EQ(store.Store(blocks[5]), StoreOutcome::kDown);
  now_s += 0.5;
  const TierState state = store.tier().state();
  EXPECT_TRUE(state.is_up);
  EXPECT_THAT(state.reason, HasSubstr("cannot be written"));
  EXPECT_NEAR(state.down_for_ms, 500, 1);
  EXPECT_EQ(store.NumLoadable({blocks[0], blocks[1]}), 2);
  // It tries by itself, once, and rests longer.
  now_s += 1;
  EXPECT_EQ(store.Store(blocks[5]), StoreOutcome::kFailed);
  EXPECT_EQ(store.Store(blocks[5]), StoreOutcome::kDown);
  files.Clear();
  now_s += 3;
  EXPECT_EQ(store.Store(blocks[5]), StoreOutcome::kStored);
  EXPECT_TRUE(store.tier().state().reason.empty());
  EXPECT_EQ(store.Load(blocks[5]), RecordFault::kNone);
  EXPECT_EQ(NumFaults(store.tier(), RecordFault::kIo), 4);
  EXPECT_EQ(store.tier().status().counters.times_down, 2);
}

TEST(DiskTier, AFullDiskMakesItReplaceInsteadOfGrow) {
  FaultyFiles files;
  DiskStore store;
  store.options.files = &files;
  store.options.max_bytes = 16 << 20;
  store.Open();
  const auto first = store.Prompt(0, 1);
  store.StoreAll(first);
  const int64_t num_slots = 256;  // an extent of a sixteenth
  files.Inject({.call = FaultyFiles::Call::kAllocate, .times = 1000000, .error = ENOSPC});
  int64_t num_stored = 0;
  for (int i = 1; i < num_slots + 50; ++i) {
    num_stored += store.Store(store.Prompt(100 * i, 1)[0]) == StoreOutcome::kStored ? 1 : 0;
  }
  EXPECT_EQ(num_stored, num_slots + 49);
  EXPECT_EQ(store.tier().status().num_records, num_slots);
  EXPECT_EQ(store.Load(first[0]), RecordFault::kAbsent);
}

TEST(DiskTier, ADiskThatIsFullFromTheStartRefuses) {
  FaultyFiles files;
  DiskStore store;
  store.options.files = &files;
  store.Open();
  files.Inject({.call = FaultyFiles::Call::kAllocate, .times = 1000000, .error = ENOSPC});
  EXPECT_EQ(store.Store(store.Prompt(0, 1)[0]), StoreOutcome::kNoRoom);
  EXPECT_EQ(NumFaults(store.tier(), RecordFault::kIo), 1);
}

TEST(DiskTier, ARealFullDiskIsLivedWith) {
  DiskStore store;
  ASSERT_EQ(::mkdir(store.path().c_str(), 0700), 0);
  if (::mount("tmpfs", store.path().c_str(), "tmpfs", 0, "size=2m,mode=0700") != 0) {
    GTEST_SKIP() << "no right to mount: " << std::strerror(errno);
  }
  store.options.max_bytes = uint64_t{1} << 30;
  store.Open();
  std::vector<StoredBlock> blocks;
  for (int i = 0; i < 700; ++i) blocks.push_back(store.Prompt(1000 * i, 1)[0]);
  int num_stored = 0;
  for (const auto& block : blocks) {
    num_stored += store.Store(block) == StoreOutcome::kStored ? 1 : 0;
  }
  EXPECT_EQ(store.NumLoadable(blocks), store.tier().status().num_records);
  // Files grow by what is left where that is less than an extent; from there on it replaces.
  EXPECT_GT(num_stored, 600);
  WriteFile(store.path() / "other", std::string(3 << 20, 'x'));
  for (int i = 0; i < 20; ++i) store.Store(store.Prompt(900000 + 1000 * i, 1)[0]);
  EXPECT_GT(store.tier().status().counters.evictions, 0);
  store.Open();
  EXPECT_GT(store.tier().status().num_records, 0);
  EXPECT_EQ(testing::NumFaults(store.tier()), 0);
  store.Close();
  EXPECT_EQ(::umount(store.path().c_str()), 0);
}

TEST(DiskTier, ReadErrorsAreNamedAndAreMissesFromThereOn) {
  FaultyFiles files;
  DiskStore store;
  store.options.files = &files;
  store.Open();
  const auto blocks = store.Prompt(0, 2);
  store.StoreAll(blocks);
  files.Inject({.call = FaultyFiles::Call::kRead});
  EXPECT_EQ(store.Load(blocks[0]), RecordFault::kIo);
  EXPECT_EQ(store.Load(blocks[0]), RecordFault::kAbsent);
  EXPECT_EQ(NumFaults(store.tier(), RecordFault::kIo), 1);
  EXPECT_EQ(store.Store(blocks[0]), StoreOutcome::kStored);
  // Short reads and writes are no faults.
  files.Inject({.call = FaultyFiles::Call::kRead, .times = 50, .error = 0, .max_bytes = 7});
  EXPECT_EQ(store.Load(blocks[0]), RecordFault::kNone);
  files.Inject({.call = FaultyFiles::Call::kWrite, .times = 50, .error = 0, .max_bytes = 7});
  const auto more = store.Prompt(999, 1);
  EXPECT_EQ(store.Store(more[0]), StoreOutcome::kStored);
  EXPECT_EQ(store.Load(more[0]), RecordFault::kNone);
}

// A hit is promised, and then the file cannot be read: a miss, and nothing wrong.
TEST(DiskTier, AFileThatGoesBetweenFindAndLoadIsAMiss) {
  DiskStore store;
  store.Open();
  const auto blocks = store.Prompt(0, 3);
  store.StoreAll(blocks);
  EXPECT_TRUE(store.tier().MayHold(blocks[0].key()));
  std::filesystem::remove(store.slab());
  EXPECT_EQ(store.NumLoadable(blocks), 0);
  EXPECT_FALSE(store.tier().MayHold(blocks[0].key()));
  store.StoreAll(blocks);
  EXPECT_EQ(store.NumLoadable(blocks), 3);
  // Moved away, the open file gives what it has, until there is something to be stored.
  std::filesystem::rename(store.slab(), store.path().parent_path() / "aside");
  EXPECT_EQ(store.NumLoadable(blocks), 3);
  const auto more = store.Prompt(500, 1);
  EXPECT_EQ(store.Store(more[0]), StoreOutcome::kStored);
  store.Open();
  EXPECT_EQ(store.NumLoadable(more), 1);
  EXPECT_EQ(store.NumLoadable(blocks), 0);
}

TEST(DiskTier, ADirectoryRemovedWhileOpenIsMadeAgain) {
  DiskStore store;
  store.Open();
  const auto blocks = store.Prompt(0, 3);
  store.StoreAll(blocks);
  std::filesystem::remove_all(store.path());
  EXPECT_EQ(store.NumLoadable(blocks), 0);
  store.StoreAll(blocks);
  EXPECT_EQ(store.NumLoadable(blocks), 3);
  EXPECT_FALSE(OpenDiskTier(store.shared_codec(), store.options).ok());
}

TEST(DiskTier, ADirectoryThatCannotBeMadeAgainMakesItDown) {
  DiskStore store;
  double now_s = 1000;
  store.options.now_s = [&] { return now_s; };
  store.Open();
  const auto blocks = store.Prompt(0, 5);
  store.StoreAll({blocks[0]});
  std::filesystem::remove_all(store.path());
  WriteFile(store.path(), "in the way");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(store.Store(blocks[1]), StoreOutcome::kFailed);
  EXPECT_EQ(store.Store(blocks[1]), StoreOutcome::kDown);
  EXPECT_FALSE(store.tier().state().is_up);
  EXPECT_EQ(store.Load(blocks[0]), RecordFault::kAbsent);
  std::filesystem::remove(store.path());
  now_s += 2;
  EXPECT_TRUE(store.tier().state().is_up);
  EXPECT_EQ(store.Store(blocks[1]), StoreOutcome::kStored);
}

}  // namespace
}  // namespace quire
