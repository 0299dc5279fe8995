#include "kernels/packed_group.h"

#include <cstring>

#include "base/check.h"
#include "tensor/float16.h"

namespace quire {
namespace {

constexpr int kVectorBytes = 64;
constexpr int kSteps = 8;  // of four columns

float ReadF16(const uint8_t* halves, int index) {
  uint16_t half;
  std::memcpy(&half, halves + 2 * index, sizeof(half));
  return F16ToF32(half);
}

// The 6-bit value of index n (see "The 6-bit scales" in tensor/packed_matrix.h).
int ReadSixBits(const uint8_t* bytes, int n) {
  if (n < 192) return bytes[n] & 63;
  const int i = n - 192;
  return (bytes[i] >> 6) | (bytes[64 + i] >> 6) << 2 | (bytes[128 + i] >> 6) << 4;
}

// The unsigned code of column 4 * step + c.
int ReadCode(DType dtype, const uint8_t* group, int row, int step, int c) {
  const int byte = 4 * row + c;
  if (dtype == DType::kQ8_0) return group[step * kVectorBytes + byte];
  const int pair = group[step / 2 * kVectorBytes + byte];
  const int low = step % 2 == 0 ? pair & 15 : pair >> 4;
  const uint8_t* high = group + 4 * kVectorBytes;
  switch (dtype) {
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ5_K:
      return low | (high[byte] >> step & 1) << 4;
    case DType::kQ6_K:
      return low | (high[step / 4 * kVectorBytes + byte] >> (2 * (step % 4)) & 3) << 4;
    default:
      return low;
  }
}

int OffsetOf(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
      return 8;
    case DType::kQ5_0:
      return 16;
    case DType::kQ6_K:
      return 32;
    case DType::kQ8_0:
      return 128;
    default:
      return 0;
  }
}

}  // namespace

PackedGroup ReadPackedGroup(const PackedMatrix& matrix, int row, int group) {
  const PackedUnit unit = PackedUnitOf(matrix.dtype);
  const int lane = row % kPackRows;
  const int group_in_unit = group % unit.groups;
  const uint8_t* header = reinterpret_cast<const uint8_t*>(matrix.row_block(row / kPackRows)) +
                          static_cast<size_t>(group / unit.groups) * unit.bytes();
  PackedGroup result;
  switch (matrix.dtype) {
    case DType::kQ4_0:
    case DType::kQ5_0:
    case DType::kQ8_0:
      result.scale = ReadF16(header, group_in_unit * kPackRows + lane);
      break;
    case DType::kQ4_1:
    case DType::kQ5_1:
      result.scale = ReadF16(header, lane);
      result.minimum = ReadF16(header, kPackRows + lane);
      break;
    case DType::kQ4_K:
    case DType::kQ5_K: {
      const int n = group_in_unit * kPackRows + lane;
      const uint8_t* scales = header + 4 * kPackRows;
      result.scale = ReadF16(header, lane) * static_cast<float>(ReadSixBits(scales, n));
      result.minimum =
          -(ReadF16(header, kPackRows + lane) * static_cast<float>(ReadSixBits(scales, 128 + n)));
      break;
    }
    case DType::kQ6_K:
      result.scale = ReadF16(header, lane);
      for (int half = 0; half < 2; ++half) {
        result.half_scales[half] = static_cast<int8_t>(
            header[4 * kPackRows + (2 * group_in_unit + half) * kPackRows + lane]);
      }
      break;
    default:
      QUIRE_CHECK(false, "{} has no groups", InfoOf(matrix.dtype).name);
  }
  const uint8_t* codes =
      header + unit.header_bytes + static_cast<size_t>(group_in_unit) * unit.group_bytes;
  const int offset = OffsetOf(matrix.dtype);
  for (int step = 0; step < kSteps; ++step) {
    for (int c = 0; c < 4; ++c) {
      result.values[4 * step + c] = ReadCode(matrix.dtype, codes, lane, step, c) - offset;
    }
  }
  return result;
}

float ReadPackedFloat(const PackedMatrix& matrix, int row, int column) {
  const std::byte* block = matrix.row_block(row / kPackRows);
  const size_t index = static_cast<size_t>(column) * kPackRows + row % kPackRows;
  if (matrix.dtype == DType::kF32) {
    float value;
    std::memcpy(&value, block + 4 * index, sizeof(value));
    return value;
  }
  uint16_t half;
  std::memcpy(&half, block + 2 * index, sizeof(half));
  return matrix.dtype == DType::kF16 ? F16ToF32(half) : Bf16ToF32(half);
}

}  // namespace quire
