// Sixteen floats in two AVX2 registers: the vocabulary of kernels/generic/*-inl.h.
//
// Everything is in an anonymous namespace and inlined by force: a function of the same name that
// two instruction sets share would be merged by the linker, and run on the wrong processor.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/force_inline.h"

namespace quire::avx2 {
namespace {

// Vectors of accumulators that the register file holds beside their operands (six, where only one
// vector and one broadcast pass by them).
constexpr int kAccumulators = 5;

struct F32x16 {
  __m256 lo;
  __m256 hi;
};

QUIRE_FORCE_INLINE F32x16 Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
QUIRE_FORCE_INLINE F32x16 Set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }

// Lane i of the result is -1 where i < n.
QUIRE_FORCE_INLINE __m256i LanesBelow(int n, int first_lane) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n - first_lane),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
// The first n lanes, 0 < n < 16; the others are 0 and their memory is not touched.
QUIRE_FORCE_INLINE F32x16 Load(const float* x) {
  return {_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8)};
}
QUIRE_FORCE_INLINE F32x16 LoadFirst(const float* x, int n) {
  return {_mm256_maskload_ps(x, LanesBelow(n, 0)), _mm256_maskload_ps(x + 8, LanesBelow(n, 8))};
}
QUIRE_FORCE_INLINE void Store(F32x16 a, float* x) {
  _mm256_storeu_ps(x, a.lo);
  _mm256_storeu_ps(x + 8, a.hi);
}
QUIRE_FORCE_INLINE void StoreFirst(F32x16 a, float* x, int n) {
  _mm256_maskstore_ps(x, LanesBelow(n, 0), a.lo);
  _mm256_maskstore_ps(x + 8, LanesBelow(n, 8), a.hi);
}

// The same over IEEE halves; storing rounds to nearest, ties to even.
QUIRE_FORCE_INLINE F32x16 Load(const uint16_t* x) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x))),
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + 8)))};
}
QUIRE_FORCE_INLINE F32x16 LoadFirst(const uint16_t* x, int n) {
  uint16_t lanes[16] = {};
  for (int i = 0; i < n; ++i) lanes[i] = x[i];
  return Load(lanes);
}
QUIRE_FORCE_INLINE void Store(F32x16 a, uint16_t* x) {
  constexpr int kRounding = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(x), _mm256_cvtps_ph(a.lo, kRounding));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(x + 8), _mm256_cvtps_ph(a.hi, kRounding));
}
QUIRE_FORCE_INLINE void StoreFirst(F32x16 a, uint16_t* x, int n) {
  uint16_t lanes[16];
  Store(a, lanes);
  for (int i = 0; i < n; ++i) x[i] = lanes[i];
}

// bfloat16, the upper half of a float.
struct Bf16 {
  uint16_t bits;
};
QUIRE_FORCE_INLINE __m256 WidenBf16(__m128i halves) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}
// The rounded upper halves, in the low 16 bits of each lane; a tie goes to the even one.
QUIRE_FORCE_INLINE __m256i RoundToBf16(__m256 a) {
  const __m256i bits = _mm256_castps_si256(a);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  return _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))),
                           16);
}
QUIRE_FORCE_INLINE F32x16 Load(const Bf16* x) {
  return {WidenBf16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x))),
          WidenBf16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + 8)))};
}
QUIRE_FORCE_INLINE F32x16 LoadFirst(const Bf16* x, int n) {
  Bf16 lanes[16] = {};
  for (int i = 0; i < n; ++i) lanes[i] = x[i];
  return Load(lanes);
}
QUIRE_FORCE_INLINE void Store(F32x16 a, Bf16* x) {
  const __m256i packed = _mm256_packus_epi32(RoundToBf16(a.lo), RoundToBf16(a.hi));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(x), _mm256_permute4x64_epi64(packed, 0xd8));
}
QUIRE_FORCE_INLINE void StoreFirst(F32x16 a, Bf16* x, int n) {
  Bf16 lanes[16];
  Store(a, lanes);
  for (int i = 0; i < n; ++i) x[i] = lanes[i];
}

// Rounded to bytes, ties to even: -128..127, and 0..255 with what is not a number as 0.
QUIRE_FORCE_INLINE __m256i RoundToWords(F32x16 a) {
  const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi));
  return _mm256_permute4x64_epi64(words, 0xd8);
}
QUIRE_FORCE_INLINE void Store(F32x16 a, int8_t* x) {
  const __m256i words = RoundToWords(a);
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(x),
      _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}
QUIRE_FORCE_INLINE void Store(F32x16 a, uint8_t* x) {
  const __m256i words = RoundToWords(a);
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(x),
      _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}

