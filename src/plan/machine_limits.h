// What this machine can do at best, measured: the yardsticks that benchmarks print fractions of.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/thread_pool.h"

namespace quire {

// Seconds that all threads together need to read the bytes once. Run it right before and after what
// it is compared with: the bandwidth of a shared machine changes within minutes.
double ReadSeconds(ThreadPool& pool, std::span<const std::byte> bytes);

// Bytes a second at which all threads read a set: small ones again and again, each thread its own
// part, for some milliseconds: the bandwidth of whatever holds that many bytes; those of tens of
// megabytes once, in pieces that threads take as they come free, as weights are. 0 for a set
// too small to part.
double SettledReadRate(ThreadPool& pool, std::span<const std::byte> bytes);

// Writes the bytes: pages that nobody has written are all one page of zeros.
void TouchPages(ThreadPool& pool, std::span<std::byte> bytes);

// Best rates. An int8 operation counts a multiplication and an addition as two operations and
// uses the widest byte products the processor has (VNNI, else pairs of 16 bits); F32 likewise.
// Named after a kernel set, "avx2", they are those of that set's instructions.
struct ArithmeticPeaks {
  double int8_ops_per_second = 0;
  double f32_ops_per_second = 0;
};
ArithmeticPeaks MeasureArithmeticPeaks(std::string_view kernels = {});
// The rates of all threads of the pool together: less than so many times one where they share
// cores.
ArithmeticPeaks MeasureArithmeticPeaks(ThreadPool& pool, std::string_view kernels = {});

}  // namespace quire
