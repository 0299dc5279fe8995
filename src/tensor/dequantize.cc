#include "tensor/dequantize.h"

#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "tensor/float16.h"

namespace quire {
namespace {

// Rows lie anywhere in a file, so nothing is assumed about alignment.
template <typename T>
T Load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

float LoadHalf(const std::byte* bytes) { return F16ToF32(Load<uint16_t>(bytes)); }

int Byte(const std::byte* bytes, int idx) { return std::to_integer<int>(bytes[idx]); }

// f16 d, [f16 m], [32 fifth bits], 16 bytes of nibbles: byte i holds elements i (low) and i + 16.
template <bool kFifthBit, bool kMinimum>
void DequantizeNibbles(const std::byte* block, float* out) {
  const float d = LoadHalf(block);
  block += 2;
  float m = 0.0f;
  if constexpr (kMinimum) {
    m = LoadHalf(block);
    block += 2;
  }
  uint32_t high = 0;
  if constexpr (kFifthBit) {
    high = Load<uint32_t>(block);
    block += 4;
  }
  for (int i = 0; i < 32; ++i) {
    const int nibble = (Byte(block, i % 16) >> (i < 16 ? 0 : 4)) & 15;
    const int code = nibble | static_cast<int>((high >> i) & 1u) << 4;
    if constexpr (kMinimum) {
      out[i] = d * static_cast<float>(code) + m;
    } else {
      out[i] = d * static_cast<float>(code - (kFifthBit ? 16 : 8));
    }
  }
}

// f16 d, 32 int8.
void DequantizeQ8_0(const std::byte* block, float* out) {
  const float d = LoadHalf(block);
  for (int i = 0; i < 32; ++i) {
    out[i] = d * static_cast<float>(static_cast<int8_t>(Byte(block, 2 + i)));
  }
}

struct ScaleAndMinimum {
  int scale;
  int minimum;
};

// Group 0 to 7 of the 12 bytes of a K-quant: groups 0-3 are the low six bits of bytes 0-3 (scales)
// and 4-7 (minimums); groups 4-7 take four bits from bytes 8-11 and their top two from bytes 0-7.
ScaleAndMinimum UnpackScales(const std::byte* scales, int group) {
  if (group < 4) return {Byte(scales, group) & 63, Byte(scales, group + 4) & 63};
  const int low = Byte(scales, group + 4);
  return {(low & 15) | (Byte(scales, group - 4) >> 6) << 4, (low >> 4) | (Byte(scales, group) >> 6)
                                                                             << 4};
}

// f16 d, f16 dmin, 12 bytes of scales, [32 bytes of fifth bits], 128 bytes of nibbles. Bytes
// 32 * p and up hold group 2 * p in the low nibbles and 2 * p + 1 in the high ones; bit g of fifth
// byte i belongs to element i of group g.
template <bool kFifthBit>
void DequantizeK4(const std::byte* block, float* out) {
  const float d = LoadHalf(block);
  const float dmin = LoadHalf(block + 2);
  const std::byte* scales = block + 4;
  const std::byte* high = block + 16;
  const std::byte* nibbles = block + (kFifthBit ? 48 : 16);
  for (int group = 0; group < 8; ++group) {
    const ScaleAndMinimum packed = UnpackScales(scales, group);
    const float scale = d * static_cast<float>(packed.scale);
    const float minimum = dmin * static_cast<float>(packed.minimum);
    for (int i = 0; i < 32; ++i) {
      int code = (Byte(nibbles, group / 2 * 32 + i) >> (group % 2 * 4)) & 15;
      if constexpr (kFifthBit) code |= ((Byte(high, i) >> group) & 1) << 4;
      out[group * 32 + i] = scale * static_cast<float>(code) - minimum;
    }
  }
}

// 128 bytes of nibbles, 64 bytes of upper bit pairs, 16 int8 scales, f16 d; two halves of 128.
void DequantizeQ6_K(const std::byte* block, float* out) {
  const float d = LoadHalf(block + 208);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128;
    const int quarter = i % 128 / 32;
    const int lane = i % 32;
    const int low = Byte(block, half * 64 + quarter % 2 * 32 + lane) >> (quarter / 2 * 4) & 15;
    const int high = Byte(block, 128 + half * 32 + lane) >> (quarter * 2) & 3;
    const int scale = static_cast<int8_t>(Byte(block, 192 + i / 16));
    const float group_scale = d * static_cast<float>(scale);
    out[i] = group_scale * static_cast<float>((low | high << 4) - 32);
  }
}

void DequantizeBlock(DType dtype, const std::byte* block, float* out) {
  switch (dtype) {
    case DType::kF32:
      *out = Load<float>(block);
      return;
    case DType::kF16:
      *out = LoadHalf(block);
      return;
    case DType::kBF16:
      *out = Bf16ToF32(Load<uint16_t>(block));
      return;
    case DType::kQ4_0:
      return DequantizeNibbles<false, false>(block, out);
    case DType::kQ4_1:
      return DequantizeNibbles<false, true>(block, out);
    case DType::kQ5_0:
      return DequantizeNibbles<true, false>(block, out);
    case DType::kQ5_1:
      return DequantizeNibbles<true, true>(block, out);
    case DType::kQ8_0:
      return DequantizeQ8_0(block, out);
    case DType::kQ4_K:
      return DequantizeK4<false>(block, out);
    case DType::kQ5_K:
      return DequantizeK4<true>(block, out);
    case DType::kQ6_K:
      return DequantizeQ6_K(block, out);
  }
}

}  // namespace

void DequantizeRow(DType dtype, const std::byte* row, size_t num_elements, float* out) {
  const DTypeInfo& info = InfoOf(dtype);
  QUIRE_CHECK(num_elements % info.block_elements == 0, "{} elements of {}", num_elements,
              info.name);
  for (size_t i = 0; i < num_elements; i += info.block_elements, row += info.block_bytes) {
    DequantizeBlock(dtype, row, out + i);
  }
}

}  // namespace quire
