// Included inside the namespace of an instruction set, after its vector.h and base/exact_math.h.
#pragma once

namespace {

// exact::ExpF of each lane.
QUIRE_FORCE_INLINE F32x16 Exp(F32x16 x) {
  const F32x16 capped = Min(x, Set(exact::kExpHighest));
  const F32x16 n = RoundToEven(Mul(capped, Set(exact::kLog2E)));
  const F32x16 r = NegatedFma(n, Set(exact::kLn2Low), NegatedFma(n, Set(exact::kLn2High), capped));
  F32x16 p = Set(exact::kExpPolynomial[0]);
  p = Fma(p, r, Set(exact::kExpPolynomial[1]));
  p = Fma(p, r, Set(exact::kExpPolynomial[2]));
  p = Fma(p, r, Set(exact::kExpPolynomial[3]));
  p = Fma(p, r, Set(exact::kExpPolynomial[4]));
  p = Fma(p, r, Set(exact::kExpPolynomial[5]));
  const F32x16 mantissa = Add(Fma(p, Mul(r, r), r), Set(1.0f));
  return ScaleOrZeroWhereLess(mantissa, n, x, Set(exact::kExpLowest));
}

}  // namespace
