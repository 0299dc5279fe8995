#include "text/chat_template/operators.h"

#include <algorithm>
#include <cmath>

#include "text/chat_template/render_state.h"
#include "text/chat_template/string_format.h"
#include "text/chat_template/unicode_text.h"
#include "text/chat_template/value_text.h"

namespace quire::jinja {
namespace {

std::string_view Symbol(BinaryOp op) {
  constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "**"};
  return kSymbols[static_cast<size_t>(op)];
}

Error Mismatch(BinaryOp op, const Value& left, const Value& right) {
  for (const Value* value : {&left, &right}) {
    if (value->IsUndefined()) return Fault("{}", value->UndefinedReason());
  }
  return Fault("unsupported operand types for {}: {} and {}", Symbol(op), TypeName(left),
               TypeName(right));
}

Error Overflow(BinaryOp op) {
  return Fault("the result of {} does not fit in a 64-bit integer", Symbol(op));
}

Result<Value> IntPower(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return Fault("0 cannot be raised to a negative power");
    return Value::MakeFloat(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) {
      return Overflow(BinaryOp::kPower);
    }
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base))
      return Overflow(BinaryOp::kPower);
  }
  return Value::MakeInt(result);
}

Result<Value> IntArithmetic(BinaryOp op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case BinaryOp::kAdd:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case BinaryOp::kSubtract:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case BinaryOp::kMultiply:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case BinaryOp::kDivide:
      if (b == 0) return Fault("division by zero");
      return Value::MakeFloat(static_cast<double>(a) / static_cast<double>(b));
    case BinaryOp::kFloorDivide:
    case BinaryOp::kModulo: {
      if (b == 0) return Fault("integer division or modulo by zero");
      // The one quotient that does not fit; its remainder is 0.
      if (b == -1) {
        if (op == BinaryOp::kModulo) return Value::MakeInt(0);
        overflow = __builtin_sub_overflow(int64_t{0}, a, &result);
        break;
      }
      int64_t quotient = a / b;
      int64_t remainder = a % b;
      if (remainder != 0 && (remainder < 0) != (b < 0)) {
        --quotient;
        remainder += b;
      }
      result = op == BinaryOp::kModulo ? remainder : quotient;
      break;
    }
    case BinaryOp::kPower:
      return IntPower(a, b);
  }
  if (overflow) return Overflow(op);
  return Value::MakeInt(result);
}

double FloatModulo(double a, double b) {
  double remainder = std::fmod(a, b);
  if (remainder == 0) return std::copysign(0.0, b);
  if ((remainder < 0) != (b < 0)) remainder += b;
  return remainder;
}

Result<Value> FloatArithmetic(BinaryOp op, double a, double b) {
  const bool divides =
      op == BinaryOp::kDivide || op == BinaryOp::kFloorDivide || op == BinaryOp::kModulo;
  if (divides && b == 0) return Fault("float division by zero");
  switch (op) {
    case BinaryOp::kAdd:
      return Value::MakeFloat(a + b);
    case BinaryOp::kSubtract:
      return Value::MakeFloat(a - b);
    case BinaryOp::kMultiply:
      return Value::MakeFloat(a * b);
    case BinaryOp::kDivide:
      return Value::MakeFloat(a / b);
    case BinaryOp::kFloorDivide:
      return Value::MakeFloat(std::floor((a - FloatModulo(a, b)) / b + 0.5));
    case BinaryOp::kModulo:
      return Value::MakeFloat(FloatModulo(a, b));
    case BinaryOp::kPower:
      break;
  }
  if (a == 0 && b < 0) return Fault("0.0 cannot be raised to a negative power");
  if (a < 0 && b != std::floor(b)) return Fault("a negative number has no power {}", b);
  const double power = std::pow(a, b);
  if (std::isinf(power) && std::isfinite(a) && std::isfinite(b)) {
    return Fault("the result of ** is too large for a float");
  }
  return Value::MakeFloat(power);
}

