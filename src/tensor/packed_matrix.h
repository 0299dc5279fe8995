// Weights as the matmul kernels read them: 16 output rows interleaved, one linear stream a block.
//
// A matrix [num_rows, num_cols] is cut into row blocks of kPackRows rows (the last one padded with
// zero rows). Vector lanes are output rows, so the width of a vector never changes a sum. Every
// row block is one 64-byte aligned stream of row_block_bytes, read front to back.
//
// Float types: [num_cols][16] elements of the type.
//
// Quantised types: a row of units; a unit is [header][group]..., a group is 32 columns of 16 rows.
//   format groups header group bytes (of a unit)
//   Q4_0     2      64    256    header: f16 d [2 groups][16 rows]
//   Q4_1     1      64    256    header: f16 d [16], f16 m [16]
//   Q5_0     2      64    320    header: f16 d [2][16]
//   Q5_1     1      64    320    header: f16 d [16], f16 m [16]
//   Q8_0     2      64    512    header: f16 d [2][16]
//   Q4_K     8     256    256    header: f16 d [16], f16 dmin [16], 192 bytes of 6-bit scales
//   Q5_K     8     256    320    header: as Q4_K
//   Q6_K     8     320    384    header: f16 d [16], 32 zero bytes, int8 scale [16 halves][16 rows]
// When num_cols / 32 is odd, the second group of the last Q4_0, Q5_0 or Q8_0 unit is zero.
//
// Group bytes, with i = 4 * row + c as the byte of a 64-byte vector and j = 0..7 as the step, so
// that step j covers columns 4 * j + c of the group:
//   4 low bits   4 vectors: vector v holds step 2 * v in low nibbles, step 2 * v + 1 in high ones
//   Q5 high bit  1 vector after them: bit j of byte i
//   Q6 high two  2 vectors after them: bits 2 * (j % 4) and up of byte i of vector j / 4
//   Q8_0         8 vectors: vector j holds step j, stored as value + 128 (unsigned)
// Quants are stored as their unsigned codes (Q4_0 0..15 meaning -8..7, Q5_0 0..31 meaning -16..15,
// Q6_K 0..63 meaning -32..31).
//
// The 6-bit scales of Q4_K and Q5_K: value v of list s (0: scales, 1: minimums) of group g and row
// r has index n = 128 * s + 16 * g + r. Bytes b[0..191] hold indexes 0..191 in their low six bits;
// the top two bits of b[i], b[64 + i], b[128 + i] are bits 0-1, 2-3 and 4-5 of index 192 + i, i
// < 64.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace quire {

inline constexpr int kPackRows = 16;
inline constexpr int kGroupColumns = 32;

// Bytes and groups of a unit of a quantised format.
struct PackedUnit {
  int groups = 0;
  int header_bytes = 0;
  int group_bytes = 0;

  constexpr size_t bytes() const {
    return static_cast<size_t>(header_bytes) + static_cast<size_t>(groups) * group_bytes;
  }
};

constexpr PackedUnit PackedUnitOf(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
      return {2, 64, 256};
    case DType::kQ4_1:
      return {1, 64, 256};
    case DType::kQ5_0:
      return {2, 64, 320};
    case DType::kQ5_1:
      return {1, 64, 320};
    case DType::kQ8_0:
      return {2, 64, 512};
    case DType::kQ4_K:
      return {8, 256, 256};
    case DType::kQ5_K:
      return {8, 256, 320};
    case DType::kQ6_K:
      return {8, 320, 384};
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      break;
  }
  return {};
}

// Bytes of one row block, a multiple of 64 (a float matrix of an odd number of 16-bit columns is
// padded with zeros at its end).
constexpr size_t PackedRowBlockBytes(DType dtype, int64_t num_cols) {
  if (dtype == DType::kF32) return static_cast<size_t>(num_cols) * 64;
  if (dtype == DType::kF16 || dtype == DType::kBF16) {
    return (static_cast<size_t>(num_cols) * 32 + 63) / 64 * 64;
  }
  const PackedUnit unit = PackedUnitOf(dtype);
  const size_t groups = static_cast<size_t>(num_cols) / kGroupColumns;
  return (groups + unit.groups - 1) / unit.groups * unit.bytes();
}

// A view; the bytes belong to the weights.
struct PackedMatrix {
  DType dtype = DType::kF32;
  int num_rows = 0;                 // outputs
  int num_cols = 0;                 // inputs; a multiple of the format's block_elements
  const std::byte* data = nullptr;  // [num_row_blocks][row_block_bytes], 64-byte aligned

  int num_row_blocks() const { return (num_rows + kPackRows - 1) / kPackRows; }
  size_t row_block_bytes() const { return PackedRowBlockBytes(dtype, num_cols); }
  size_t bytes() const { return static_cast<size_t>(num_row_blocks()) * row_block_bytes(); }
  const std::byte* row_block(int row_block_idx) const {
    return data + static_cast<size_t>(row_block_idx) * row_block_bytes();
  }
};

}  // namespace quire
