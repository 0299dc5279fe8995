// Vectors of 8 outputs for the matmul templates (kernels/generic/matmul_tile-inl.h) and for the
// q8_0 scores of attention (kernels/generic/attention_q8_0-inl.h); products of bytes are added in
// pairs of 16 bits first.
//
// For avx2/matmul.cc and avx2/attention.cc only: everything has internal linkage, as in
// avx512/byte_vector.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/force_inline.h"

namespace quire {
namespace {

struct Avx2 {
  using Bytes = __m256i;
  using Ints = __m256i;
  using Floats = __m256;
  static constexpr int kLanes = 8;
  static constexpr int kParts = 2;  // vectors in a row block
  // By Format::kChain: rows of a tile whose sums fit the 16 registers (short chains of pair sums
  // need wide sums beside them).
  static constexpr int PackedTileRows(int chain) { return chain <= 2 ? 2 : 4; }
  // By Format::kChain: rows that pay for expanding a strip, more where unpacking is quick.
  static constexpr bool Expands(int) { return true; }
  static constexpr int ExpandFrom(int chain) { return chain == 8 ? 24 : 8; }
  static constexpr int kStripRows = 4;   // of a tile
  static constexpr int kTileBlocks = 1;  // row blocks of a tile
  static constexpr bool kPairs = true;

  static QUIRE_FORCE_INLINE Bytes LoadBytes(const uint8_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static QUIRE_FORCE_INLINE void StoreBytes(uint8_t* p, Bytes v) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(p), v);
  }
  static QUIRE_FORCE_INLINE Bytes SetBytes(int value) {
    return _mm256_set1_epi8(static_cast<char>(value));
  }
  static QUIRE_FORCE_INLINE Bytes And(Bytes a, Bytes b) { return _mm256_and_si256(a, b); }
  static QUIRE_FORCE_INLINE Bytes Xor(Bytes a, Bytes b) { return _mm256_xor_si256(a, b); }
  // a | (b & c)
  static QUIRE_FORCE_INLINE Bytes OrAnd(Bytes a, Bytes b, Bytes c) {
    return _mm256_or_si256(a, _mm256_and_si256(b, c));
  }
  // Shifts of 16-bit lanes; negative counts shift left.
  template <int kCount>
  static QUIRE_FORCE_INLINE Bytes ShiftRight(Bytes v) {
    if constexpr (kCount > 0) return _mm256_srli_epi16(v, kCount);
    if constexpr (kCount < 0) return _mm256_slli_epi16(v, -kCount);
    return v;
  }
  static QUIRE_FORCE_INLINE Bytes Abs(Bytes v) { return _mm256_abs_epi8(v); }

  static QUIRE_FORCE_INLINE Bytes SubBytes(Bytes a, Bytes b) { return _mm256_sub_epi8(a, b); }

  static QUIRE_FORCE_INLINE Ints SetInt(int value) { return _mm256_set1_epi32(value); }
  static QUIRE_FORCE_INLINE Ints AddInts(Ints a, Ints b) {
    Ints sum = _mm256_add_epi32(a, b);
    // Compilers that reorder integer sums spill them all.
    asm("" : "+x"(sum));
    return sum;
  }
  // Four int8 to every lane.
  static QUIRE_FORCE_INLINE Bytes Broadcast4(const void* p) {
    int32_t four;
    __builtin_memcpy(&four, p, sizeof(four));
    return _mm256_set1_epi32(four);
  }
  // Sums of two products in 16 bits. Weights up to 129 cannot saturate: 2 * 129 * 127 < 2^15.
  static QUIRE_FORCE_INLINE Ints PairDot(Bytes weights, Bytes values) {
    return _mm256_maddubs_epi16(weights, values);
  }
  static QUIRE_FORCE_INLINE Ints AddPairs(Ints a, Ints b) {
    Ints sum = _mm256_add_epi16(a, b);
    // Compilers that reorder integer sums spill them all.
    asm("" : "+x"(sum));
    return sum;
  }
  static QUIRE_FORCE_INLINE Ints SubPairs(Ints a, Ints b) { return _mm256_sub_epi16(a, b); }
  static QUIRE_FORCE_INLINE Ints SetPairs(int value) {
    return _mm256_set1_epi16(static_cast<int16_t>(value));
  }
  // 8 int8 as 16 bits, each twice.
  static QUIRE_FORCE_INLINE Ints PairsFromS8(const uint8_t* p) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(bytes, bytes));
  }
  static QUIRE_FORCE_INLINE Ints Widen(Ints pairs) {
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  }
  // The even and the odd bytes of each four as 16 bits, and sums of two products of those.
  static QUIRE_FORCE_INLINE Bytes EvenBytes(Bytes v) {
    return _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8);
  }
  static QUIRE_FORCE_INLINE Bytes OddBytes(Bytes v) { return _mm256_srai_epi16(v, 8); }
  static QUIRE_FORCE_INLINE Ints WordDot(Bytes a, Bytes b) { return _mm256_madd_epi16(a, b); }
  // values, with the sign turned where weights are negative (and 0 where they are 0).
  static QUIRE_FORCE_INLINE Bytes TurnSign(Bytes values, Bytes weights) {
    return _mm256_sign_epi8(values, weights);
  }

  static QUIRE_FORCE_INLINE Floats SetFloat(float value) { return _mm256_set1_ps(value); }
  static QUIRE_FORCE_INLINE Floats Load(const float* p) { return _mm256_loadu_ps(p); }
  static QUIRE_FORCE_INLINE void Store(float* p, Floats v) { _mm256_storeu_ps(p, v); }
  static QUIRE_FORCE_INLINE __m256i FirstMask(int count) {
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), lanes);
  }
  static QUIRE_FORCE_INLINE Floats LoadFirst(const float* p, int count) {
    return _mm256_maskload_ps(p, FirstMask(count));
  }
  static QUIRE_FORCE_INLINE void StoreFirst(float* p, int count, Floats v) {
    _mm256_maskstore_ps(p, FirstMask(count), v);
  }
  static QUIRE_FORCE_INLINE Floats ToFloats(Ints v) { return _mm256_cvtepi32_ps(v); }
  static QUIRE_FORCE_INLINE Floats FromF16(const uint8_t* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static QUIRE_FORCE_INLINE Floats FromBf16(const uint8_t* p) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }
  static QUIRE_FORCE_INLINE Floats FromU8(const uint8_t* p) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
  }
  static QUIRE_FORCE_INLINE Floats FromS8(const uint8_t* p) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
  }
  static QUIRE_FORCE_INLINE Floats Add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
  static QUIRE_FORCE_INLINE Floats Mul(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  static QUIRE_FORCE_INLINE Floats Fma(Floats a, Floats b, Floats c) {
    return _mm256_fmadd_ps(a, b, c);
  }
  // c - a * b, rounded once.
  static QUIRE_FORCE_INLINE Floats Fnma(Floats a, Floats b, Floats c) {
    return _mm256_fnmadd_ps(a, b, c);
  }
};

}  // namespace
}  // namespace quire
