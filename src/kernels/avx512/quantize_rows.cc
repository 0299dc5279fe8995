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

// One group of row r of a tile of kHeight rows; `place` is the group's for row 0 of the tile.
template <int kHeight>
inline bool QuantizeGroup(const float* x, int r, const TilePlace& place) {
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
    __builtin_memcpy(place.quants + (j * kHeight + r) * 4, &steps[j], sizeof(int32_t));
  }
  const int sum0 = _mm512_reduce_add_epi32(q0);
  const int sum1 = _mm512_reduce_add_epi32(q1);
  const float scale = zero ? 0.0f : absmax / 127.0f;
  place.scales[r] = scale;
  place.scaled_sums[r] = scale * static_cast<float>(sum0 + sum1);
  place.negated_sums[r] = -sum0;
  place.negated_sums[kHeight + r] = -sum1;
  return true;
}

template <int kHeight>
bool QuantizeTile(const float* rows, size_t row_stride, int num_groups, const TilePlace& tile) {
  for (int r = 0; r < kHeight; ++r) {
    for (int g = 0; g < num_groups; ++g) {
      const TilePlace place = {tile.quants + g * kHeight * kGroupColumns, tile.scales + g * kHeight,
                               tile.scaled_sums + g * kHeight, tile.negated_sums + g * kHeight * 2};
      if (!QuantizeGroup<kHeight>(rows + r * row_stride + g * kGroupColumns, r, place)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

bool QuantizeRows(const float* rows, size_t row_stride, QuantizedRows* out) {
  const int num_groups = out->num_cols / kGroupColumns;
  for (int first = 0; first < out->num_rows;) {
    const size_t group = static_cast<size_t>(first) * num_groups;
    const TilePlace tile = {out->quants + group * kGroupColumns, out->scales + group,
                            out->scaled_sums + group, out->negated_sums + 2 * group};
    const float* source = rows + first * row_stride;
    const int height = TileRows(out->num_rows - first);
    const bool finite = height == 8   ? QuantizeTile<8>(source, row_stride, num_groups, tile)
                        : height == 4 ? QuantizeTile<4>(source, row_stride, num_groups, tile)
                        : height == 2 ? QuantizeTile<2>(source, row_stride, num_groups, tile)
                                      : QuantizeTile<1>(source, row_stride, num_groups, tile);
    if (!finite) return false;
    first += height;
  }
  return true;
}

}  // namespace quire::avx512
