#include "kv/tiers/disk/disk_tier.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

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
