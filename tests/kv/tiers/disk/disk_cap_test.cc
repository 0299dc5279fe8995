// What a directory may take, and what gives way where that is used up.
#include <gtest/gtest.h>

#include "kv/tiers/disk/disk_fixture.h"

namespace quire {
namespace {

using testing::DiskStore;

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

}  // namespace
}  // namespace quire
