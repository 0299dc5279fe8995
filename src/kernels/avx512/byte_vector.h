// Vectors of 16 outputs for the matmul templates (kernels/generic/matmul_tile-inl.h) and for the
// q8_0 scores of attention (kernels/generic/attention_q8_0-inl.h), and how
// AVX-512 sums products of bytes: with VNNI four products go straight into a 32-bit lane; without
// it, products are added in pairs of 16 bits first.
//
// For the matmul and attention files of avx512/ only: everything has internal linkage, so that each
// file keeps its own copy.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/force_inline.h"

namespace quire {
namespace {

struct Avx512 {
  using Bytes = __m512i;
  using Ints = __m512i;
  using Floats = __m512;
  static constexpr int kLanes = 16;
  static constexpr int kParts = 1;  // vectors in a row block
  // Rows of a tile whose sums fit the 32 registers.
  static constexpr int PackedTileRows(int) { return 8; }

  static QUIRE_FORCE_INLINE Bytes LoadBytes(const uint8_t* p) { return _mm512_loadu_si512(p); }
  static QUIRE_FORCE_INLINE void StoreBytes(uint8_t* p, Bytes v) { _mm512_store_si512(p, v); }
  static QUIRE_FORCE_INLINE Bytes SetBytes(int value) {
    return _mm512_set1_epi8(static_cast<char>(value));
  }
  static QUIRE_FORCE_INLINE Bytes And(Bytes a, Bytes b) { return _mm512_and_si512(a, b); }
  static QUIRE_FORCE_INLINE Bytes Xor(Bytes a, Bytes b) { return _mm512_xor_si512(a, b); }
  // a | (b & c)
  static QUIRE_FORCE_INLINE Bytes OrAnd(Bytes a, Bytes b, Bytes c) {
    return _mm512_ternarylogic_epi32(a, b, c, 0xf8);
  }
  // Shifts of 16-bit lanes; negative counts shift left.
  template <int kCount>
  static QUIRE_FORCE_INLINE Bytes ShiftRight(Bytes v) {
    if constexpr (kCount > 0) return _mm512_srli_epi16(v, kCount);
    if constexpr (kCount < 0) return _mm512_slli_epi16(v, -kCount);
    return v;
  }
  static QUIRE_FORCE_INLINE Bytes Abs(Bytes v) { return _mm512_abs_epi8(v); }

  static QUIRE_FORCE_INLINE Ints SetInt(int value) { return _mm512_set1_epi32(value); }
  static QUIRE_FORCE_INLINE Ints AddInts(Ints a, Ints b) {
    Ints sum = _mm512_add_epi32(a, b);
    // Compilers that reorder integer sums spill them all.
    asm("" : "+v"(sum));
    return sum;
  }
  // Four int8 to every lane.
  static QUIRE_FORCE_INLINE Bytes Broadcast4(const void* p) {
    int32_t four;
    __builtin_memcpy(&four, p, sizeof(four));
    return _mm512_set1_epi32(four);
  }

  static QUIRE_FORCE_INLINE Floats SetFloat(float value) { return _mm512_set1_ps(value); }
  static QUIRE_FORCE_INLINE Floats Load(const float* p) { return _mm512_loadu_ps(p); }
  static QUIRE_FORCE_INLINE void Store(float* p, Floats v) { _mm512_storeu_ps(p, v); }
  static QUIRE_FORCE_INLINE Floats LoadFirst(const float* p, int count) {
    return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), p);
  }
  static QUIRE_FORCE_INLINE void StoreFirst(float* p, int count, Floats v) {
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << count) - 1), v);
  }
  static QUIRE_FORCE_INLINE Floats ToFloats(Ints v) { return _mm512_cvtepi32_ps(v); }
  static QUIRE_FORCE_INLINE Floats FromF16(const uint8_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static QUIRE_FORCE_INLINE Floats FromBf16(const uint8_t* p) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }
  static QUIRE_FORCE_INLINE Floats FromU8(const uint8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
  }
  static QUIRE_FORCE_INLINE Floats FromS8(const uint8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
  }
  static QUIRE_FORCE_INLINE Floats Add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  static QUIRE_FORCE_INLINE Floats Mul(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  static QUIRE_FORCE_INLINE Floats Fma(Floats a, Floats b, Floats c) {
    return _mm512_fmadd_ps(a, b, c);
  }
  // c - a * b, rounded once.
  static QUIRE_FORCE_INLINE Floats Fnma(Floats a, Floats b, Floats c) {
    return _mm512_fnmadd_ps(a, b, c);
  }
};

