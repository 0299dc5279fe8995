#include <cmath>

#include "kernels/reference/kernels.h"

namespace quire::reference {
namespace {

// One group of 32 values of row `r` of a tile of `height` rows; q, scale and the rest point at the
// group's place for row 0 of the tile. Returns false if a value is NaN or infinite.
bool QuantizeGroup(const float* x, int height, int r, int8_t* q, float* scale, float* scaled_sum,
                   int32_t* negated_sums) {
  float absmax = 0.0f;
  for (int k = 0; k < kGroupColumns; ++k) {
    if (!std::isfinite(x[k])) return false;
    const float magnitude = std::fabs(x[k]);
    if (magnitude > absmax) absmax = magnitude;
  }
  const bool zero = absmax <= 1e-30f;
  const float inverse = zero ? 0.0f : 127.0f / absmax;
  int sums[2] = {0, 0};
  for (int k = 0; k < kGroupColumns; ++k) {
    const int value = zero ? 0 : static_cast<int>(std::nearbyintf(x[k] * inverse));
    sums[k / 16] += value;
    q[(k / 4 * height + r) * 4 + k % 4] = static_cast<int8_t>(value);
  }
  scale[r] = zero ? 0.0f : absmax / 127.0f;
  scaled_sum[r] = scale[r] * static_cast<float>(sums[0] + sums[1]);
  negated_sums[r] = -sums[0];
  negated_sums[height + r] = -sums[1];
  return true;
}

}  // namespace

bool QuantizeGroups(const float* rows, size_t row_stride, int begin, int end,
                    const QuantizedRows& out) {
  const int num_groups = out.num_cols / kGroupColumns;
  for (int first = 0; first < out.num_rows;) {
    const int height = TileRows(out.num_rows - first);
    const size_t tile_groups = static_cast<size_t>(first) * num_groups;
    for (int r = 0; r < height; ++r) {
      for (int g = begin; g < end; ++g) {
        const size_t at = tile_groups + static_cast<size_t>(g) * height;
        if (!QuantizeGroup(rows + (first + r) * row_stride + g * kGroupColumns, height, r,
                           out.quants + at * kGroupColumns, out.scales + at, out.scaled_sums + at,
                           out.negated_sums + 2 * at)) {
          return false;
        }
      }
    }
    first += height;
  }
  return true;
}

}  // namespace quire::reference
