// Random tensors in the formats of files, wild on purpose: every bit pattern of codes and integer
// scales, and half-precision scales of every magnitude and sign.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/packed_matrix.h"

namespace quire {

inline constexpr DType kAllDTypes[] = {DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ4_0,
                                       DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0,
                                       DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};

// Scales: kTame about 1/500, as models have them; kWild any half that is finite, one in eight of
// them denormal or zero. kLargest: codes are all zeros or all ones, and activations are plus or
// minus one, so that every sum of products is as large as it gets.
enum class Scales { kTame, kWild, kLargest };

// [num_rows] rows of num_cols elements as a file stores them.
std::vector<std::byte> RandomFileRows(DType dtype, int num_rows, int num_cols, Scales scales,
                                      std::mt19937& random);

// Activation rows [num_rows][num_cols]: normal values, in groups of 32 that are also all zero, tiny
// (down to denormals), huge, or with one outlier.
std::vector<float> RandomRows(int num_rows, int num_cols, Scales scales, std::mt19937& random);

// A packed matrix and its memory.
struct OwnedMatrix {
  PackedMatrix view;
  std::vector<std::byte> file;  // the rows it was packed from
  void* memory = nullptr;

  OwnedMatrix(DType dtype, int num_rows, int num_cols, Scales scales, std::mt19937& random);
  ~OwnedMatrix();
  OwnedMatrix(const OwnedMatrix&) = delete;
  OwnedMatrix& operator=(const OwnedMatrix&) = delete;
};

}  // namespace quire
