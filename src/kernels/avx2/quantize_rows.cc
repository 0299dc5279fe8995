// Quantising reads 4 bytes an element and writes 1, once per row for every matrix that reads it:
// some hundred operations a group of 32 beside the thousands of its products.
#include <immintrin.h>

#include "kernels/avx2/kernels.h"

namespace quire::avx2 {
namespace {

constexpr int kInfinityBits = 0x7f800000;

struct TilePlace {
  int8_t* quants;
  float* scales;
  float* scaled_sums;
  int32_t* negated_sums;
};

inline int SumOf(__m256i lanes) {
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1));
  return _mm_cvtsi128_si32(sum);
}

// One group of row r of a tile of `height` rows; `place` is the group's for row 0 of the tile.
inline bool QuantizeGroup(const float* x, int height, int r, const TilePlace& place) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  __m256 values[4];
  __m256i largest = _mm256_setzero_si256();
  for (int i = 0; i < 4; ++i) {
    values[i] = _mm256_loadu_ps(x + 8 * i);
    // Magnitudes order like their bits as integers, and infinity and NaN come last.
    largest = _mm256_max_epi32(largest, _mm256_castps_si256(_mm256_andnot_ps(sign, values[i])));
  }
  __m128i folded =
      _mm_max_epi32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256(largest, 1));
  folded = _mm_max_epi32(folded, _mm_shuffle_epi32(folded, 0x4e));
  folded = _mm_max_epi32(folded, _mm_shuffle_epi32(folded, 0xb1));
  const int absmax_bits = _mm_cvtsi128_si32(folded);
  if (absmax_bits >= kInfinityBits) return false;
  const float absmax = __builtin_bit_cast(float, absmax_bits);
  const bool zero = absmax <= 1e-30f;
  const __m256 inverse = _mm256_set1_ps(zero ? 0.0f : 127.0f / absmax);
  __m256i q[4];
  for (int i = 0; i < 4; ++i) q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(values[i], inverse));
  // Packing works on 128-bit halves, so the eight steps come out as 0 2 4 6 1 3 5 7.
  const __m256i packed =
      _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
  alignas(32) int32_t steps[8];  // four int8 each
  _mm256_store_si256(
      reinterpret_cast<__m256i*>(steps),
      _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
  for (int j = 0; j < 8; ++j) {
    __builtin_memcpy(place.quants + (j * height + r) * 4, &steps[j], sizeof(int32_t));
  }
  const int sum0 = SumOf(_mm256_add_epi32(q[0], q[1]));
  const int sum1 = SumOf(_mm256_add_epi32(q[2], q[3]));
  const float scale = zero ? 0.0f : absmax / 127.0f;
  place.scales[r] = scale;
  place.scaled_sums[r] = scale * static_cast<float>(sum0 + sum1);
  place.negated_sums[r] = -sum0;
  place.negated_sums[height + r] = -sum1;
  return true;
}

bool QuantizeTile(const float* rows, size_t row_stride, int height, int begin, int end,
                  const TilePlace& tile) {
  for (int r = 0; r < height; ++r) {
    for (int g = begin; g < end; ++g) {
      const TilePlace place = {tile.quants + g * height * kGroupColumns, tile.scales + g * height,
                               tile.scaled_sums + g * height, tile.negated_sums + g * height * 2};
      if (!QuantizeGroup(rows + r * row_stride + g * kGroupColumns, height, r, place)) {
        return false;
      }
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
    if (!QuantizeTile(source, row_stride, height, begin, end, tile)) return false;
    first += height;
  }
  return true;
}

}  // namespace quire::avx2
