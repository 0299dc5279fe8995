// Random use of the disk tier, compared with a map that forgets what the tier says it evicted; and
// use by several threads.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <set>
#include <thread>

#include "kv/tiers/disk/disk_fixture.h"
#include "support/sanitizers.h"

namespace quire {
namespace {

using testing::DiskStore;

TEST(DiskRandom, HoldsWhatAMapOfTheSameCapHolds) {
  for (uint32_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    DiskStore store;
    double now_s = 1000;
    store.options.now_s = [&] { return now_s; };
    store.options.max_bytes = 150000;  // some 25 slots
    if (seed % 2 == 1) store.options.tenant_max_bytes = 40000;
    store.Open();
    std::vector<StoredBlock> blocks;
    for (int i = 0; i < 12; ++i) {
      const auto chain = store.Prompt(1000 * i, 4, i % 3 == 0 ? "one" : "other");
      blocks.insert(blocks.end(), chain.begin(), chain.end());
    }
    std::set<size_t> held;  // indexes of `blocks`
    int num_evicted = 0;
    for (int i = 0; i < 400 && !::testing::Test::HasFailure(); ++i) {
      SCOPED_TRACE(i);
      now_s += 0.5;
      const size_t at = random() % blocks.size();
      const StoredBlock& block = blocks[at];
      switch (random() % 8) {
        case 0:
        case 1:
        case 2:
        case 3: {
          const int64_t before = store.tier().status().num_records;
          const auto outcome = store.Store(block);
          if (held.contains(at)) {
            ASSERT_EQ(outcome, StoreOutcome::kHeld);
          } else if (outcome == StoreOutcome::kStored) {
            held.insert(at);
            // At most one gives way, and never for nothing.
            int num_gone = 0;
            for (auto it = held.begin(); it != held.end();) {
              const bool is_gone = !store.tier().MayHold(blocks[*it].key());
              num_gone += is_gone ? 1 : 0;
              it = is_gone ? held.erase(it) : std::next(it);
            }
            ASSERT_EQ(num_gone, before + 1 - store.tier().status().num_records);
            ASSERT_LE(num_gone, 1);
            num_evicted += num_gone;
          } else {
            ASSERT_TRUE(outcome == StoreOutcome::kNoRoom || outcome == StoreOutcome::kQuota);
          }
          break;
        }
        case 4:
        case 5:
          ASSERT_EQ(store.Load(block),
                    held.contains(at) ? RecordFault::kNone : RecordFault::kAbsent);
          break;
        case 6: {
          const BlockKey key = block.key();
          store.tier().Touch({&key, 1});
          break;
        }
        default:
          if (random() % 2 == 0) {
            ASSERT_TRUE(store.tier().Flush(testing::Soon()).ok());
          } else if (random() % 2 == 0) {
            store.Open();
          }
          break;
      }
      ASSERT_EQ(store.tier().status().num_records, static_cast<int64_t>(held.size()));
      ASSERT_LE(testing::BytesIn(store.path()), store.options.max_bytes);
      if (i % 20 != 0) continue;
      for (size_t j = 0; j < blocks.size(); ++j) {
        ASSERT_EQ(store.tier().MayHold(blocks[j].key()), held.contains(j));
      }
    }
    EXPECT_GT(num_evicted, 20);
    EXPECT_EQ(testing::NumFaults(store.tier()), 0);
  }
}

TEST(DiskRandom, SeveralThreadsLoadWhileOneStores) {
  const int num_stores = testing::kHasSanitizer ? 400 : 2000;
  DiskStore store;
  store.options.max_bytes = 150000;
  store.Open();
  std::vector<StoredBlock> blocks;
  for (int i = 0; i < 15; ++i) {
    const auto chain = store.Prompt(1000 * i, 4);
    blocks.insert(blocks.end(), chain.begin(), chain.end());
  }
  std::atomic<bool> is_over = false;
  std::atomic<int64_t> num_right = 0;
  std::vector<std::thread> threads;
  for (uint32_t reader = 0; reader < 2; ++reader) {
    threads.emplace_back([&, reader] {
      std::mt19937 random(reader);
      while (!is_over) {
        const auto& block = blocks[random() % blocks.size()];
        if (store.Load(block) == RecordFault::kNone) ++num_right;
        const BlockKey key = block.key();
        store.tier().Touch({&key, 1});
      }
    });
  }
  threads.emplace_back([&] {
    while (!is_over) {
      EXPECT_GE(store.tier().status().num_records, 0);
      EXPECT_TRUE(store.tier().state().is_up);
      std::this_thread::yield();
    }
  });
  std::mt19937 random(99);
  for (int i = 0; i < num_stores; ++i) {
    store.Store(blocks[random() % blocks.size()]);
    if (i % 100 == 0) {
      EXPECT_TRUE(store.tier().Flush(testing::Soon()).ok());
    }
    if (i == num_stores / 2) std::filesystem::remove(store.slab());
  }
  is_over = true;
  for (auto& thread : threads) thread.join();
  EXPECT_GT(num_right.load(), 10);
  // What one thread reads is not written over: there is nothing to find fault with.
  EXPECT_EQ(testing::NumFaults(store.tier()), 0);
}

}  // namespace
}  // namespace quire
