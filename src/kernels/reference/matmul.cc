// The products of docs/numerics.md as the page has them, one output after another.
#include <cmath>
#include <vector>

#include "kernels/packed_group.h"
#include "kernels/reference/kernels.h"

namespace quire::reference {
namespace {

constexpr int kSegmentColumns = 2048;

// Where the values of one activation row lie among the tiles of QuantizedRows.
struct TiledRow {
  TiledRow(const QuantizedRows& rows, int row) : rows(rows) {
    while (first + TileRows(rows.num_rows - first) <= row) {
      first += TileRows(rows.num_rows - first);
    }
    height = TileRows(rows.num_rows - first);
    r = row - first;
  }

  size_t GroupAt(int group) const {
    return static_cast<size_t>(first) * (rows.num_cols / kGroupColumns) +
           static_cast<size_t>(group) * height;
  }
  int Quant(int group, int k) const {
    return rows.quants[GroupAt(group) * kGroupColumns + (k / 4 * height + r) * 4 + k % 4];
  }
  float Scale(int group) const { return rows.scales[GroupAt(group) + r]; }
  float ScaledSum(int group) const { return rows.scaled_sums[GroupAt(group) + r]; }

  const QuantizedRows& rows;
  int first = 0;  // row of the tile
  int height = 0;
  int r = 0;  // row inside the tile
};

bool HasMinimum(DType dtype) {
  return dtype == DType::kQ4_1 || dtype == DType::kQ5_1 || dtype == DType::kQ4_K ||
         dtype == DType::kQ5_K;
}

float QuantizedDot(const std::vector<PackedGroup>& weights, bool has_minimum, const TiledRow& row) {
  constexpr size_t kSegmentGroups = kSegmentColumns / kGroupColumns;
  float total = 0.0f;
  for (size_t begin = 0; begin < weights.size(); begin += kSegmentGroups) {
    float acc = 0.0f;
    for (size_t g = begin; g < weights.size() && g < begin + kSegmentGroups; ++g) {
      const PackedGroup& group = weights[g];
      int isum = 0;
      for (int k = 0; k < kGroupColumns; ++k) {
        isum += group.half_scales[k / 16] * group.values[k] * row.Quant(static_cast<int>(g), k);
      }
      acc = std::fma(group.scale * row.Scale(static_cast<int>(g)), static_cast<float>(isum), acc);
      if (has_minimum) {
        acc = std::fma(group.minimum, row.ScaledSum(static_cast<int>(g)), acc);
      }
    }
    total = begin == 0 ? acc : total + acc;
  }
  return total;
}

float FloatDot(const std::vector<float>& weights, const float* x) {
  float total = 0.0f;
  for (size_t begin = 0; begin < weights.size(); begin += kSegmentColumns) {
    float acc = 0.0f;
    for (size_t k = begin; k < weights.size() && k < begin + kSegmentColumns; ++k) {
      acc = std::fma(weights[k], x[k], acc);
    }
    total = begin == 0 ? acc : total + acc;
  }
  return total;
}

void QuantizedRowProduct(const MatmulJob& job, int n) {
  const PackedMatrix& matrix = *job.weights;
  std::vector<PackedGroup> groups;
  for (int g = 0; g < matrix.num_cols / kGroupColumns; ++g) {
    groups.push_back(ReadPackedGroup(matrix, n, g));
  }
  for (int m = 0; m < job.num_rows; ++m) {
    job.out[m * job.out_stride + n] =
        QuantizedDot(groups, HasMinimum(matrix.dtype), TiledRow(*job.quantized, m));
  }
}

void FloatRowProduct(const MatmulJob& job, int n) {
  std::vector<float> weights;
  for (int k = 0; k < job.weights->num_cols; ++k) {
    weights.push_back(ReadPackedFloat(*job.weights, n, k));
  }
  for (int m = 0; m < job.num_rows; ++m) {
    job.out[m * job.out_stride + n] = FloatDot(weights, job.rows + m * job.row_stride);
  }
}

}  // namespace

void Matmul(const MatmulJob& job, int row_block_begin, int row_block_end) {
  const bool quantized = IsQuantized(job.weights->dtype);
  for (int n = row_block_begin * kPackRows; n < row_block_end * kPackRows; ++n) {
    if (n >= job.weights->num_rows) return;
    quantized ? QuantizedRowProduct(job, n) : FloatRowProduct(job, n);
  }
}

}  // namespace quire::reference
