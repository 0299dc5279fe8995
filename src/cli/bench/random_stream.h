// Random numbers of a benchmark: the same load from the same seed, on every machine.
#pragma once

#include <cstdint>

namespace quire {

// A sequence of draws. Streams of one seed are independent of each other.
class RandomStream {
 public:
  RandomStream(uint64_t seed, uint32_t stream) : seed_(seed), stream_(stream) {}

  // In (0, 1].
  double Uniform();
  // 0..limit - 1; limit is at least 1.
  int Below(int limit);
  // Mean 0, variance 1.
  double Normal();
  // With this mean (of the distribution itself, above 0) and this deviation of its logarithm.
  double LogNormal(double mean, double sigma);
  // The gap between two arrivals of a Poisson process of this rate.
  double Exponential(double rate);

 private:
  uint64_t Bits();

  uint64_t seed_;
  uint32_t stream_;
  uint64_t counter_ = 0;
};

}  // namespace quire