Result<Value> AddSequences(const Value& left, const Value& right, RenderState& state) {
  const Sequence& a = left.AsSequence();
  const Sequence& b = right.AsSequence();
  const bool addable =
      a.kind == b.kind && (a.kind == SequenceKind::kList || a.kind == SequenceKind::kTuple);
  if (!addable) return Mismatch(BinaryOp::kAdd, left, right);
  QUIRE_RETURN_IF_ERROR(state.SpendItems(a.items.size() + b.items.size()));
  std::vector<Value> items = a.items;
  items.insert(items.end(), b.items.begin(), b.items.end());
  return Value::MakeSequence(a.kind, std::move(items))
      .SetTrusted(left.trusted() && right.trusted());
}

Result<Value> Repeat(const Value& value, int64_t count, RenderState& state) {
  const auto times = static_cast<uint64_t>(std::max<int64_t>(count, 0));
  // Beyond this nothing but an empty value fits in memory, and the product cannot overflow.
  const uint64_t bounded = std::min<uint64_t>(times, state.limits().max_bytes + 1);
  if (value.IsString()) {
    const MarkedString& text = value.AsString();
    if (text.empty()) return value;
    if (bounded > state.limits().max_bytes / text.size())
      return state.SpendBytes(UINT64_MAX).error();
    QUIRE_RETURN_IF_ERROR(state.SpendBytes(bounded * text.size()));
    MarkedString result;
    for (uint64_t i = 0; i < bounded; ++i) result.Append(text);
    return Value::MakeString(std::move(result));
  }
  const Sequence& sequence = value.AsSequence();
  if (sequence.items.empty()) return value;
  if (bounded > state.limits().max_bytes / sizeof(Value) / sequence.items.size()) {
    return state.SpendBytes(UINT64_MAX).error();
  }
  QUIRE_RETURN_IF_ERROR(state.SpendItems(bounded * sequence.items.size()));
  std::vector<Value> items;
  for (uint64_t i = 0; i < bounded; ++i) {
    items.insert(items.end(), sequence.items.begin(), sequence.items.end());
  }
  return Value::MakeSequence(sequence.kind, std::move(items)).SetTrusted(value.trusted());
}

bool IsRepeatable(const Value& value) {
  return value.IsString() ||
         (value.IsSequence() && (value.AsSequence().kind == SequenceKind::kList ||
                                 value.AsSequence().kind == SequenceKind::kTuple));
}

bool IsIntegral(const Value& value) { return value.IsInt() || value.IsBool(); }

// An int and a float compared exactly, as Python does.
int CompareIntFloat(int64_t a, double b) {
  if (b >= 0x1p63) return -1;
  if (b < -0x1p63) return 1;
  const auto whole = static_cast<int64_t>(b);
  if (a != whole) return a < whole ? -1 : 1;
  const double rest = b - static_cast<double>(whole);
  return rest > 0 ? -1 : rest < 0 ? 1 : 0;
}

// NaN is neither: 2.
int CompareNumbers(const Value& left, const Value& right) {
  if (left.IsFloat() && right.IsFloat()) {
    const double a = left.AsFloat();
    const double b = right.AsFloat();
    return a < b ? -1 : a > b ? 1 : a == b ? 0 : 2;
  }
  if (left.IsFloat()) {
    return std::isnan(left.AsFloat()) ? 2 : -CompareIntFloat(right.NumberAsInt(), left.AsFloat());
  }
  if (right.IsFloat()) {
    return std::isnan(right.AsFloat()) ? 2 : CompareIntFloat(left.NumberAsInt(), right.AsFloat());
  }
  const int64_t a = left.NumberAsInt();
  const int64_t b = right.NumberAsInt();
  return a < b ? -1 : a > b ? 1 : 0;
}

bool EqualSequences(const Sequence& a, const Sequence& b, RenderState& state) {
  if (a.kind != b.kind || a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    if (!a.items[i].SameAs(b.items[i]) && !Equal(a.items[i], b.items[i], state)) return false;
  }
  return true;
}

bool EqualDicts(const Dict& a, const Dict& b, RenderState& state) {
  if (a.size() != b.size()) return false;
  for (const auto& [key, value] : a.entries()) {
    const Value* other = b.Find(key);
    if (other == nullptr) return false;
    if (!value.SameAs(*other) && !Equal(value, *other, state)) return false;
  }
  return true;
}

