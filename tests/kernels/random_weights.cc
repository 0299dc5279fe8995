#include "kernels/random_weights.h"

#include <cstdlib>
#include <cstring>

#include "kernels/packing.h"
#include "tensor/float16.h"

namespace quire {
namespace {

uint16_t RandomScale(Scales scales, std::mt19937& random) {
  if (scales != Scales::kWild) {
    const uint16_t sign = random() % 2 ? 0x8000 : 0;
    return sign | F32ToF16(0.001f + 0.002f * static_cast<float>(random() % 1000) / 1000.0f);
  }
  uint16_t half;
  do {
    half = static_cast<uint16_t>(random());
  } while ((half >> 10 & 31) == 31);
  if (random() % 8 == 0) half &= 0x83ff;
  if (random() % 32 == 0) half &= 0x8000;
  return half;
}

// Offsets of the halves inside a block.
std::vector<int> HalvesOf(DType dtype) {
  switch (dtype) {
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, 2};
    case DType::kQ6_K:
      return {208};
    default:
      return {0};
  }
}

float RandomNormal(std::mt19937& random) { return std::normal_distribution<float>()(random); }

void FillFloats(DType dtype, Scales scales, std::mt19937& random, std::vector<std::byte>* bytes) {
  const size_t size = InfoOf(dtype).block_bytes;
  for (size_t at = 0; at < bytes->size(); at += size) {
    const float value = RandomNormal(random);
    if (dtype == DType::kF32) {
      std::memcpy(bytes->data() + at, &value, size);
      continue;
    }
    uint16_t half = F32ToF16(value);
    if (dtype == DType::kF16 && scales == Scales::kWild) half = RandomScale(scales, random);
    if (dtype == DType::kBF16) {
      half = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
    }
    std::memcpy(bytes->data() + at, &half, size);
  }
}

}  // namespace

std::vector<std::byte> RandomFileRows(DType dtype, int num_rows, int num_cols, Scales scales,
                                      std::mt19937& random) {
  const DTypeInfo& info = InfoOf(dtype);
  std::vector<std::byte> bytes(num_rows * RowBytes(dtype, num_cols));
  if (!IsQuantized(dtype)) {
    FillFloats(dtype, scales, random, &bytes);
    return bytes;
  }
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  for (size_t block = 0; block < bytes.size(); block += info.block_bytes) {
    if (scales == Scales::kLargest) {
      // -128 and 127 for Q8_0, whose codes are signed.
      const int ones = dtype == DType::kQ8_0 ? 0x7f : 0xff;
      const int zeros = dtype == DType::kQ8_0 ? 0x80 : 0x00;
      std::memset(bytes.data() + block, random() % 2 == 0 ? ones : zeros, info.block_bytes);
    }
    for (int at : HalvesOf(dtype)) {
      const uint16_t half = RandomScale(scales, random);
      std::memcpy(bytes.data() + block + at, &half, sizeof(half));
    }
  }
  return bytes;
}

std::vector<float> RandomRows(int num_rows, int num_cols, Scales scales, std::mt19937& random) {
  std::vector<float> rows(static_cast<size_t>(num_rows) * num_cols);
  if (scales == Scales::kLargest) {
    // Runs of one sign, from single columns to whole groups.
    for (size_t i = 0; i < rows.size();) {
      const float value = random() % 2 == 0 ? 1.0f : -1.0f;
      for (size_t run = 1u << random() % 7; run > 0 && i < rows.size(); --run) rows[i++] = value;
    }
    return rows;
  }
  for (size_t group = 0; group < rows.size(); group += kGroupColumns) {
    const int kind = scales == Scales::kTame ? 9 : static_cast<int>(random() % 10);
    const float factor = kind == 0   ? 0.0f
                         : kind == 1 ? 1e-31f
                         : kind == 2 ? 1e-40f
                         : kind == 3 ? 1e-25f
                         : kind == 4 ? 1e15f
                                     : 1.0f;
    for (int i = 0; i < kGroupColumns && group + i < rows.size(); ++i) {
      rows[group + i] = RandomNormal(random) * factor;
    }
    if (kind == 5) rows[group] *= 1000.0f;
    // Ties of the rounding to int8: multiples of a half beside 127.
    if (kind == 6 && group + kGroupColumns <= rows.size()) {
      for (int i = 0; i < kGroupColumns; ++i) {
        rows[group + i] = 0.5f * static_cast<float>(static_cast<int>(random() % 400) - 200);
      }
      rows[group] = 127.0f;
    }
  }
  return rows;
}

OwnedMatrix::OwnedMatrix(DType dtype, int num_rows, int num_cols, Scales scales,
                         std::mt19937& random)
    : view{dtype, num_rows, num_cols},
      file(RandomFileRows(dtype, num_rows, num_cols, scales, random)) {
  memory = std::aligned_alloc(64, view.bytes());
  // Bytes that packing forgets would be seen.
  std::memset(memory, 0xa5, view.bytes());
  const size_t row_bytes = RowBytes(dtype, num_cols);
  for (int block = 0; block < view.num_row_blocks(); ++block) {
    const int first = block * kPackRows;
    const int rows = num_rows - first < kPackRows ? num_rows - first : kPackRows;
    PackRowBlock(dtype, file.data() + first * row_bytes, row_bytes, rows, num_cols,
                 static_cast<std::byte*>(memory) + block * view.row_block_bytes());
  }
  view.data = static_cast<const std::byte*>(memory);
}

OwnedMatrix::~OwnedMatrix() { std::free(memory); }

}  // namespace quire
