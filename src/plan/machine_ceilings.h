// What this machine can do at best, level by level: how fast each level of memory is read, and how
// fast each kind of arithmetic goes. The roofs of a roofline.
//
// A level is measured by reading a set of bytes that it holds and the next smaller one does not.
// Beside them stands the set that a step really reads, the model's weights: whatever level that
// is, its rate is the one that bounds a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "plan/machine_limits.h"
#include "plan/step_cost.h"

namespace quire {

// Data caches, as the system tells them; 0 where it does not.
struct CacheSizes {
  uint64_t l1_bytes = 0;  // of a core
  uint64_t l2_bytes = 0;  // of a core
  uint64_t l3_bytes = 0;  // shared

  static CacheSizes OfThisMachine();
};

struct MemoryCeiling {
  std::string_view name{};   // "L1", "L2", "L3", "memory", "weights"
  uint64_t level_bytes = 0;  // that the level holds, of all threads; 0 = not known
  uint64_t set_bytes = 0;    // that were read, all threads' parts together
  double bytes_per_second = 0;
};

struct MachineCeilings {
  std::string kernels{};  // the set whose instructions the peaks are of
  int num_threads = 0;
  std::vector<MemoryCeiling> memory{};  // the smallest first, "weights" last
  ArithmeticPeaks peaks{};

  // What bounds a step: the rate of the weights and the peaks.
  MachineLimits limits() const;
};

struct CeilingOptions {
  uint64_t most_bytes = uint64_t{1} << 30;  // to be allocated; levels that take more are left out
  int repetitions = 3;                      // the best counts
  std::function<bool()> go_on{};            // asked before each read; false ends it; may be empty
};

// The sets by which the levels are told apart, without "weights".
std::vector<MemoryCeiling> LevelsToMeasure(const CacheSizes& caches, int num_threads,
                                           uint64_t most_bytes);

// Takes a second or less. `weights` may be empty: then memory, or the largest level measured, is
// what bounds. kInterrupted where go_on says so, kResourceExhausted without memory for the sets.
Result<MachineCeilings> MeasureCeilings(ThreadPool& threads, std::string_view kernels,
                                        std::span<const std::byte> weights,
                                        const CeilingOptions& options);

}  // namespace quire
