#include "text/chat_template/predicates.h"

#include <utility>

#include "text/chat_template/filters.h"
#include "text/chat_template/operators.h"
#include "text/chat_template/render_state.h"
#include "text/chat_template/unicode_text.h"
#include "text/chat_template/value_text.h"

namespace quire::jinja {
namespace {

using Args = const CallArgs&;

Status NoArgs(std::string_view name, Args args) { return ArgReader(name, args).Finish(); }

template <CompareOp op>
Result<bool> Comparison(const Value& value, Args args, RenderState& state) {
  ArgReader reader("comparison test", args);
  const Value other = reader.Need("b");
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  return Compare(op, value, other, state);
}

template <bool odd>
Result<bool> Parity(const Value& value, Args args, RenderState& state) {
  QUIRE_RETURN_IF_ERROR(NoArgs(odd ? "odd" : "even", args));
  QUIRE_ASSIGN_OR_RETURN(const Value rest,
                         Apply(BinaryOp::kModulo, value, Value::MakeInt(2), state));
  return Equal(rest, Value::MakeInt(odd ? 1 : 0), state);
}

Result<bool> DivisibleBy(const Value& value, Args args, RenderState& state) {
  ArgReader reader("divisibleby", args);
  const Value divisor = reader.Need("num");
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  QUIRE_ASSIGN_OR_RETURN(const Value rest, Apply(BinaryOp::kModulo, value, divisor, state));
  return Equal(rest, Value::MakeInt(0), state);
}

Result<bool> SameAsTest(const Value& value, Args args, RenderState&) {
  ArgReader reader("sameas", args);
  const Value other = reader.Need("other");
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  return value.SameAs(other);
}

// str.isupper and str.islower: at least one cased letter, and none of the other case.
bool AllCased(std::string_view text, bool upper) {
  bool seen = false;
  for (size_t at = 0; at < text.size();) {
    const CodePoint unit = CodePointAt(text, at);
    if (upper ? IsLower(unit.value) : IsUpper(unit.value)) return false;
    seen = seen || IsUpper(unit.value) || IsLower(unit.value);
    at += unit.length;
  }
  return seen;
}

template <bool upper>
Result<bool> CaseTest(const Value& value, Args args, RenderState& state) {
  QUIRE_RETURN_IF_ERROR(NoArgs(upper ? "upper" : "lower", args));
  QUIRE_ASSIGN_OR_RETURN(const MarkedString text, ToText(value, state));
  return AllCased(text.text(), upper);
}

Result<bool> FilterExists(const Value& value, Args args, RenderState&) {
  QUIRE_RETURN_IF_ERROR(NoArgs("filter", args));
  return value.IsString() && FindFilter(value.Text()) != nullptr;
}

Result<bool> TestExists(const Value& value, Args args, RenderState&) {
  QUIRE_RETURN_IF_ERROR(NoArgs("test", args));
  return value.IsString() && FindPredicate(value.Text()) != nullptr;
}

// A test that looks at the value alone and cannot fail.
template <bool (*holds)(const Value&)>
Result<bool> Simple(const Value& value, Args args, RenderState&) {
  QUIRE_RETURN_IF_ERROR(NoArgs("test", args));
  return holds(value);
}

bool IsDefined(const Value& value) { return !value.IsUndefined(); }
bool IsUndefined(const Value& value) { return value.IsUndefined(); }
bool IsNone(const Value& value) { return value.IsNone(); }
bool IsStringValue(const Value& value) { return value.IsString(); }
bool IsNumberValue(const Value& value) { return value.IsNumber(); }
bool IsInteger(const Value& value) { return value.IsInt(); }
bool IsFloatValue(const Value& value) { return value.IsFloat(); }
bool IsBoolean(const Value& value) { return value.IsBool(); }
bool IsExactlyTrue(const Value& value) { return value.IsBool() && value.AsBool(); }
bool IsExactlyFalse(const Value& value) { return value.IsBool() && !value.AsBool(); }
bool IsMapping(const Value& value) { return value.IsDict(); }
bool IsCallable(const Value& value) {
  return value.kind() == Kind::kCallable || value.kind() == Kind::kObject || value.IsUndefined();
}
bool IsEscaped(const Value&) { return false; }
// Has a length and can be subscripted, in Python's eyes.
bool IsSequenceValue(const Value& value) {
  if (!value.IsSequence()) return IsIterable(value);
  const SequenceKind kind = value.AsSequence().kind;
  return kind == SequenceKind::kList || kind == SequenceKind::kTuple ||
         kind == SequenceKind::kRange;
}

constexpr std::pair<std::string_view, Predicate> kPredicates[] = {
    {"!=", Comparison<CompareOp::kNe>},
    {"<", Comparison<CompareOp::kLt>},
    {"<=", Comparison<CompareOp::kLe>},
    {"==", Comparison<CompareOp::kEq>},
    {">", Comparison<CompareOp::kGt>},
    {">=", Comparison<CompareOp::kGe>},
    {"boolean", Simple<IsBoolean>},
    {"callable", Simple<IsCallable>},
    {"defined", Simple<IsDefined>},
    {"divisibleby", DivisibleBy},
    {"eq", Comparison<CompareOp::kEq>},
    {"equalto", Comparison<CompareOp::kEq>},
    {"escaped", Simple<IsEscaped>},
    {"even", Parity<false>},
    {"false", Simple<IsExactlyFalse>},
    {"filter", FilterExists},
    {"float", Simple<IsFloatValue>},
    {"ge", Comparison<CompareOp::kGe>},
    {"greaterthan", Comparison<CompareOp::kGt>},
    {"gt", Comparison<CompareOp::kGt>},
    {"in", Comparison<CompareOp::kIn>},
    {"integer", Simple<IsInteger>},
    {"iterable", Simple<IsIterable>},
    {"le", Comparison<CompareOp::kLe>},
    {"lessthan", Comparison<CompareOp::kLt>},
    {"lower", CaseTest<false>},
    {"lt", Comparison<CompareOp::kLt>},
    {"mapping", Simple<IsMapping>},
    {"ne", Comparison<CompareOp::kNe>},
    {"none", Simple<IsNone>},
    {"number", Simple<IsNumberValue>},
    {"odd", Parity<true>},
    {"sameas", SameAsTest},
    {"sequence", Simple<IsSequenceValue>},
    {"string", Simple<IsStringValue>},
    {"test", TestExists},
    {"true", Simple<IsExactlyTrue>},
    {"undefined", Simple<IsUndefined>},
    {"upper", CaseTest<true>},
};

}  // namespace

Predicate FindPredicate(std::string_view name) {
  for (const auto& [key, predicate] : kPredicates) {
    if (key == name) return predicate;
  }
  return nullptr;
}

}  // namespace quire::jinja
