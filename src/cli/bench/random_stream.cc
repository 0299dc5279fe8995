#include "cli/bench/random_stream.h"

#include <cmath>

#include "base/exact_math.h"
#include "sampling/philox.h"

namespace quire {

uint64_t RandomStream::Bits() {
  const uint64_t at = counter_++;
  const auto words =
      Philox4x32({static_cast<uint32_t>(at), static_cast<uint32_t>(at >> 32), stream_, 0},
                 {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
  return (static_cast<uint64_t>(words[0]) << 32) | words[1];
}

double RandomStream::Uniform() {
  constexpr double kUnit = 1.0 / (uint64_t{1} << 53);
  return static_cast<double>((Bits() >> 11) + 1) * kUnit;
}

int RandomStream::Below(int limit) {
  // The bias of a 32-bit fraction is far below what a benchmark can see.
  return static_cast<int>(((Bits() >> 32) * static_cast<uint64_t>(limit)) >> 32);
}

double RandomStream::Normal() {
  // Box and Muller (1958).
  constexpr double kTwoPi = 6.283185307179586;
  const double radius = std::sqrt(-2 * exact::Log(Uniform()));
  return radius * exact::SinCosOf(kTwoPi * Uniform()).cos;
}

double RandomStream::LogNormal(double mean, double sigma) {
  return exact::Exp(exact::Log(mean) - sigma * sigma / 2 + sigma * Normal());
}

double RandomStream::Exponential(double rate) { return -exact::Log(Uniform()) / rate; }

}  // namespace quire
