// Sixteen floats in one AVX-512 register: the vocabulary of kernels/generic/*-inl.h.
//
// Everything is in an anonymous namespace and inlined by force: a function of the same name that
// two instruction sets share would be merged by the linker, and run on the wrong processor.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/force_inline.h"

namespace quire::avx512 {
namespace {

// Vectors of accumulators that the register file holds beside their operands.
constexpr int kAccumulators = 24;

struct F32x16 {
  __m512 v;
};

QUIRE_FORCE_INLINE F32x16 Zero() { return {_mm512_setzero_ps()}; }
QUIRE_FORCE_INLINE F32x16 Set(float x) { return {_mm512_set1_ps(x)}; }

QUIRE_FORCE_INLINE __mmask16 FirstLanes(int n) { return static_cast<__mmask16>((1u << n) - 1u); }
// The first n lanes, 0 < n < 16; the others are 0 and their memory is not touched.
QUIRE_FORCE_INLINE F32x16 Load(const float* x) { return {_mm512_loadu_ps(x)}; }
QUIRE_FORCE_INLINE F32x16 LoadFirst(const float* x, int n) {
  return {_mm512_maskz_loadu_ps(FirstLanes(n), x)};
}
QUIRE_FORCE_INLINE void Store(F32x16 a, float* x) { _mm512_storeu_ps(x, a.v); }
QUIRE_FORCE_INLINE void StoreFirst(F32x16 a, float* x, int n) {
  _mm512_mask_storeu_ps(x, FirstLanes(n), a.v);
}

// The same over IEEE halves; storing rounds to nearest, ties to even.
QUIRE_FORCE_INLINE F32x16 Load(const uint16_t* x) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)))};
}
QUIRE_FORCE_INLINE F32x16 LoadFirst(const uint16_t* x, int n) {
  return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(FirstLanes(n), x))};
}
QUIRE_FORCE_INLINE void Store(F32x16 a, uint16_t* x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(x),
                      _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
QUIRE_FORCE_INLINE void StoreFirst(F32x16 a, uint16_t* x, int n) {
  _mm256_mask_storeu_epi16(x, FirstLanes(n),
                           _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

// bfloat16, the upper half of a float; a tie goes to the even one. (vcvtneps2bf16 would flush
// denormals.)
struct Bf16 {
  uint16_t bits;
};
QUIRE_FORCE_INLINE F32x16 WidenBf16(__m256i halves) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16))};
}
QUIRE_FORCE_INLINE __m256i RoundToBf16(F32x16 a) {
  const __m512i bits = _mm512_castps_si512(a.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(
      _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16));
}
QUIRE_FORCE_INLINE F32x16 Load(const Bf16* x) {
  return WidenBf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
}
QUIRE_FORCE_INLINE F32x16 LoadFirst(const Bf16* x, int n) {
  return WidenBf16(_mm256_maskz_loadu_epi16(FirstLanes(n), x));
}
QUIRE_FORCE_INLINE void Store(F32x16 a, Bf16* x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(x), RoundToBf16(a));
}
QUIRE_FORCE_INLINE void StoreFirst(F32x16 a, Bf16* x, int n) {
  _mm256_mask_storeu_epi16(x, FirstLanes(n), RoundToBf16(a));
}

// Rounded to bytes, ties to even: -128..127, and 0..255 with what is not a number as 0.
QUIRE_FORCE_INLINE void Store(F32x16 a, int8_t* x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(x), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a.v)));
}
QUIRE_FORCE_INLINE void Store(F32x16 a, uint8_t* x) { Store(a, reinterpret_cast<int8_t*>(x)); }