Result<int> OrderSequences(const Value& left, const Value& right, RenderState& state) {
  const auto& a = left.AsSequence().items;
  const auto& b = right.AsSequence().items;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i].SameAs(b[i]) || Equal(a[i], b[i], state)) continue;
    return Order(a[i], b[i], state);
  }
  return a.size() < b.size() ? -1 : a.size() > b.size() ? 1 : 0;
}

}  // namespace

Result<Value> Apply(BinaryOp op, const Value& left, const Value& right, RenderState& state) {
  const bool trusted = left.trusted() && right.trusted();
  if (IsIntegral(left) && IsIntegral(right)) {
    QUIRE_ASSIGN_OR_RETURN(Value value, IntArithmetic(op, left.NumberAsInt(), right.NumberAsInt()));
    return std::move(value).SetTrusted(trusted);
  }
  if (left.IsNumber() && right.IsNumber()) {
    QUIRE_ASSIGN_OR_RETURN(Value value,
                           FloatArithmetic(op, left.NumberAsFloat(), right.NumberAsFloat()));
    return std::move(value).SetTrusted(trusted);
  }
  if (op == BinaryOp::kAdd && left.IsString() && right.IsString()) {
    const Value both[] = {left, right};
    return Concatenate(both, state);
  }
  if (op == BinaryOp::kAdd && left.IsSequence() && right.IsSequence()) {
    return AddSequences(left, right, state);
  }
  if (op == BinaryOp::kMultiply && IsRepeatable(left) && IsIntegral(right)) {
    return Repeat(left, right.NumberAsInt(), state);
  }
  if (op == BinaryOp::kMultiply && IsIntegral(left) && IsRepeatable(right)) {
    return Repeat(right, left.NumberAsInt(), state);
  }
  if (op == BinaryOp::kModulo && left.IsString()) {
    return PercentFormat(left.AsString(), right, state);
  }
  return Mismatch(op, left, right);
}

Result<Value> Negate(const Value& value) {
  if (value.IsFloat()) return Value::MakeFloat(-value.AsFloat()).SetTrusted(value.trusted());
  if (IsIntegral(value)) {
    int64_t result = 0;
    if (__builtin_sub_overflow(int64_t{0}, value.NumberAsInt(), &result)) {
      return Overflow(BinaryOp::kSubtract);
    }
    return Value::MakeInt(result).SetTrusted(value.trusted());
  }
  if (value.IsUndefined()) return Fault("{}", value.UndefinedReason());
  return Fault("unary - needs a number, not {}", TypeName(value));
}

bool Equal(const Value& left, const Value& right, RenderState& state) {
  if (!state.Step()) return false;
  if (left.IsNumber() && right.IsNumber()) return CompareNumbers(left, right) == 0;
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::kUndefined:
      return true;
    case Kind::kSequence:
      return EqualSequences(left.AsSequence(), right.AsSequence(), state);
    case Kind::kDict:
      return EqualDicts(left.AsDict(), right.AsDict(), state);
    default:
      return left.SameAs(right);
  }
}

bool KeysEqual(const Value& left, const Value& right) {
  if (left.IsNumber() && right.IsNumber()) return CompareNumbers(left, right) == 0;
  if (left.kind() != right.kind()) return false;
  if (left.IsUndefined()) return true;
  if (!left.IsSequence()) return left.SameAs(right);
  const auto& a = left.AsSequence().items;
  const auto& b = right.AsSequence().items;
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), KeysEqual);
}