#ifdef __AVX512VNNI__
struct Avx512Vnni : Avx512 {
  static constexpr bool kPairs = false;
  // Unpacking runs beside the products: expanding weights first gained nothing with up to 256 rows.
  static constexpr bool Expands(int) { return false; }
  static QUIRE_FORCE_INLINE Ints Dot(Ints sum, Bytes weights, Bytes values) {
    return _mm512_dpbusd_epi32(sum, weights, values);
  }
};
#else
struct Avx512Pairs : Avx512 {
  static constexpr bool kPairs = true;
  // By Format::kChain: formats of 5 and 6 bits take long to unpack.
  static constexpr bool Expands(int chain) { return chain == 4 || chain == 2; }
  static constexpr int ExpandFrom(int) { return 32; }
  static constexpr int kStripRows = 4;   // of a tile of expanded weights
  static constexpr int kTileBlocks = 2;  // row blocks of one
  // Sums of two products in 16 bits. Weights up to 129 cannot saturate: 2 * 129 * 127 < 2^15.
  static QUIRE_FORCE_INLINE Ints PairDot(Bytes weights, Bytes values) {
    return _mm512_maddubs_epi16(weights, values);
  }
  static QUIRE_FORCE_INLINE Ints AddPairs(Ints a, Ints b) {
    Ints sum = _mm512_add_epi16(a, b);
    // Compilers that reorder integer sums spill them all.
    asm("" : "+v"(sum));
    return sum;
  }
  static QUIRE_FORCE_INLINE Ints SetPairs(int value) {
    return _mm512_set1_epi16(static_cast<int16_t>(value));
  }
  static QUIRE_FORCE_INLINE Ints SubPairs(Ints a, Ints b) { return _mm512_sub_epi16(a, b); }
  static QUIRE_FORCE_INLINE Bytes SubBytes(Bytes a, Bytes b) { return _mm512_sub_epi8(a, b); }
  // 16 int8 as 16 bits, each twice.
  static QUIRE_FORCE_INLINE Ints PairsFromS8(const uint8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m512i words = _mm512_cvtepi8_epi32(bytes);
    return _mm512_mask_blend_epi16(0xaaaaaaaa, words, _mm512_slli_epi32(words, 16));
  }
  static QUIRE_FORCE_INLINE Ints Widen(Ints pairs) {
    return _mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
  }
  // The even and the odd bytes of each four as 16 bits, and sums of two products of those.
  static QUIRE_FORCE_INLINE Bytes EvenBytes(Bytes v) {
    return _mm512_srai_epi16(_mm512_slli_epi16(v, 8), 8);
  }
  static QUIRE_FORCE_INLINE Bytes OddBytes(Bytes v) { return _mm512_srai_epi16(v, 8); }
  static QUIRE_FORCE_INLINE Ints WordDot(Bytes a, Bytes b) { return _mm512_madd_epi16(a, b); }
  // values, with the sign turned where weights are negative.
  static QUIRE_FORCE_INLINE Bytes TurnSign(Bytes values, Bytes weights) {
    return _mm512_mask_sub_epi8(values, _mm512_movepi8_mask(weights), _mm512_setzero_si512(),
                                values);
  }
};
#endif

}  // namespace
}  // namespace quire
