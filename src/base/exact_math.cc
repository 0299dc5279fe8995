#include "base/exact_math.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace quire::exact {
namespace {

constexpr double kLn2High64 = 6.93147180369123816490e-01;  // 32 trailing zero bits
constexpr double kLn2Low64 = 1.90821492927058770002e-10;
constexpr double kInverseLn2 = 1.44269504088896338700e+00;
constexpr double kTwoOverPi = 6.36619772367581382433e-01;
// pi / 2 in three parts of 33 bits, so that n * part is exact for n below 2^20.
constexpr double kHalfPi1 = 1.57079632673412561417e+00;
constexpr double kHalfPi2 = 6.07710050630396597660e-11;
constexpr double kHalfPi3 = 2.02226624879595063154e-21;

// sum of c[i] * x^i, highest power first.
template <int kCount>
double Horner(const double (&coefficients)[kCount], double x) {
  double value = coefficients[0];
  for (int i = 1; i < kCount; ++i) value = std::fma(value, x, coefficients[i]);
  return value;
}

double ScaleByPowerOfTwo(double value, int exponent) {
  const auto power = [](int e) {
    return std::bit_cast<double>(static_cast<uint64_t>(e + 1023) << 52);
  };
  // Two steps, so that subnormal results and 2^1024 are reached without an overflowing factor.
  const int half = exponent / 2;
  return value * power(half) * power(exponent - half);
}

}  // namespace

double Exp(double x) {
  if (x < -745.0) return 0.0;
  if (x > 709.78) return std::numeric_limits<double>::infinity();
  const double n = std::nearbyint(x * kInverseLn2);
  const double r = std::fma(-n, kLn2Low64, std::fma(-n, kLn2High64, x));
  static constexpr double kTaylor[] = {1.0 / 6227020800.0,
                                       1.0 / 479001600.0,
                                       1.0 / 39916800.0,
                                       1.0 / 3628800.0,
                                       1.0 / 362880.0,
                                       1.0 / 40320.0,
                                       1.0 / 5040.0,
                                       1.0 / 720.0,
                                       1.0 / 120.0,
                                       1.0 / 24.0,
                                       1.0 / 6.0,
                                       0.5,
                                       1.0,
                                       1.0};
  return ScaleByPowerOfTwo(Horner(kTaylor, r), static_cast<int>(n));
}

double Log(double x) {
  if (x == 0.0) return -std::numeric_limits<double>::infinity();
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL);
  if (mantissa > 1.41421356237309504880) {
    mantissa *= 0.5;
    ++exponent;
  }
  // log(m) = 2 * atanh(s), s = (m - 1) / (m + 1), |s| <= 0.1716.
  const double s = (mantissa - 1.0) / (mantissa + 1.0);
  static constexpr double kSeries[] = {2.0 / 21.0, 2.0 / 19.0, 2.0 / 17.0, 2.0 / 15.0, 2.0 / 13.0,
                                       2.0 / 11.0, 2.0 / 9.0,  2.0 / 7.0,  2.0 / 5.0,  2.0 / 3.0};
  const double square = s * s;
  const double tail = square * s * Horner(kSeries, square);
  const double n = exponent;
  return std::fma(n, kLn2High64, std::fma(2.0, s, std::fma(n, kLn2Low64, tail)));
}

double Pow(double base, double exponent) { return Exp(exponent * Log(base)); }

SinCos SinCosOf(double x) {
  const double n = std::nearbyint(x * kTwoOverPi);
  const double r = std::fma(-n, kHalfPi3, std::fma(-n, kHalfPi2, std::fma(-n, kHalfPi1, x)));
  static constexpr double kSin[] = {
      1.0 / 355687428096000.0, -1.0 / 1307674368000.0, 1.0 / 6227020800.0, -1.0 / 39916800.0,
      1.0 / 362880.0,          -1.0 / 5040.0,          1.0 / 120.0,        -1.0 / 6.0};
  static constexpr double kCos[] = {
      1.0 / 20922789888000.0, -1.0 / 87178291200.0, 1.0 / 479001600.0, -1.0 / 3628800.0,
      1.0 / 40320.0,          -1.0 / 720.0,         1.0 / 24.0,        -0.5};
  const double square = r * r;
  const double sine = std::fma(square * r, Horner(kSin, square), r);
  const double cosine = std::fma(square, Horner(kCos, square), 1.0);
  switch (static_cast<int64_t>(n) & 3) {
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, -sine};
    case 2:
      return {-sine, -cosine};
    default:
      return {-cosine, sine};
  }
}

float ExpF(float x) {
  if (x < kExpLowest) return 0.0f;
  x = x < kExpHighest ? x : kExpHighest;
  const float n = std::nearbyintf(x * kLog2E);
  const float r = std::fmaf(-n, kLn2Low, std::fmaf(-n, kLn2High, x));
  float p = kExpPolynomial[0];
  for (int i = 1; i < 6; ++i) p = std::fmaf(p, r, kExpPolynomial[i]);
  const float mantissa = std::fmaf(p, r * r, r) + 1.0f;
  return std::bit_cast<float>(std::bit_cast<int32_t>(mantissa) + (static_cast<int32_t>(n) << 23));
}

}  // namespace quire::exact
