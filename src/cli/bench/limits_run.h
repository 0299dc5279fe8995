// This machine's limits, and the share of them that a speed test reaches.
//
// A share is of limits measured right before and after the test, in the same process and with the
// same threads, because the bandwidth of a shared machine changes within minutes. Bytes and
// operations are those of arithmetic (plan/step_cost.h), so that a share cannot rise by
// reading more.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cli/bench/figures.h"
#include "cli/bench/speed_test.h"
#include "plan/machine_limits.h"
#include "plan/step_cost.h"

namespace quire {

// How fast so many bytes, all threads' parts together, are read again and again.
struct SetRead {
  size_t bytes = 0;
  Summary bytes_per_second{};
};

struct MachineReport {
  int threads = 0;
  std::string kernels{};  // the set whose instructions the peaks are of; empty = the widest
  std::vector<SetRead> reads{};
  ArithmeticPeaks peaks{};
  size_t left_out_bytes = 0;  // the smallest set that free memory has no room for; 0 = none
};

inline constexpr size_t kSmallestSet = size_t{32} << 10;

// kSmallestSet, twice that, ... up to 1 GiB.
std::vector<size_t> DefaultWorkingSets();

// Sets that take more than half of the free memory are left out. kInterrupted when `go_on` returns
// false.
Result<MachineReport> MeasureMachine(int num_threads, const std::string& kernels,
                                     std::span<const size_t> working_sets, int repetitions,
                                     const std::function<bool()>& go_on);

// One run of a speed test beside the limits measured around it.
struct LimitSample {
  SpeedSample speed{};
  MachineLimits limits{};
  double seconds = 0;
  double bytes_per_second = 0;  // of weights, keys and values
  double share_of_read = 0;     // of the read bandwidth
  double share_of_int8 = 0;     // of the int8 peak, by the products of quantised matrices
  Bound bound{};
  double share_of_limit() const { return bound.limit_ms() / (1000 * seconds); }
};

// Bytes and operations of the timed part of a test.
StepCost CostOfTest(const Engine& engine, const SpeedTest& test);

Result<LimitSample> MeasureBesideLimits(Engine& engine, const SpeedTest& test,
                                        std::span<const int32_t> vocabulary, uint64_t seed,
                                        const std::function<bool()>& go_on);

}  // namespace quire