QUIRE_FORCE_INLINE F32x16 Add(F32x16 a, F32x16 b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
QUIRE_FORCE_INLINE F32x16 Sub(F32x16 a, F32x16 b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
QUIRE_FORCE_INLINE F32x16 Mul(F32x16 a, F32x16 b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
QUIRE_FORCE_INLINE F32x16 Div(F32x16 a, F32x16 b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
// a * b + c, -(a * b) + c and a * b - c, rounded once.
QUIRE_FORCE_INLINE F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
QUIRE_FORCE_INLINE F32x16 NegatedFma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)};
}
QUIRE_FORCE_INLINE F32x16 FmaMinus(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmsub_ps(a.lo, b.lo, c.lo), _mm256_fmsub_ps(a.hi, b.hi, c.hi)};
}
QUIRE_FORCE_INLINE F32x16 Negate(F32x16 a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_xor_ps(a.lo, sign), _mm256_xor_ps(a.hi, sign)};
}
QUIRE_FORCE_INLINE F32x16 Abs(F32x16 a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
// a > b ? a : b and a < b ? a : b, lane by lane: b where a lane is not a number.
QUIRE_FORCE_INLINE F32x16 Max(F32x16 a, F32x16 b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
QUIRE_FORCE_INLINE F32x16 Min(F32x16 a, F32x16 b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
QUIRE_FORCE_INLINE F32x16 RoundToEven(F32x16 a) {
  constexpr int kRounding = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(a.lo, kRounding), _mm256_round_ps(a.hi, kRounding)};
}
// a * 2^n for whole n, by adding n to the exponent's bits.
QUIRE_FORCE_INLINE __m256 ScaleByPowerOfTwo(__m256 a, __m256 n) {
  return _mm256_castsi256_ps(
      _mm256_add_epi32(_mm256_castps_si256(a), _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23)));
}
// The same, but 0 where x < limit; elsewhere a normal number.
QUIRE_FORCE_INLINE F32x16 ScaleOrZeroWhereLess(F32x16 a, F32x16 n, F32x16 x, F32x16 limit) {
  return {_mm256_and_ps(_mm256_cmp_ps(x.lo, limit.lo, _CMP_NLT_UQ), ScaleByPowerOfTwo(a.lo, n.lo)),
          _mm256_and_ps(_mm256_cmp_ps(x.hi, limit.hi, _CMP_NLT_UQ), ScaleByPowerOfTwo(a.hi, n.hi))};
}
// a in the lanes first..end - 1, `other` elsewhere; first and end may lie outside 0..16.
QUIRE_FORCE_INLINE F32x16 KeepLanes(F32x16 a, int first, int end, F32x16 other) {
  const __m256i lo = _mm256_andnot_si256(LanesBelow(first, 0), LanesBelow(end, 0));
  const __m256i hi = _mm256_andnot_si256(LanesBelow(first, 8), LanesBelow(end, 8));
  return {_mm256_blendv_ps(other.lo, a.lo, _mm256_castsi256_ps(lo)),
          _mm256_blendv_ps(other.hi, a.hi, _mm256_castsi256_ps(hi))};
}
// Whether every |a| is below the limit; false for a NaN.
QUIRE_FORCE_INLINE bool AllBelow(F32x16 a, float limit) {
  const F32x16 magnitudes = Abs(a);
  const __m256 bound = _mm256_set1_ps(limit);
  const __m256 lo = _mm256_cmp_ps(magnitudes.lo, bound, _CMP_LT_OQ);
  const __m256 hi = _mm256_cmp_ps(magnitudes.hi, bound, _CMP_LT_OQ);
  return _mm256_movemask_ps(_mm256_and_ps(lo, hi)) == 0xff;
}

// The tree of docs/numerics.md: t[i] + t[i + w] for w = 8, 4, 2, 1.
QUIRE_FORCE_INLINE float SumOfLanes(F32x16 a) {
  const __m256 t8 = _mm256_add_ps(a.lo, a.hi);
  const __m128 t4 = _mm_add_ps(_mm256_castps256_ps128(t8), _mm256_extractf128_ps(t8, 1));
  const __m128 t2 = _mm_add_ps(t4, _mm_movehl_ps(t4, t4));
  return _mm_cvtss_f32(_mm_add_ss(t2, _mm_shuffle_ps(t2, t2, 1)));
}
// No lane is a NaN.
QUIRE_FORCE_INLINE float MaxOfLanes(F32x16 a) {
  const __m256 t8 = _mm256_max_ps(a.lo, a.hi);
  const __m128 t4 = _mm_max_ps(_mm256_castps256_ps128(t8), _mm256_extractf128_ps(t8, 1));
  const __m128 t2 = _mm_max_ps(t4, _mm_movehl_ps(t4, t4));
  return _mm_cvtss_f32(_mm_max_ss(t2, _mm_shuffle_ps(t2, t2, 1)));
}
QUIRE_FORCE_INLINE float FirstLane(F32x16 a) { return _mm256_cvtss_f32(a.lo); }
QUIRE_FORCE_INLINE float SquareRoot(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

// 16 pairs: x[0], x[2], ... and x[1], x[3], ... of 32 floats.
struct Pairs {
  F32x16 first;
  F32x16 second;
};
template <int kShuffle>
QUIRE_FORCE_INLINE __m256 EveryOther(__m256 low, __m256 high) {
  const __m256d quarters = _mm256_castps_pd(_mm256_shuffle_ps(low, high, kShuffle));
  return _mm256_castpd_ps(_mm256_permute4x64_pd(quarters, 0xd8));
}
QUIRE_FORCE_INLINE Pairs LoadPairs(const float* x) {
  const F32x16 low = Load(x);
  const F32x16 high = Load(x + 16);
  return {{EveryOther<0x88>(low.lo, low.hi), EveryOther<0x88>(high.lo, high.hi)},
          {EveryOther<0xdd>(low.lo, low.hi), EveryOther<0xdd>(high.lo, high.hi)}};
}
QUIRE_FORCE_INLINE void StoreEightPairs(__m256 first, __m256 second, float* x) {
  const __m256 low = _mm256_unpacklo_ps(first, second);
  const __m256 high = _mm256_unpackhi_ps(first, second);
  _mm256_storeu_ps(x, _mm256_permute2f128_ps(low, high, 0x20));
  _mm256_storeu_ps(x + 8, _mm256_permute2f128_ps(low, high, 0x31));
}
QUIRE_FORCE_INLINE void StorePairs(F32x16 first, F32x16 second, float* x) {
  StoreEightPairs(first.lo, second.lo, x);
  StoreEightPairs(first.hi, second.hi, x + 16);
}

QUIRE_FORCE_INLINE void Prefetch(const void* address) {
  _mm_prefetch(static_cast<const char*>(address), _MM_HINT_T0);
}

}  // namespace
}  // namespace quire::avx2