Result<int> Order(const Value& left, const Value& right, RenderState& state) {
  if (!state.Step()) return state.CheckLimits().error();
  if (left.IsNumber() && right.IsNumber()) {
    const int order = CompareNumbers(left, right);
    return order == 2 ? 1 : order;
  }
  if (left.IsString() && right.IsString()) {
    // UTF-8 sorts as its code points do.
    const int order = left.Text().compare(right.Text());
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  if (left.IsSequence() && right.IsSequence() &&
      left.AsSequence().kind == right.AsSequence().kind && IsRepeatable(left)) {
    return OrderSequences(left, right, state);
  }
  for (const Value* value : {&left, &right}) {
    if (value->IsUndefined()) return Fault("{}", value->UndefinedReason());
  }
  return Fault("{} and {} have no order", TypeName(left), TypeName(right));
}

Result<bool> Contains(const Value& container, const Value& item, RenderState& state) {
  switch (container.kind()) {
    case Kind::kUndefined:
      return false;
    case Kind::kString: {
      if (item.IsUndefined()) return Fault("{}", item.UndefinedReason());
      if (!item.IsString()) return Fault("'in <string>' needs a string, not {}", TypeName(item));
      QUIRE_RETURN_IF_ERROR(state.SpendBytes(container.Text().size()));
      return container.Text().find(item.Text()) != std::string::npos;
    }
    case Kind::kSequence:
      for (const Value& entry : container.AsSequence().items) {
        if (entry.SameAs(item) || Equal(entry, item, state)) return true;
        if (state.exhausted()) return state.CheckLimits().error();
      }
      return false;
    case Kind::kDict:
      if (!IsHashable(item)) return Fault("a {} cannot be a key", TypeName(item));
      return container.AsDict().Find(item) != nullptr;
    default:
      return Fault("'in' needs a container, not {}", TypeName(container));
  }
}

Result<bool> Compare(CompareOp op, const Value& left, const Value& right, RenderState& state) {
  switch (op) {
    case CompareOp::kEq:
      return Equal(left, right, state);
    case CompareOp::kNe:
      return !Equal(left, right, state);
    case CompareOp::kIn:
      return Contains(right, left, state);
    case CompareOp::kNotIn: {
      QUIRE_ASSIGN_OR_RETURN(const bool contained, Contains(right, left, state));
      return !contained;
    }
    default:
      break;
  }
  if (left.IsNumber() && right.IsNumber() && CompareNumbers(left, right) == 2) return false;
  QUIRE_ASSIGN_OR_RETURN(const int order, Order(left, right, state));
  switch (op) {
    case CompareOp::kLt:
      return order < 0;
    case CompareOp::kLe:
      return order <= 0;
    case CompareOp::kGt:
      return order > 0;
    default:
      return order >= 0;
  }
}

bool IsIterable(const Value& value) {
  return value.IsUndefined() || value.IsString() || value.IsSequence() || value.IsDict();
}

Result<std::vector<Value>> Iterate(const Value& value, RenderState& state) {
  std::vector<Value> items;
  switch (value.kind()) {
    case Kind::kUndefined:
      return items;
    case Kind::kSequence:
      QUIRE_RETURN_IF_ERROR(state.SpendItems(value.AsSequence().items.size()));
      return value.AsSequence().items;
    case Kind::kDict:
      QUIRE_RETURN_IF_ERROR(state.SpendItems(value.AsDict().size()));
      for (const auto& entry : value.AsDict().entries()) items.push_back(entry.first);
      return items;
    case Kind::kString: {
      const MarkedString& text = value.AsString();
      // A character becomes a string of its own, with its bookkeeping.
      QUIRE_RETURN_IF_ERROR(state.SpendItems(text.size() * 3));
      for (size_t at = 0; at < text.size();) {
        const size_t length = CodePointAt(text.text(), at).length;
        items.push_back(Value::MakeString(text.Slice(at, at + length)));
        at += length;
      }
      return items;
    }
    default:
      return Fault("a {} cannot be iterated over", TypeName(value));
  }
}

std::optional<int64_t> LengthOf(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return static_cast<int64_t>(CountCodePoints(value.Text()));
    case Kind::kSequence:
      if (value.AsSequence().kind == SequenceKind::kGenerator) return std::nullopt;
      return static_cast<int64_t>(value.AsSequence().items.size());
    case Kind::kDict:
      return static_cast<int64_t>(value.AsDict().size());
    default:
      return std::nullopt;
  }
}

Result<Value> Concatenate(std::span<const Value> values, RenderState& state) {
  MarkedString result;
  for (const Value& value : values) {
    QUIRE_ASSIGN_OR_RETURN(const MarkedString text, ToText(value, state));
    QUIRE_RETURN_IF_ERROR(state.SpendBytes(text.size()));
    result.Append(text);
  }
  return Value::MakeString(std::move(result));
}

}  // namespace quire::jinja
