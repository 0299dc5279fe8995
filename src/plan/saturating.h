// Arithmetic on untrusted sizes that stops at the largest number instead of wrapping around: such a
// plan fits nowhere, which is the right answer.
#pragma once

#include <cstdint>
#include <limits>

#include "base/bytes.h"

namespace quire {

inline constexpr uint64_t kNeverFits = std::numeric_limits<uint64_t>::max();

constexpr uint64_t SaturatingAdd(uint64_t a, uint64_t b) {
  return CheckedAdd(a, b).value_or(kNeverFits);
}
constexpr uint64_t SaturatingMul(uint64_t a, uint64_t b) {
  return CheckedMul(a, b).value_or(kNeverFits);
}

}  // namespace quire
