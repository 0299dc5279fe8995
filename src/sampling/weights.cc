#include "sampling/weights.h"

#include <bit>

#include "base/check.h"

namespace quire {
namespace {

constexpr double kInverseLn2 = 1.44269504088896338700;
// ln 2 in two parts; the first has 33 bits, so that its product with a small integer is exact.
constexpr double kLn2High = 6.93147180369123816490e-01;
constexpr double kLn2Low = 1.90821492927058770002e-10;
// Adding it rounds a small double to an integer, which then stands in the low bits.
constexpr double kRoundingShift = 6755399441055744.0;  // 1.5 * 2^52
constexpr double kIntegerShift = 4503599627370496.0;   // 2^52
// e^-64 * 2^43 rounds to 0.
constexpr double kLowest = -64.0;

// round(e^x * 2^kWeightBits), kLowest <= x <= 0.
[[gnu::always_inline]] inline uint64_t WeightOf(double x) {
  const double shifted = x * kInverseLn2 + kRoundingShift;
  const double n = shifted - kRoundingShift;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  const uint64_t exponent = std::bit_cast<uint64_t>(shifted) -
                            std::bit_cast<uint64_t>(kRoundingShift) + 1023 + kWeightBits;
  const double scaled = p * std::bit_cast<double>(exponent << 52);
  return std::bit_cast<uint64_t>(scaled + kIntegerShift) - std::bit_cast<uint64_t>(kIntegerShift);
}

[[gnu::always_inline]] inline void WeighAll(const float* __restrict logits, size_t count,
                                            double highest, double inverse_temperature,
                                            uint64_t* __restrict weights) {
  for (size_t i = 0; i < count; ++i) {
    const double x = (static_cast<double>(logits[i]) - highest) * inverse_temperature;
    weights[i] = WeightOf(x > kLowest ? x : kLowest);
  }
}

using Weigh = void (*)(const float* logits, size_t count, double highest,
                       double inverse_temperature, uint64_t* weights);

void WeighPortably(const float* logits, size_t count, double highest, double inverse_temperature,
                   uint64_t* weights) {
  WeighAll(logits, count, highest, inverse_temperature, weights);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void WeighWithAvx2(const float* logits, size_t count, double highest,
                                           double inverse_temperature, uint64_t* weights) {
  WeighAll(logits, count, highest, inverse_temperature, weights);
}

Weigh FastestWeigh() { return __builtin_cpu_supports("avx2") ? WeighWithAvx2 : WeighPortably; }
#else
Weigh FastestWeigh() { return WeighPortably; }
#endif

}  // namespace

void ComputeWeights(std::span<const float> logits, float highest, double inverse_temperature,
                    std::span<uint64_t> weights) {
  QUIRE_CHECK(logits.size() == weights.size(), "{} logits, {} weights", logits.size(),
              weights.size());
  static const Weigh weigh = FastestWeigh();
  weigh(logits.data(), logits.size(), highest, inverse_temperature, weights.data());
}

void ComputeWeightsPortably(std::span<const float> logits, float highest,
                            double inverse_temperature, std::span<uint64_t> weights) {
  QUIRE_CHECK(logits.size() == weights.size(), "{} logits, {} weights", logits.size(),
              weights.size());
  WeighPortably(logits.data(), logits.size(), highest, inverse_temperature, weights.data());
}

uint64_t SumWeights(std::span<const uint64_t> weights) {
  uint64_t sum = 0;
  for (const uint64_t weight : weights) sum += weight;
  return sum;
}

}  // namespace quire
