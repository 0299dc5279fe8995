#include "kv/tiers/disk/disk_tier.h"

#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "kv/tiers/disk/disk_fixture.h"
#include "support/faulty_files.h"

namespace quire {
namespace {

using testing::DiskStore;
using testing::FaultyFiles;
using ::testing::HasSubstr;
using testing::NumFaults;

TEST(DiskTier, GivesBackWhatWasStored) {
  DiskStore store;
  store.Open();
  const auto blocks = store.Prompt(0, 5);
  EXPECT_EQ(store.Load(blocks[0]), RecordFault::kAbsent);
  store.StoreAll(blocks);
  for (const StoredBlock& block : blocks) {
    EXPECT_TRUE(store.tier().MayHold(block.key()));
    EXPECT_EQ(store.Load(block), RecordFault::kNone);
  }
  EXPECT_EQ(store.Store(blocks[2]), StoreOutcome::kHeld);
  const TierStatus status = store.tier().status();
  EXPECT_EQ(status.num_records, 5);
  EXPECT_EQ(status.counters.blocks_loaded, 5);
  EXPECT_EQ(status.counters.bytes_loaded, 5 * static_cast<int64_t>(testing::kPayloadBytes));
  EXPECT_EQ(status.counters.blocks_stored, 5);
  EXPECT_EQ(NumFaults(store.tier()), 0);
  EXPECT_EQ(status.bytes, testing::BytesIn(store.path()));
}

TEST(DiskTier, KnowsGroupsApart) {
  DiskStore store;
  store.Open();
  const auto first = testing::Chain(store.codec(), 0, 2, {}, 0);
  const auto second = testing::Chain(store.codec(), 0, 2, {}, 1);
  store.StoreAll(first);
  EXPECT_EQ(store.Load(second[0]), RecordFault::kAbsent);
  store.StoreAll(second);
  EXPECT_EQ(store.NumLoadable(first) + store.NumLoadable(second), 4);
}

TEST(DiskTier, HoldsItsBlocksAfterARestart) {
  DiskStore store;
  store.Open();
  const auto blocks = store.Prompt(0, 40);
  store.StoreAll(blocks);
  // Not flushed: as after a crash of the process.
  store.Open();
  EXPECT_EQ(store.tier().status().num_records, 40);
  EXPECT_EQ(store.NumLoadable(blocks), 40);
  EXPECT_EQ(NumFaults(store.tier()), 0);
}

TEST(DiskTier, RemembersUsesAcrossARestart) {
  DiskStore store;
  double now_s = 1000;
  store.options.now_s = [&] { return now_s; };
  store.options.max_bytes = 64 * 4224 + 100000;  // 64 slots and a little
  store.Open();
  const auto old = store.Prompt(0, 1);
  store.StoreAll(old);
  std::vector<StoredBlock> others;
  for (int i = 1; i < 50; ++i) others.push_back(store.Prompt(1000 * i, 1)[0]);
  store.StoreAll(others);
  now_s = 2000;
  EXPECT_EQ(store.Load(old[0]), RecordFault::kNone);
  ASSERT_TRUE(store.tier().Flush(testing::Soon()).ok());
  store.Open();
  for (int i = 50; i < 90; ++i) store.Store(store.Prompt(1000 * i, 1)[0]);
  EXPECT_GT(store.tier().status().counters.evictions, 0);
  EXPECT_EQ(store.Load(old[0]), RecordFault::kNone);
  EXPECT_EQ(store.Load(others[0]), RecordFault::kAbsent);
}

TEST(DiskTier, FindCountsAndAnswersFromMemory) {
  DiskStore store;
  store.Open();
  const auto blocks = store.Prompt(0, 3);
  store.StoreAll({blocks[0], blocks[2]});
  std::vector<BlockKey> keys;
  for (const auto& block : blocks) keys.push_back(block.key());
  std::vector<bool> found;
  ASSERT_TRUE(store.tier().Find(keys, testing::Soon(), found).ok());
  EXPECT_EQ(found, (std::vector<bool>{true, false, true}));
  EXPECT_TRUE(store.tier().KnowsAll());
  EXPECT_EQ(store.tier().status().counters.names_asked, 3);
  EXPECT_EQ(store.tier().status().counters.names_found, 2);
}

TEST(DiskTier, ALoadStopsWhenCancelledOrTooLate) {
  DiskStore store;
  store.Open();
  const auto blocks = store.Prompt(0, 4);
  store.StoreAll(blocks);
  std::vector<std::byte> payload(testing::kPayloadBytes);
  std::vector<BlockLoad> loads;
  for (const auto& block : blocks) loads.push_back({.block = block, .payload = payload});
  std::vector<RecordFault> faults(4);
  int num_asked = 0;
  store.tier().Load(
      loads, testing::Soon(), [&] { return ++num_asked > 2; },
      [&](size_t idx, RecordFault fault) { faults[idx] = fault; });
  using enum RecordFault;
  EXPECT_EQ(faults, (std::vector<RecordFault>{kNone, kNone, kCancelled, kCancelled}));
  store.tier().Load(loads, std::chrono::steady_clock::now(), nullptr,
                    [&](size_t idx, RecordFault fault) { faults[idx] = fault; });
  EXPECT_EQ(faults, std::vector<RecordFault>(4, kTimeout));
}

// --- One writer, several readers.

TEST(DiskTier, ASecondWriterIsRefusedByName) {
  DiskStore store;
  store.Open();
  const auto second = OpenDiskTier(store.shared_codec(), store.options);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kIo);
  EXPECT_THAT(second.error().message, HasSubstr(std::to_string(::getpid())));
  EXPECT_THAT(second.error().message, HasSubstr("--kv-disk-read-only"));
  store.Open();
}

TEST(DiskTier, AReaderSeesWhatTheWriterAddsAndRemoves) {
  DiskStore store;
  double now_s = 1000;
  store.options.now_s = [&] { return now_s; };
  store.options.max_bytes = 300000;
  store.Open();
  DiskTierOptions options = store.options;
  options.read_only = true;
  auto reader = OpenDiskTier(store.shared_codec(), options);
  ASSERT_TRUE(reader.ok()) << reader.error().message;
  EXPECT_FALSE((*reader)->KnowsAll());
  const auto blocks = store.Prompt(0, 3);
  store.StoreAll(blocks);
  now_s += 1;
  std::vector<bool> found;
  const BlockKey key = blocks[1].key();
  ASSERT_TRUE((*reader)->Find({&key, 1}, testing::Soon(), found).ok());
  EXPECT_TRUE(found[0]);
  EXPECT_EQ(testing::LoadOne(**reader, store.codec(), blocks[1]), RecordFault::kNone);
  EXPECT_EQ(testing::StoreOne(**reader, store.codec(), blocks[1]), StoreOutcome::kDown);
  // The writer fills every slot anew; the reader has not looked yet.
  for (int i = 1; i < 400; ++i) store.Store(store.Prompt(1000 * i, 1)[0]);
  ASSERT_FALSE(store.tier().MayHold(key));
  EXPECT_EQ(testing::LoadOne(**reader, store.codec(), blocks[1]), RecordFault::kAbsent);
  EXPECT_EQ(NumFaults(**reader), 0);
}

TEST(DiskTier, AReaderWaitsForAWriterToMakeTheFiles) {
  DiskStore store;
  ASSERT_EQ(::mkdir(store.path().c_str(), 0700), 0);
  double now_s = 1000;
  store.options.now_s = [&] { return now_s; };
  DiskTierOptions options = store.options;
  options.read_only = true;
  auto reader = OpenDiskTier(store.shared_codec(), options);
  ASSERT_TRUE(reader.ok()) << reader.error().message;
  const auto blocks = store.Prompt(0, 1);
  EXPECT_EQ(testing::LoadOne(**reader, store.codec(), blocks[0]), RecordFault::kAbsent);
  store.Open();
  store.StoreAll(blocks);
  // It has looked just before.
  EXPECT_EQ(testing::LoadOne(**reader, store.codec(), blocks[0]), RecordFault::kAbsent);
  now_s += 1;
  EXPECT_EQ(testing::LoadOne(**reader, store.codec(), blocks[0]), RecordFault::kNone);
}

// --- Who may enter.

TEST(DiskTier, MakesItsDirectoryForItsOwnerAlone) {
  DiskStore store;
  store.Open();
  struct stat facts{};
  ASSERT_EQ(::stat(store.path().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0700u);
  ASSERT_EQ(::stat(store.slab().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
}

TEST(DiskTier, ADirectoryThatOthersMayEnterNeedsAKeyOrAWord) {
  DiskStore store;
  ASSERT_EQ(::mkdir(store.path().c_str(), 0700), 0);
  ASSERT_EQ(::chmod(store.path().c_str(), 0755), 0);
  const Status status = store.TryOpen();
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("--kv-key-file"));
  store.options.trust_directory = true;
  store.Open();
  const auto blocks = store.Prompt(0, 1);
  store.StoreAll(blocks);
  EXPECT_EQ(store.Load(blocks[0]), RecordFault::kNone);
}

TEST(DiskTier, WithAKeyADirectoryThatOthersMayEnterGivesOnlySealedBlocks) {
  DiskStore store;
  store.Open();
  const auto blocks = store.Prompt(0, 1);
  store.StoreAll(blocks);
  store.Close();
  ASSERT_EQ(::chmod(store.path().c_str(), 0755), 0);
  const std::array<std::array<uint8_t, 32>, 1> keys = {{{1, 2, 3}}};
  const auto ring = KeyRing::Make(keys);
  ASSERT_TRUE(ring.ok());
  const auto sealed = std::make_shared<RecordCodec>(testing::SmallModel(0), *ring, false);
  auto tier = OpenDiskTier(sealed, store.options);
  ASSERT_TRUE(tier.ok()) << tier.error().message;
  // Names are keyed, so what was stored without a key is not even found.
  EXPECT_EQ(testing::LoadOne(**tier, *sealed, blocks[0]), RecordFault::kAbsent);
  EXPECT_EQ(testing::StoreOne(**tier, *sealed, blocks[0]), StoreOutcome::kStored);
  EXPECT_EQ(testing::LoadOne(**tier, *sealed, blocks[0]), RecordFault::kNone);
}

TEST(DiskTier, EncryptedBlocksComeBack) {
  DiskStore store;
  const std::array<std::array<uint8_t, 32>, 1> keys = {{{9, 8, 7}}};
  const auto codec =
      std::make_shared<RecordCodec>(testing::SmallModel(0), *KeyRing::Make(keys), true);
  const auto blocks = testing::Chain(*codec, 0, 20);
  for (int round = 0; round < 2; ++round) {
    auto tier = OpenDiskTier(codec, store.options);
    ASSERT_TRUE(tier.ok()) << tier.error().message;
    for (const auto& block : blocks) {
      EXPECT_EQ(testing::StoreOne(**tier, *codec, block),
                round == 0 ? StoreOutcome::kStored : StoreOutcome::kHeld);
      EXPECT_EQ(testing::LoadOne(**tier, *codec, block), RecordFault::kNone);
    }
  }
}

TEST(DiskTier, SaysWhatIsWrongWithAPlaceThatIsNoDirectory) {
  DiskStore store;
  WriteFile(store.path(), "a file");
  const Status file = store.TryOpen();
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(file.error().message, HasSubstr(store.path().string()));
  store.options.directory = "/proc/nothing/here";
  EXPECT_FALSE(store.TryOpen().ok());
  store.options.directory = "";
  EXPECT_FALSE(store.TryOpen().ok());
}

TEST(DiskTier, RefusesFilesThatAreNotPlain) {
  for (const bool is_link : {false, true}) {
    DiskStore store;
    store.Open();
    store.Close();
    std::filesystem::remove(store.slab());
    if (is_link) {
      std::filesystem::create_symlink("/dev/zero", store.slab());
    } else {
      ASSERT_EQ(::mkfifo(store.slab().c_str(), 0600), 0);
    }
    const Status status = store.TryOpen();
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(status.error().message, HasSubstr(".slab"));
  }
}

// --- The cap.

TEST(DiskTier, NeverTakesMoreThanItsCap) {
  for (const uint64_t max_bytes : {60000, 100000, 500000, 1000000}) {
    SCOPED_TRACE(max_bytes);
    DiskStore store;
    store.options.max_bytes = max_bytes;
    store.Open();
    for (int i = 0; i < 600; ++i) {
      store.Store(store.Prompt(1000 * i, 1)[0]);
      ASSERT_LE(testing::BytesIn(store.path()), max_bytes);
    }
    const TierStatus status = store.tier().status();
    EXPECT_GT(status.counters.evictions, 300);
    // No room is wasted but the margin.
    EXPECT_GT(status.num_records * 4224 + 50000, static_cast<int64_t>(max_bytes));
    EXPECT_EQ(status.bytes, testing::BytesIn(store.path()));
  }
}

TEST(DiskTier, ACapThatHoldsNoBlockIsRefused) {
  DiskStore store;
  store.options.max_bytes = 20000;
  const Status status = store.TryOpen();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kResourceExhausted);
}

TEST(DiskTier, ASmallerCapAfterARestartCutsWhatIsThere) {
  DiskStore store;
  store.Open();
  std::vector<StoredBlock> blocks;
  for (int i = 0; i < 300; ++i) blocks.push_back(store.Prompt(1000 * i, 1)[0]);
  store.StoreAll(blocks);
  store.options.max_bytes = 500000;
  store.Open();
  EXPECT_LE(testing::BytesIn(store.path()), 500000u);
  EXPECT_EQ(store.NumLoadable(blocks), store.tier().status().num_records);
  EXPECT_GT(store.tier().status().num_records, 80);
}

TEST(DiskTier, OtherModelsGiveWayFirstAndTheLeastRecentlyUsedOfThem) {
  DiskStore store;
  store.options.max_bytes = 2 << 20;
  store.Open();
  const auto own = store.Prompt(0, 20);
  store.StoreAll(own);
  store.Close();
  const auto fill = [&](int model) {
    const auto codec = testing::SmallCodec(model);
    auto tier = OpenDiskTier(codec, store.options);
    ASSERT_TRUE(tier.ok());
    for (int i = 0; i < 350; ++i) {
      EXPECT_EQ(testing::StoreOne(**tier, *codec, testing::Chain(*codec, 1000 * i, 1)[0]),
                StoreOutcome::kStored);
    }
    EXPECT_EQ((*tier)->status().counters.evictions, 0);
  };
  fill(1);
  EXPECT_TRUE(std::filesystem::exists(store.slab()));
  // Takes all of the oldest, which is ours, and some of the next.
  fill(2);
  const auto bytes_of = [&](int model) {
    const auto name = ToHex(testing::SmallModel(model).fingerprint) + ".slab";
    return std::filesystem::file_size(store.path() / name);
  };
  EXPECT_FALSE(std::filesystem::exists(store.slab()));
  EXPECT_LT(bytes_of(1), 300u * 4096);
  const uint64_t youngest = bytes_of(2);
  EXPECT_GE(youngest, 350u * 4096);
  store.Open();
  EXPECT_EQ(store.NumLoadable(own), 0);
  store.StoreAll(own);
  EXPECT_EQ(store.NumLoadable(own), 20);
  EXPECT_EQ(bytes_of(2), youngest);
  EXPECT_LE(testing::BytesIn(store.path()), store.options.max_bytes);
}

TEST(DiskTier, LeavesTheFreeSpaceThatItMust) {
  DiskStore store;
  store.options.min_free_bytes = uint64_t{1} << 60;
  store.Open();
  EXPECT_EQ(store.Store(store.Prompt(0, 1)[0]), StoreOutcome::kNoRoom);
  EXPECT_EQ(store.tier().status().counters.stores_refused, 1);
}

// Deleting files by hand, counting after a restart, and the limit, in bytes as in the case of 50
// MB.
TEST(DiskTier, HoldsItsLimitAcrossDeletionAndRestart) {
  constexpr uint64_t kLimit = 50'000'000;
  DiskStore store(0, 450'000);
  store.options.max_bytes = kLimit;
  store.Open();
  std::vector<StoredBlock> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(store.Prompt(1000 * i, 1)[0]);  // 45 MB
  store.StoreAll(blocks);
  EXPECT_LE(testing::BytesIn(store.path()), kLimit);
  for (const auto& file : {store.slab(), store.index(), store.path() / "LOCK"}) {
    std::filesystem::remove(file);
  }
  EXPECT_EQ(store.Load(blocks[7]), RecordFault::kAbsent);
  EXPECT_EQ(store.Store(blocks[7]), StoreOutcome::kStored);
  EXPECT_EQ(store.Load(blocks[7]), RecordFault::kNone);
  for (const auto& block : blocks) store.Store(block);
  EXPECT_EQ(store.NumLoadable(blocks), 100);
  store.Open();
  EXPECT_EQ(store.NumLoadable(blocks), 100);
  for (int i = 100; i < 170; ++i) {  // 31 MB more
    EXPECT_EQ(store.Store(store.Prompt(1000 * i, 1)[0]), StoreOutcome::kStored);
    ASSERT_LE(testing::BytesIn(store.path()), kLimit);
  }
}

// --- What gives way.

TEST(DiskTier, OfAChainTheTailGoesFirst) {
  DiskStore store;
  store.options.max_bytes = 200000;  // some 38 slots
  store.Open();
  const auto chain = store.Prompt(0, 30);
  store.StoreAll(chain);
  for (int i = 1; i <= 20; ++i) store.Store(store.Prompt(10000 * i, 1)[0]);
  // What is left of the chain is its beginning.
  bool was_missing = false;
  int num_left = 0;
  for (const auto& block : chain) {
    const bool is_there = store.tier().MayHold(block.key());
    EXPECT_FALSE(is_there && was_missing);
    was_missing = !is_there;
    num_left += is_there ? 1 : 0;
  }
  EXPECT_GT(num_left, 5);
  EXPECT_LT(num_left, 30);
}

TEST(DiskTier, ATenantOverItsQuotaEvictsItsOwn) {
  DiskStore store;
  store.options.tenant_max_bytes = 10 * 4096;
  store.Open();
  const auto modest = store.Prompt(0, 8, "modest");
  store.StoreAll(modest);
  const auto greedy = store.Prompt(0, 40, "greedy");
  for (const auto& block : greedy) store.Store(block);
  EXPECT_EQ(store.NumLoadable(modest), 8);
  EXPECT_EQ(store.NumLoadable(greedy), 10);
  store.options.tenant_max_bytes = 100;
  store.Open();
  EXPECT_EQ(store.Store(store.Prompt(5000, 1, "third")[0]), StoreOutcome::kQuota);
}

// --- Failing disks.

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

// --- Beside the blocks.

TEST(DiskTier, TellsWhichIngredientOfAnotherModelDiffers) {
  DiskStore store;
  const auto other = testing::SmallCodec(7);
  {
    auto tier = OpenDiskTier(other, store.options);
    ASSERT_TRUE(tier.ok());
    for (const auto& block : testing::Chain(*other, 100, 3, "salt")) {
      testing::StoreOne(**tier, *other, block);
    }
  }
  store.Open();
  std::vector<int32_t> tokens(48);
  for (int i = 0; i < 48; ++i) tokens[static_cast<size_t>(i)] = 100 + i;
  EXPECT_EQ(store.tier().OtherModel("salt", tokens), "weights");
  EXPECT_EQ(store.tier().OtherModel("salt", std::span(tokens).first(40)), "weights");
  EXPECT_EQ(store.tier().OtherModel("", tokens), std::nullopt);
  EXPECT_EQ(store.tier().OtherModel("salt", std::span(tokens).first(7)), std::nullopt);
  tokens[20] = 0;
  EXPECT_EQ(store.tier().OtherModel("salt", tokens), std::nullopt);
}

TEST(DiskTier, MeasuringLeavesNothingBehind) {
  DiskStore store;
  store.Open();
  const auto before = testing::BytesIn(store.path());
  const auto empty = store.tier().Measure(testing::Soon());
  if (empty.has_value()) {
    EXPECT_GT(empty->bytes_per_ms, 0);
  }
  EXPECT_EQ(testing::BytesIn(store.path()), before);
  EXPECT_EQ(store.tier().status().num_records, 0);
  const auto blocks = store.Prompt(0, 30);
  store.StoreAll(blocks);
  const auto speed = store.tier().Measure(testing::Soon());
  ASSERT_TRUE(speed.has_value());
  EXPECT_GT(speed->bytes_per_ms, 0);
  EXPECT_EQ(store.tier().status().num_records, 30);
}

TEST(DiskTier, IsReadySoonWithFiftyThousandBlocks) {
  constexpr int kBlocks = 50000;
  FaultyFiles files;  // counts
  DiskStore store(0, 64);
  store.options.max_bytes = uint64_t{1} << 30;
  store.options.files = &files;
  store.Open();
  const auto chain = store.Prompt(0, kBlocks);
  store.StoreAll(chain);
  store.Close();
  const int64_t reads_before = files.num_calls(FaultyFiles::Call::kRead);
  const auto start = std::chrono::steady_clock::now();
  store.Open();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("ready after %.3f s\n", took.count());
  EXPECT_EQ(store.tier().status().num_records, kBlocks);
  // The index alone is read, in long pieces.
  EXPECT_LT(files.num_calls(FaultyFiles::Call::kRead) - reads_before, 20);
  EXPECT_EQ(store.Load(chain[kBlocks - 1]), RecordFault::kNone);
}

}  // namespace
}  // namespace quire
