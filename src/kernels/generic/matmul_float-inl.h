// A matmul over row blocks, for float weights. See matmul_formats-inl.h for who may include it.
//
// One fused multiply-add for each vector of weights and row. One row is bound by memory (and, for
// 16-bit weights, nearly by the chain of additions that the definition asks for, so two row blocks
// go side by side); many rows are bound by the multiply-add ports.
#pragma once

#include "kernels/generic/matmul_quantized-inl.h"

namespace quire {
namespace {

template <typename Isa, DType kType>
class FloatMatmul {
  using Floats = typename Isa::Floats;
  static constexpr int kElementBytes = kType == DType::kF32 ? 4 : 2;
  static constexpr int kSegment = 2048;

 public:
  explicit FloatMatmul(const MatmulJob& job)
      : job_(job),
        block_bytes_((static_cast<size_t>(job.weights->num_cols) * kPackRows * kElementBytes + 63) /
                     64 * 64) {}

  void Run(int begin, int end) const {
    int block = begin;
    for (; block + 2 <= end; block += 2) RunBlocks<2>(block);
    for (; block < end; ++block) RunBlocks<1>(block);
  }

 private:
  static QUIRE_FORCE_INLINE Floats LoadWeights(const uint8_t* p) {
    if constexpr (kType == DType::kF32) return Isa::Load(reinterpret_cast<const float*>(p));
    if constexpr (kType == DType::kF16) return Isa::FromF16(p);
    if constexpr (kType == DType::kBF16) return Isa::FromBf16(p);
  }

  template <int kBlocks>
  void RunBlocks(int block) const {
    // Rows whose sums fit the registers beside kBlocks row blocks.
    constexpr int kRows = 8 / (kBlocks * Isa::kParts) < 2 ? 2 : 8 / (kBlocks * Isa::kParts);
    int row = 0;
    for (; row + kRows <= job_.num_rows; row += kRows) RunRows<kBlocks, kRows>(block, row);
    for (; row < job_.num_rows; ++row) RunRows<kBlocks, 1>(block, row);
  }

  template <int kBlocks, int kRows>
  void RunRows(int block, int row) const {
    constexpr int kVectors = kBlocks * Isa::kParts;
    const int num_cols = job_.weights->num_cols;
    const uint8_t* weights =
        reinterpret_cast<const uint8_t*>(job_.weights->data) + block * block_bytes_;
    const float* x = job_.rows + row * job_.row_stride;
    for (int begin = 0; begin < num_cols; begin += kSegment) {
      const int end = num_cols - begin < kSegment ? num_cols : begin + kSegment;
      Floats sums[kVectors][kRows];
#pragma GCC unroll 8
      for (int u = 0; u < kVectors; ++u) {
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) sums[u][r] = Isa::SetFloat(0.0f);
      }
      for (int k = begin; k < end; ++k) {
        Floats w[kVectors];
#pragma GCC unroll 8
        for (int u = 0; u < kVectors; ++u) {
          w[u] = LoadWeights(weights + u / Isa::kParts * block_bytes_ +
                             (k * kPackRows + u % Isa::kParts * Isa::kLanes) * kElementBytes);
        }
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const Floats value = Isa::SetFloat(x[r * job_.row_stride + k]);
#pragma GCC unroll 8
          for (int u = 0; u < kVectors; ++u) sums[u][r] = Isa::Fma(w[u], value, sums[u][r]);
        }
      }
#pragma GCC unroll 8
      for (int u = 0; u < kVectors; ++u) {
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          FoldVector(sums[u][r], block * kPackRows + u * Isa::kLanes, row + r, begin == 0);
        }
      }
    }
  }

  QUIRE_FORCE_INLINE void FoldVector(Floats sum, int column, int row, bool first_segment) const {
    const int left = job_.weights->num_rows - column;
    if (left <= 0) return;
    const int columns = left < Isa::kLanes ? left : Isa::kLanes;
    float* out = job_.out + row * job_.out_stride + column;
    Isa::StoreFirst(out, columns,
                    first_segment ? sum : Isa::Add(Isa::LoadFirst(out, columns), sum));
  }

  const MatmulJob& job_;
  const size_t block_bytes_;
};

template <typename Isa>
void MatmulOf(const MatmulJob& job, int begin, int end) {
  switch (job.weights->dtype) {
    case DType::kF32:
      return FloatMatmul<Isa, DType::kF32>(job).Run(begin, end);
    case DType::kF16:
      return FloatMatmul<Isa, DType::kF16>(job).Run(begin, end);
    case DType::kBF16:
      return FloatMatmul<Isa, DType::kBF16>(job).Run(begin, end);
    case DType::kQ4_0:
      return QuantizedMatmul<Isa, DType::kQ4_0>(job).Run(begin, end);
    case DType::kQ4_1:
      return QuantizedMatmul<Isa, DType::kQ4_1>(job).Run(begin, end);
    case DType::kQ5_0:
      return QuantizedMatmul<Isa, DType::kQ5_0>(job).Run(begin, end);
    case DType::kQ5_1:
      return QuantizedMatmul<Isa, DType::kQ5_1>(job).Run(begin, end);
    case DType::kQ8_0:
      return QuantizedMatmul<Isa, DType::kQ8_0>(job).Run(begin, end);
    case DType::kQ4_K:
      return QuantizedMatmul<Isa, DType::kQ4_K>(job).Run(begin, end);
    case DType::kQ5_K:
      return QuantizedMatmul<Isa, DType::kQ5_K>(job).Run(begin, end);
    case DType::kQ6_K:
      return QuantizedMatmul<Isa, DType::kQ6_K>(job).Run(begin, end);
  }
}

}  // namespace
}  // namespace quire
