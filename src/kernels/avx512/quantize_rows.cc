// Quantising reads 4 bytes an element and writes 1, once per row for every matrix that reads it:
// some hundred operations a group of 32 beside the thousands of its products.
#include <immintrin.h>

#include "kernels/avx512/kernels.h"

namespace quire::avx512 {
namespace {

constexpr int kInfinityBits = 0x7f800000;

struct TilePlace {
  int8_t* quants;
  float* scales;
  float* scaled_sums;
  int32_t* negated_sums;
};

// One group of row r of a tile of `height` rows; `place` is the group's for row 0 of the tile.
inline bool QuantizeGroup(const float* x, int height, int r, const TilePlace& place) {
  const __m512 x0 = _mm512_loadu_ps(x);
  const __m512 x1 = _mm512_loadu_ps(x + 16);
  // Magnitudes order like their bits as integers, and infinity and NaN come last.
  const __m512i bits0 = _mm512_castps_si512(_mm512_abs_ps(x0));
  const __m512i bits1 = _mm512_castps_si512(_mm512_abs_ps(x1));
  const int absmax_bits = _mm512_reduce_max_epi32(_mm512_max_epi32(bits0, bits1));
  if (absmax_bits >= kInfinityBits) return false;
  const float absmax = __builtin_bit_cast(float, absmax_bits);
  const bool zero = absmax <= 1e-30f;
  const __m512 inverse = _mm512_set1_ps(zero ? 0.0f : 127.0f / absmax);
  const __m512i q0 = _mm512_cvtps_epi32(_mm512_mul_ps(x0, inverse));
  const __m512i q1 = _mm512_cvtps_epi32(_mm512_mul_ps(x1, inverse));
  alignas(32) int32_t steps[8];  // four int8 each
  _mm_store_si128(reinterpret_cast<__m128i*>(steps), _mm512_cvtepi32_epi8(q0));
  _mm_store_si128(reinterpret_cast<__m128i*>(steps + 4), _mm512_cvtepi32_epi8(q1));
  for (int j = 0; j < 8; ++j) {
    __builtin_memcpy(place.quants + (j * height + r) * 4, &steps[j], sizeof(int32_t));
  }
  const int sum0 = _mm512_reduce_add_epi32(q0);
  const int sum1 = _mm512_reduce_add_epi32(q1);
  const float scale = zero ? 0.0f : absmax / 127.0f;
  place.scales[r] = scale;
  place.scaled_sums[r] = scale * static_cast<float>(sum0 + sum1);
  place.negated_sums[r] = -sum0;
  place.negated_sums[height + r] = -sum1;
  return true;
}

inline TilePlace GroupOf(const TilePlace& tile, int height, int group) {
  return {tile.quants + group * height * kGroupColumns, tile.scales + group * height,
          tile.scaled_sums + group * height, tile.negated_sums + group * height * 2};
}

bool QuantizeTile(const float* rows, size_t row_stride, int height, int begin, int end,
                  const TilePlace& tile) {
  for (int r = 0; r < height; ++r) {
    for (int g = begin; g < end; ++g) {
      if (!QuantizeGroup(rows + r * row_stride + g * kGroupColumns, height, r,
                         GroupOf(tile, height, g))) {
        return false;
      }
    }
  }
  return true;
}

// Of each of eight vectors of eight lanes the largest, one a lane.
inline __m256i LargestOfEach(const __m256i (&v)[8]) {
  __m256i pairs[4];  // in each 128-bit half [v0, v1, v0, v1]
  for (int i = 0; i < 4; ++i) {
    pairs[i] = _mm256_max_epi32(_mm256_unpacklo_epi32(v[2 * i], v[2 * i + 1]),
                                _mm256_unpackhi_epi32(v[2 * i], v[2 * i + 1]));
  }
  __m256i fours[2];  // [v0, v1, v2, v3]
  for (int i = 0; i < 2; ++i) {
    fours[i] = _mm256_max_epi32(_mm256_unpacklo_epi64(pairs[2 * i], pairs[2 * i + 1]),
                                _mm256_unpackhi_epi64(pairs[2 * i], pairs[2 * i + 1]));
  }
  return _mm256_max_epi32(_mm256_permute2x128_si256(fours[0], fours[1], 0x20),
                          _mm256_permute2x128_si256(fours[0], fours[1], 0x31));
}

// columns[j] <- lane j of each row.
inline void Transpose(const __m256i (&rows)[8], __m256i (&columns)[8]) {
  __m256i fours[8];  // lanes i and i + 4 of rows 0..3, then of 4..7
  for (int i = 0; i < 2; ++i) {
    const __m256i* r = rows + 4 * i;
    const __m256i low01 = _mm256_unpacklo_epi32(r[0], r[1]);
    const __m256i low23 = _mm256_unpacklo_epi32(r[2], r[3]);
    const __m256i high01 = _mm256_unpackhi_epi32(r[0], r[1]);
    const __m256i high23 = _mm256_unpackhi_epi32(r[2], r[3]);
    fours[4 * i] = _mm256_unpacklo_epi64(low01, low23);
    fours[4 * i + 1] = _mm256_unpackhi_epi64(low01, low23);
    fours[4 * i + 2] = _mm256_unpacklo_epi64(high01, high23);
    fours[4 * i + 3] = _mm256_unpackhi_epi64(high01, high23);
  }
  for (int j = 0; j < 4; ++j) {
    columns[j] = _mm256_permute2x128_si256(fours[j], fours[4 + j], 0x20);
    columns[4 + j] = _mm256_permute2x128_si256(fours[j], fours[4 + j], 0x31);
  }
}

// Of each row the sum of its four int8 in each of four steps.
inline __m256i SumOfSteps(const __m256i* steps) {
  const __m256i ones = _mm256_set1_epi8(1);
  __m256i pairs = _mm256_maddubs_epi16(ones, steps[0]);
  for (int j = 1; j < 4; ++j) pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(ones, steps[j]));
  return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

// One group of the eight rows of a tile, lanes being rows wherever a row has one value: a third of
// the operations of a row at a time.
inline bool QuantizeGroupOfEight(const float* x, size_t row_stride, const TilePlace& place) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  __m256i largest[8];
  for (int r = 0; r < 8; ++r) {
    const float* row = x + r * row_stride;
    const __m512i bits = _mm512_max_epi32(
        _mm512_and_si512(_mm512_castps_si512(_mm512_loadu_ps(row)), magnitude),
        _mm512_and_si512(_mm512_castps_si512(_mm512_loadu_ps(row + 16)), magnitude));
    largest[r] = _mm256_max_epi32(_mm512_castsi512_si256(bits), _mm512_extracti64x4_epi64(bits, 1));
  }
  const __m256i absmax_bits = LargestOfEach(largest);
  if (_mm256_cmpge_epi32_mask(absmax_bits, _mm256_set1_epi32(kInfinityBits)) != 0) return false;
  const __m256 absmax = _mm256_castsi256_ps(absmax_bits);
  const __m256 most = _mm256_set1_ps(127.0f);
  const __mmask8 nonzero = _mm256_cmp_ps_mask(absmax, _mm256_set1_ps(1e-30f), _CMP_GT_OQ);
  alignas(32) float inverses[8];
  _mm256_store_ps(inverses, _mm256_maskz_div_ps(nonzero, most, absmax));
  const __m256 scales = _mm256_maskz_div_ps(nonzero, absmax, most);
  __m256i rows[8];  // eight steps each
  for (int r = 0; r < 8; ++r) {
    const float* row = x + r * row_stride;
    const __m512 inverse = _mm512_set1_ps(inverses[r]);
    const __m512i q0 = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(row), inverse));
    const __m512i q1 = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(row + 16), inverse));
    rows[r] = _mm256_set_m128i(_mm512_cvtepi32_epi8(q1), _mm512_cvtepi32_epi8(q0));
  }
  __m256i steps[8];  // eight rows each
  Transpose(rows, steps);
  for (int j = 0; j < 8; ++j) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(place.quants + j * 32), steps[j]);
  }
  const __m256i sums0 = SumOfSteps(steps);
  const __m256i sums1 = SumOfSteps(steps + 4);
  const __m256 sums = _mm256_cvtepi32_ps(_mm256_add_epi32(sums0, sums1));
  const __m256i zero = _mm256_setzero_si256();
  _mm256_store_ps(place.scales, scales);
  _mm256_store_ps(place.scaled_sums, _mm256_mul_ps(scales, sums));
  _mm256_store_si256(reinterpret_cast<__m256i*>(place.negated_sums), _mm256_sub_epi32(zero, sums0));
  _mm256_store_si256(reinterpret_cast<__m256i*>(place.negated_sums + 8),
                     _mm256_sub_epi32(zero, sums1));
  return true;
}

bool QuantizeTileOfEight(const float* rows, size_t row_stride, int begin, int end,
                         const TilePlace& tile) {
  for (int g = begin; g < end; ++g) {
    if (!QuantizeGroupOfEight(rows + g * kGroupColumns, row_stride, GroupOf(tile, 8, g))) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool QuantizeGroups(const float* rows, size_t row_stride, int begin, int end,
                    const QuantizedRows& out) {
  const int num_groups = out.num_cols / kGroupColumns;
  for (int first = 0; first < out.num_rows;) {
    const size_t group = static_cast<size_t>(first) * num_groups;
    const TilePlace tile = {out.quants + group * kGroupColumns, out.scales + group,
                            out.scaled_sums + group, out.negated_sums + 2 * group};
    const float* source = rows + first * row_stride;
    const int height = TileRows(out.num_rows - first);
    const bool finite = height == 8 ? QuantizeTileOfEight(source, row_stride, begin, end, tile)
                                    : QuantizeTile(source, row_stride, height, begin, end, tile);
    if (!finite) return false;
    first += height;
  }
  return true;
}

}  // namespace quire::avx512
