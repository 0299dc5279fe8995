// Elementary functions that give the same bits on every machine and in every build.
//
// libm differs between versions and vendors, so nothing in the forward pass and the sampler calls
// it: these are polynomials over IEEE additions, multiplications, divisions and fused
// multiply-adds, evaluated in the order written. The vector kernels compute ExpF the same way, lane
// by lane, and are compared with == in tests.
#pragma once

namespace quire::exact {

// e^x, within 2 units in the last place. 0 below -745, infinity above 709.78.
double Exp(double x);
// Natural logarithm, within 2 units in the last place. x > 0, normal; -infinity at 0.
double Log(double x);
// base^exponent = Exp(exponent * Log(base)). base > 0.
double Pow(double base, double exponent);

struct SinCos {
  double sin;
  double cos;
};
// |x| below 2^20 radians: rope angles of every context that fits in memory.
SinCos SinCosOf(double x);

// The constants of ExpF, shared with the vector kernels.
inline constexpr float kExpLowest = -87.0f;  // below: exactly 0
inline constexpr float kExpHighest = 88.0f;  // above: e^88
inline constexpr float kLog2E = 1.44269504f;
inline constexpr float kLn2High = 0.693359375f;
inline constexpr float kLn2Low = -2.12194440e-4f;
inline constexpr float kExpPolynomial[6] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                                            4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};

// e^x in float, within 2 units in the last place (the classic single-precision Cephes polynomial):
//   x < -87 gives 0; x = min(x, 88); n = round-to-even(x * log2(e));
//   r = fma(-n, kLn2Low, fma(-n, kLn2High, x)); p = Horner(kExpPolynomial, r) by fma;
//   result = 2^n * (fma(p, r * r, r) + 1).
float ExpF(float x);

}  // namespace quire::exact
