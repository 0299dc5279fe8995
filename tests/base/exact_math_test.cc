// Against long double libm, whose 64-bit mantissas are exact enough to count units in the last
// place of a double.
#include "base/exact_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace quire::exact {
namespace {

// Units in the last place of `expected`, rounded to the type of `got`, between the two.
template <typename Float>
double UlpsBetween(Float got, long double expected) {
  const Float rounded = static_cast<Float>(expected);
  const Float unit =
      std::nextafter(std::abs(rounded), std::numeric_limits<Float>::infinity()) - std::abs(rounded);
  return static_cast<double>(std::abs(static_cast<long double>(got) - expected) / unit);
}

constexpr int kSamples = 200'000;

TEST(ExactMath, ExpIsWithinTwoUnits) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> wide(-708.0, 709.7);
  std::uniform_real_distribution<double> narrow(-1.0, 1.0);
  double worst = 0;
  for (int i = 0; i < kSamples; ++i) {
    const double x = i % 2 == 0 ? wide(random) : narrow(random);
    worst = std::max(worst, UlpsBetween(Exp(x), expl(x)));
  }
  EXPECT_LT(worst, 2.0);
  RecordProperty("worst_ulps", std::to_string(worst));
}

TEST(ExactMath, ExpHasExactEnds) {
  EXPECT_EQ(Exp(0.0), 1.0);
  EXPECT_EQ(Exp(-0.0), 1.0);
  EXPECT_EQ(Exp(-745.5), 0.0);
  EXPECT_EQ(Exp(-std::numeric_limits<double>::infinity()), 0.0);
  EXPECT_EQ(Exp(709.79), std::numeric_limits<double>::infinity());
  EXPECT_LT(Exp(709.78), std::numeric_limits<double>::infinity());
  EXPECT_NEAR(Exp(-740.0) / std::numeric_limits<double>::denorm_min(), 85.0, 1.0);
}

TEST(ExactMath, LogIsWithinTwoUnits) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> exponent(-300.0, 300.0);
  std::uniform_real_distribution<double> near_one(0.5, 2.0);
  double worst = 0;
  for (int i = 0; i < kSamples; ++i) {
    const double x = i % 2 == 0 ? std::pow(10.0, exponent(random)) : near_one(random);
    worst = std::max(worst, UlpsBetween(Log(x), logl(x)));
  }
  EXPECT_LT(worst, 2.0);
  RecordProperty("worst_ulps", std::to_string(worst));
}

TEST(ExactMath, LogHasExactEnds) {
  EXPECT_EQ(Log(1.0), 0.0);
  EXPECT_EQ(Log(0.0), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(Log(2.0), std::log(2.0));
}

// The rounding of exponent * Log(base), up to 16 here, is an absolute error of the exponential.
TEST(ExactMath, PowOfRopeFrequenciesIsWithin24Units) {
  double worst = 0;
  for (const double base : {10000.0, 500000.0, 1e6, 1e7}) {
    for (int i = 0; i < 512; ++i) {
      const double exponent = -i / 512.0;
      worst = std::max(worst, UlpsBetween(Pow(base, exponent), powl(base, exponent)));
    }
  }
  EXPECT_LT(worst, 24.0);
  RecordProperty("worst_ulps", std::to_string(worst));
}

// Near a zero of the result its own unit is arbitrarily small, so errors are counted in units of 1.
TEST(ExactMath, SinesAndCosinesAreWithinOneUnitOfOne) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> exponent(-10.0, std::log(1048575.0));
  long double worst = 0;
  for (int i = 0; i < kSamples; ++i) {
    const double x = (i % 2 == 0 ? 1 : -1) * std::exp(exponent(random));
    const SinCos got = SinCosOf(x);
    worst = std::max({worst, std::abs(got.sin - sinl(x)), std::abs(got.cos - cosl(x))});
  }
  EXPECT_LT(static_cast<double>(worst), std::numeric_limits<double>::epsilon());
  RecordProperty("worst_units", std::to_string(static_cast<double>(worst) * 0x1p52));
}

TEST(ExactMath, SinesOfMultiplesOfAQuarterTurnPickTheirQuadrant) {
  for (int64_t n = -400'000; n <= 400'000; n += 997) {
    const double x = static_cast<double>(n) * 1.5707963267948966;
    const SinCos got = SinCosOf(x);
    EXPECT_NEAR(got.sin, static_cast<double>(sinl(x)), 1e-15) << n;
    EXPECT_NEAR(got.cos, static_cast<double>(cosl(x)), 1e-15) << n;
  }
  EXPECT_EQ(SinCosOf(0.0).sin, 0.0);
  EXPECT_EQ(SinCosOf(0.0).cos, 1.0);
}

TEST(ExactMath, ExpFIsWithinTwoUnits) {
  double worst = 0;
  // Every 1,201st float of the range, both signs.
  for (uint32_t bits = 0; bits <= std::bit_cast<uint32_t>(88.0f); bits += 1201) {
    const float x = std::bit_cast<float>(bits);
    worst = std::max(worst, UlpsBetween(ExpF(x), expl(x)));
    if (x <= 87.0f) worst = std::max(worst, UlpsBetween(ExpF(-x), expl(-x)));
  }
  EXPECT_LT(worst, 2.0);
  RecordProperty("worst_ulps", std::to_string(worst));
}

TEST(ExactMath, ExpFHasExactEnds) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(ExpF(0.0f), 1.0f);
  EXPECT_EQ(ExpF(-0.0f), 1.0f);
  EXPECT_GT(ExpF(-87.0f), 0.0f);
  EXPECT_EQ(ExpF(std::nextafter(-87.0f, -infinity)), 0.0f);
  EXPECT_EQ(ExpF(-infinity), 0.0f);
  EXPECT_EQ(ExpF(infinity), ExpF(88.0f));
  EXPECT_LT(ExpF(88.0f), infinity);
}

}  // namespace
}  // namespace quire::exact