QUIRE_FORCE_INLINE F32x16 Add(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
QUIRE_FORCE_INLINE F32x16 Sub(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
QUIRE_FORCE_INLINE F32x16 Mul(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
QUIRE_FORCE_INLINE F32x16 Div(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
// a * b + c, -(a * b) + c and a * b - c, rounded once.
QUIRE_FORCE_INLINE F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
QUIRE_FORCE_INLINE F32x16 NegatedFma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm512_fnmadd_ps(a.v, b.v, c.v)};
}
QUIRE_FORCE_INLINE F32x16 FmaMinus(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm512_fmsub_ps(a.v, b.v, c.v)};
}
QUIRE_FORCE_INLINE F32x16 Negate(F32x16 a) { return {_mm512_xor_ps(a.v, _mm512_set1_ps(-0.0f))}; }
QUIRE_FORCE_INLINE F32x16 Abs(F32x16 a) { return {_mm512_abs_ps(a.v)}; }
// a > b ? a : b and a < b ? a : b, lane by lane: b where a lane is not a number.
QUIRE_FORCE_INLINE F32x16 Max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
QUIRE_FORCE_INLINE F32x16 Min(F32x16 a, F32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
QUIRE_FORCE_INLINE F32x16 RoundToEven(F32x16 a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// a * 2^n for whole n, but 0 where x < limit; elsewhere a normal number.
QUIRE_FORCE_INLINE F32x16 ScaleOrZeroWhereLess(F32x16 a, F32x16 n, F32x16 x, F32x16 limit) {
  return {_mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x.v, limit.v, _CMP_NLT_UQ), a.v, n.v)};
}
// a in the lanes first..end - 1, `other` elsewhere; first and end may lie outside 0..16.
QUIRE_FORCE_INLINE F32x16 KeepLanes(F32x16 a, int first, int end, F32x16 other) {
  const unsigned from = first > 0 ? (first < 16 ? first : 16) : 0;
  const unsigned to = end > 0 ? (end < 16 ? end : 16) : 0;
  const __mmask16 lanes = static_cast<__mmask16>(((1u << to) - 1u) & ~((1u << from) - 1u));
  return {_mm512_mask_mov_ps(other.v, lanes, a.v)};
}
// Whether every |a| is below the limit; false for a NaN.
QUIRE_FORCE_INLINE bool AllBelow(F32x16 a, float limit) {
  return _mm512_cmp_ps_mask(_mm512_abs_ps(a.v), _mm512_set1_ps(limit), _CMP_LT_OQ) == 0xffffu;
}

// The tree of docs/numerics.md: t[i] + t[i + w] for w = 8, 4, 2, 1.
QUIRE_FORCE_INLINE float SumOfLanes(F32x16 a) {
  const __m256 t8 = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 t4 = _mm_add_ps(_mm256_castps256_ps128(t8), _mm256_extractf128_ps(t8, 1));
  const __m128 t2 = _mm_add_ps(t4, _mm_movehl_ps(t4, t4));
  return _mm_cvtss_f32(_mm_add_ss(t2, _mm_shuffle_ps(t2, t2, 1)));
}
// No lane is a NaN.
QUIRE_FORCE_INLINE float MaxOfLanes(F32x16 a) {
  const __m256 t8 = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 t4 = _mm_max_ps(_mm256_castps256_ps128(t8), _mm256_extractf128_ps(t8, 1));
  const __m128 t2 = _mm_max_ps(t4, _mm_movehl_ps(t4, t4));
  return _mm_cvtss_f32(_mm_max_ss(t2, _mm_shuffle_ps(t2, t2, 1)));
}
QUIRE_FORCE_INLINE float FirstLane(F32x16 a) { return _mm512_cvtss_f32(a.v); }
QUIRE_FORCE_INLINE float SquareRoot(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

// 16 pairs: x[0], x[2], ... and x[1], x[3], ... of the 32 floats of (low, high).
struct Pairs {
  F32x16 first;
  F32x16 second;
};
QUIRE_FORCE_INLINE Pairs LoadPairs(const float* x) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
  const __m512 low = _mm512_loadu_ps(x);
  const __m512 high = _mm512_loadu_ps(x + 16);
  return {{_mm512_permutex2var_ps(low, even, high)}, {_mm512_permutex2var_ps(low, odd, high)}};
}
QUIRE_FORCE_INLINE void StorePairs(F32x16 first, F32x16 second, float* x) {
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  _mm512_storeu_ps(x, _mm512_permutex2var_ps(first.v, low, second.v));
  _mm512_storeu_ps(x + 16, _mm512_permutex2var_ps(first.v, high, second.v));
}

QUIRE_FORCE_INLINE void Prefetch(const void* address) {
  _mm_prefetch(static_cast<const char*>(address), _MM_HINT_T0);
}

}  // namespace
}  // namespace quire::avx512
