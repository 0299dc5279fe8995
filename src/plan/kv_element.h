// Element types of keys and values that a plan can speak of: those that the engine stores, and two
// that others do, so that a machine can be sized for them. The latter are planned only.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tensor/kv_type.h"

namespace quire {

struct KvElement {
  std::string_view name;
  int group_bytes = 0;              // of kKvScaleGroup elements, scales included
  bool needs_whole_groups = false;  // heads are multiples of kKvScaleGroup elements
  std::optional<KvType> type{};     // nothing: planned only

  constexpr bool planned_only() const { return !type.has_value(); }
};

// 32 elements of q4_0 are 4 bits each and one f16 scale; fp8 has no scales in the cache.
inline constexpr std::array kKvElements = {
    KvElement{"f16", 64, false, KvType::kF16},  KvElement{"bf16", 64, false, KvType::kBF16},
    KvElement{"f32", 128, false, KvType::kF32}, KvElement{"q8_0", 34, true, KvType::kQ8_0},
    KvElement{"fp8", 32, false, std::nullopt},  KvElement{"q4_0", 18, true, std::nullopt},
};

constexpr std::optional<KvElement> FindKvElement(std::string_view name) {
  for (const KvElement& element : kKvElements) {
    if (element.name == name) return element;
  }
  return std::nullopt;
}

constexpr KvElement KvElementOf(KvType type) { return *FindKvElement(NameOf(type)); }

}  // namespace quire
