// What must hold of memory and disk over any trace.
#pragma once

#include <gtest/gtest.h>

#include <iostream>

#include "kv/tiers/fast_motion/fast_motion.h"

namespace quire::testing {

// The hit rate may be so much below that of an LRU of as many blocks.
inline constexpr double kMaxLoss = .02;

inline void ExpectAsGoodAsLru(const Trace& trace, int64_t num_blocks) {
  const FastMotionResult result = MeasureFastMotion(trace, num_blocks);
  std::cout << result.Describe() << "\n";
  EXPECT_GE(result.hit_rate, result.lru_hit_rate - kMaxLoss);
  EXPECT_GT(result.counters.tier_hits, 0);
  EXPECT_GT(result.disk_evictions, 0);
  EXPECT_EQ(result.counters.failed_loads, 0);
  EXPECT_EQ(result.counters.wrong_payloads, 0);
  // The cap is used, and kept to.
  EXPECT_GE(result.num_memory_blocks + result.num_disk_blocks, num_blocks * 95 / 100);
  EXPECT_LE(result.max_disk_bytes, result.disk_cap_bytes);
  // A block that is computed is written once; again only when the disk has let it go meanwhile.
  EXPECT_LE(result.counters.stored(), result.counters.computed + result.disk_evictions);
  EXPECT_LE(result.stored_per_computed(), 1.1);
}

}  // namespace quire::testing
