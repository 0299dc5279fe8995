// How an element of a key or value is stored, and what that costs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace quire {

// f16 and bf16 are rounded to nearest, ties to even. q8_0 holds groups of 32 consecutive elements
// of a head as int8 in -127..127 beside one f16 scale (docs/numerics.md, "Stored keys and values").
enum class KvType : uint8_t { kF16, kF32, kBF16, kQ8_0 };

inline constexpr std::array kKvTypes = {KvType::kF16, KvType::kBF16, KvType::kF32, KvType::kQ8_0};

// Elements of a head that share a scale in q8_0; the dimension of a head is a multiple of it there.
inline constexpr int kKvScaleGroup = 32;

constexpr std::string_view NameOf(KvType type) {
  switch (type) {
    case KvType::kF16:
      return "f16";
    case KvType::kF32:
      return "f32";
    case KvType::kBF16:
      return "bf16";
    case KvType::kQ8_0:
      return "q8_0";
  }
  return "";
}

constexpr std::optional<KvType> ParseKvType(std::string_view name) {
  for (const KvType type : kKvTypes) {
    if (NameOf(type) == name) return type;
  }
  return std::nullopt;
}

// Whether heads of this dimension can be stored.
constexpr bool CanStore(KvType type, int head_dim) {
  return type != KvType::kQ8_0 || head_dim % kKvScaleGroup == 0;
}

// Bytes of so many elements of whole heads, scales included.
constexpr size_t KvBytes(KvType type, size_t num_elements) {
  switch (type) {
    case KvType::kF16:
    case KvType::kBF16:
      return 2 * num_elements;
    case KvType::kF32:
      return 4 * num_elements;
    case KvType::kQ8_0:
      return num_elements / kKvScaleGroup * (kKvScaleGroup + 2);
  }
  return 0;
}

}  // namespace quire
