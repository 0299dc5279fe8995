// Python's operators on values: arithmetic, comparison, containment, iteration.
//
// Integers are 64 bits; a result beyond them is an error, never a wrapped number.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "text/chat_template/value.h"

namespace quire::jinja {

enum class BinaryOp : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower
};
enum class CompareOp : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };

Result<Value> Apply(BinaryOp op, const Value& left, const Value& right, RenderState& state);
Result<Value> Negate(const Value& value);
Result<bool> Compare(CompareOp op, const Value& left, const Value& right, RenderState& state);

// Never fails; spends a step for each pair of values looked at and, out of steps, says false.
bool Equal(const Value& left, const Value& right, RenderState& state);
// -1, 0 or 1. Fails for values that have no order.
Result<int> Order(const Value& left, const Value& right, RenderState& state);
Result<bool> Contains(const Value& container, const Value& item, RenderState& state);
// Equality of hashable values.
bool KeysEqual(const Value& left, const Value& right);

// What a loop over the value sees: items, keys of a dict, characters of a string. Nothing for a
// value that cannot be iterated.
Result<std::vector<Value>> Iterate(const Value& value, RenderState& state);
bool IsIterable(const Value& value);
// len(): nothing for a value without a length.
std::optional<int64_t> LengthOf(const Value& value);

// Text pieces as text, each with its own marks.
Result<Value> Concatenate(std::span<const Value> values, RenderState& state);

}  // namespace quire::jinja
