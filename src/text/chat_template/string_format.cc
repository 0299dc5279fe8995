#include "text/chat_template/string_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "text/chat_template/render_state.h"
#include "text/chat_template/unicode_text.h"
#include "text/chat_template/value_text.h"

namespace quire::jinja {
namespace {

// Wider fields than any prompt needs are refused.
constexpr int64_t kMaxWidth = 10'000;
constexpr int64_t kMaxPrecision = 100;

struct Spec {
  char type = 0;   // 0: the value's own
  char align = 0;  // '<', '>', '^', '='; 0: the value's own
  char sign = 0;   // '+' or ' '
  std::string fill = " ";
  int64_t width = 0;
  int64_t precision = -1;
  bool alternate = false;
  bool thousands = false;
};

// Reads digits at `at`; 0 when there are none.
Result<int64_t> TakeNumber(std::string_view text, size_t& at, int64_t limit) {
  int64_t value = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    value = value * 10 + (text[at++] - '0');
    if (value > limit) return Fault("a width or precision in a format is above {}", limit);
  }
  return value;
}

void InsertThousands(std::string& digits) {
  size_t whole = 0;
  while (whole < digits.size() && digits[whole] >= '0' && digits[whole] <= '9') ++whole;
  for (size_t at = whole; at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
}

// Digits of a number without its sign.
Result<std::string> NumberDigits(const Value& value, const Spec& spec) {
  const char type = spec.type;
  const bool integer_type = type == 'd' || type == 'x' || type == 'X' || type == 'o' || type == 'b';
  if (integer_type || (type == 0 && !value.IsFloat())) {
    if (value.IsFloat()) return Fault("format '{}' needs an integer", type);
    const int64_t number = value.NumberAsInt();
    const uint64_t magnitude =
        number < 0 ? ~static_cast<uint64_t>(number) + 1 : static_cast<uint64_t>(number);
    switch (type) {
      case 'x':
        return fmt::format("{}{:x}", spec.alternate ? "0x" : "", magnitude);
      case 'X':
        return fmt::format("{}{:X}", spec.alternate ? "0X" : "", magnitude);
      case 'o':
        return fmt::format("{}{:o}", spec.alternate ? "0o" : "", magnitude);
      case 'b':
        return fmt::format("{}{:b}", spec.alternate ? "0b" : "", magnitude);
      default:
        return fmt::to_string(magnitude);
    }
  }
  const double magnitude = std::abs(value.NumberAsFloat());
  if (type == 0 && spec.precision < 0) return FloatText(magnitude);
  const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
  switch (type) {
    case 'f':
    case 'F':
      return fmt::format("{:.{}f}", magnitude, precision);
    case 'e':
      return fmt::format("{:.{}e}", magnitude, precision);
    case 'E':
      return fmt::format("{:.{}E}", magnitude, precision);
    case '%':
      return fmt::format("{:.{}f}%", magnitude * 100, precision);
    default:
      return fmt::format("{:.{}g}", magnitude, std::max(precision, 1));
  }
}

// The text in a field of the spec's width.
MarkedString Pad(const MarkedString& text, const Spec& spec, char own_align, size_t sign_length) {
  const int64_t missing = spec.width - static_cast<int64_t>(CountCodePoints(text.text()));
  if (missing <= 0) return text;
  const char align = spec.align == 0 ? own_align : spec.align;
  const int64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  MarkedString result;
  if (align == '=') result.AppendSlice(text, 0, sign_length);
  for (int64_t i = 0; i < left; ++i) result.Append(spec.fill, true);
  result.AppendSlice(text, align == '=' ? sign_length : 0, text.size());
  for (int64_t i = left; i < missing; ++i) result.Append(spec.fill, true);
  return result;
}

Result<MarkedString> FormatNumber(const Value& value, const Spec& spec) {
  QUIRE_ASSIGN_OR_RETURN(std::string digits, NumberDigits(value, spec));
  if (spec.thousands) InsertThousands(digits);
  const bool negative = value.IsFloat() ? value.AsFloat() < 0 : value.NumberAsInt() < 0;
  std::string sign;
  if (negative) {
    sign = "-";
  } else if (spec.sign != 0) {
    sign = std::string(1, spec.sign);
  }
  return Pad(MarkedString(sign + digits, value.trusted()), spec, '>', sign.size());
}

MarkedString Cut(const MarkedString& text, int64_t precision) {
  if (precision < 0) return text;
  const auto offsets = CodePointOffsets(text.text());
  const size_t count = std::min(offsets.size() - 1, static_cast<size_t>(precision));
  return text.Slice(0, offsets[count]);
}

// The values of a % format, taken by name or one after the other.
class PercentValues {
 public:
  explicit PercentValues(const Value& values) : values_(values) {
    is_tuple_ = values.IsSequence() && values.AsSequence().kind == SequenceKind::kTuple;
  }

  Result<Value> Next() {
    if (is_tuple_) {
      const auto& items = values_.AsSequence().items;
      if (next_ >= items.size()) return Fault("not enough arguments for the format string");
      return items[next_++];
    }
    if (next_++ > 0) return Fault("not enough arguments for the format string");
    return values_;
  }

  Result<Value> Named(std::string_view name) {
    named_ = true;
    if (!values_.IsDict()) return Fault("a format with names needs a dict");
    const Value* value = values_.AsDict().Find(name);
    if (value == nullptr) return Fault("the format string names '{:.60}', which is missing", name);
    return *value;
  }

  Status CheckAllUsed() const {
    if (named_ || values_.IsDict()) return {};
    const size_t count = is_tuple_ ? values_.AsSequence().items.size() : 1;
    if (next_ < count) return Fault("not all arguments are used by the format string");
    return {};
  }

 private:
  const Value& values_;
  bool is_tuple_ = false;
  bool named_ = false;
  size_t next_ = 0;
};

// The flags, width, precision and type behind a '%'.
Result<Spec> TakePercentSpec(std::string_view text, size_t& at) {
  Spec spec;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '-') {
      spec.align = '<';
    } else if (c == '0') {
      spec.fill = "0";
      if (spec.align == 0) spec.align = '=';
    } else if (c == '+' || c == ' ') {
      spec.sign = c;
    } else if (c == '#') {
      spec.alternate = true;
    } else {
      break;
    }
  }
  if (spec.align == '<') spec.fill = " ";
  QUIRE_ASSIGN_OR_RETURN(spec.width, TakeNumber(text, at, kMaxWidth));
  if (at < text.size() && text[at] == '.') {
    ++at;
    QUIRE_ASSIGN_OR_RETURN(spec.precision, TakeNumber(text, at, kMaxPrecision));
  }
  if (at >= text.size()) return Fault("a format string ends in the middle of a '%' item");
  spec.type = text[at++];
  return spec;
}

Result<MarkedString> PercentItem(const Value& value, Spec spec, RenderState& state) {
  switch (spec.type) {
    case 's':
    case 'r':
    case 'a': {
      QUIRE_ASSIGN_OR_RETURN(const MarkedString text,
                             spec.type == 's' ? ToText(value, state) : ToRepr(value, state));
      if (spec.align == '=') spec.align = '>';
      spec.fill = " ";
      return Pad(Cut(text, spec.precision), spec, '>', 0);
    }
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g': {
      if (!value.IsNumber()) return Fault("%{} needs a number, not {}", spec.type, TypeName(value));
      const bool decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
      if (decimal) {
        spec.type = 'd';
        if (value.IsFloat()) {
          if (!(std::abs(value.AsFloat()) < 0x1p63)) return Fault("%d of a float beyond 64 bits");
          return FormatNumber(
              Value::MakeInt(static_cast<int64_t>(value.AsFloat())).SetTrusted(value.trusted()),
              spec);
        }
      }
      return FormatNumber(value, spec);
    }
    default:
      return Fault("the format string holds an unknown item '%{}'", spec.type);
  }
}

// [[fill]align][sign][#][0][width][,][.precision][type]
Result<Spec> ParseBraceSpec(std::string_view text) {
  Spec spec;
  size_t at = 0;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  if (!text.empty()) {
    const size_t first = CodePointAt(text, 0).length;
    if (first < text.size() && is_align(text[first])) {
      spec.fill = text.substr(0, first);
      spec.align = text[first];
      at = first + 1;
    } else if (is_align(text[0])) {
      spec.align = text[at++];
    }
  }
  if (at < text.size() && (text[at] == '+' || text[at] == '-' || text[at] == ' ')) {
    if (text[at] != '-') spec.sign = text[at];
    ++at;
  }
  if (at < text.size() && text[at] == '#') {
    spec.alternate = true;
    ++at;
  }
  if (at < text.size() && text[at] == '0') {
    if (spec.align == 0) {
      spec.align = '=';
      spec.fill = "0";
    }
    ++at;
  }
  QUIRE_ASSIGN_OR_RETURN(spec.width, TakeNumber(text, at, kMaxWidth));
  if (at < text.size() && text[at] == ',') {
    spec.thousands = true;
    ++at;
  }
  if (at < text.size() && text[at] == '.') {
    ++at;
    QUIRE_ASSIGN_OR_RETURN(spec.precision, TakeNumber(text, at, kMaxPrecision));
  }
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) return Fault("'{:.60}' is no format specification", text);
  return spec;
}

Result<MarkedString> BraceItem(const Value& value, const Spec& spec, RenderState& state) {
  constexpr std::string_view kNumberTypes = "dxXobfFeEgG%";
  const bool plain =
      spec.type == 0 && spec.width == 0 && spec.precision < 0 && spec.sign == 0 && !spec.thousands;
  if (plain) return ToText(value, state);
  const bool number_type = spec.type != 0 && kNumberTypes.find(spec.type) != std::string_view::npos;
  if (value.IsNumber() && (number_type || (spec.type == 0 && !value.IsBool()))) {
    return FormatNumber(value, spec);
  }
  if (!value.IsString() || (spec.type != 0 && spec.type != 's') || spec.align == '=') {
    return Fault("a {} cannot be formatted that way", TypeName(value));
  }
  return Pad(Cut(value.AsString(), spec.precision), spec, '<', 0);
}

// The argument that a field such as "", "0" or "name" stands for.
Result<Value> FieldValue(std::string_view field, const CallArgs& args, size_t& next) {
  if (field.empty() || (field[0] >= '0' && field[0] <= '9')) {
    size_t index = next;
    if (field.empty()) {
      ++next;
    } else {
      const auto end = field.data() + field.size();
      const auto parsed = std::from_chars(field.data(), end, index);
      if (parsed.ec != std::errc() || parsed.ptr != end) {
        return Fault("'{:.60}' is no field of a format string", field);
      }
    }
    if (index >= args.positional.size()) return Fault("format: argument {} is missing", index);
    return args.positional[index];
  }
  for (const auto& [name, value] : args.named) {
    if (name == field) return value;
  }
  return Fault("format: argument '{:.60}' is missing", field);
}

}  // namespace

Result<Value> PercentFormat(const MarkedString& format, const Value& values, RenderState& state) {
  const std::string_view text = format.text();
  PercentValues source(values);
  MarkedString result;
  size_t at = 0;
  while (at < text.size()) {
    if (!state.Step()) return state.CheckLimits().error();
    const size_t item = std::min(text.find('%', at), text.size());
    result.AppendSlice(format, at, item);
    if (item == text.size()) break;
    at = item + 1;
    if (at < text.size() && text[at] == '%') {
      result.AppendSlice(format, at, at + 1);
      ++at;
      continue;
    }
    std::optional<std::string_view> name;
    if (at < text.size() && text[at] == '(') {
      const size_t close = text.find(')', at);
      if (close == std::string_view::npos) return Fault("a '%(' in a format string is not closed");
      name = text.substr(at + 1, close - at - 1);
      at = close + 1;
    }
    QUIRE_ASSIGN_OR_RETURN(const Spec spec, TakePercentSpec(text, at));
    QUIRE_ASSIGN_OR_RETURN(const Value value, name ? source.Named(*name) : source.Next());
    QUIRE_ASSIGN_OR_RETURN(const MarkedString piece, PercentItem(value, spec, state));
    QUIRE_RETURN_IF_ERROR(state.SpendBytes(piece.size()));
    result.Append(piece);
  }
  QUIRE_RETURN_IF_ERROR(source.CheckAllUsed());
  QUIRE_RETURN_IF_ERROR(state.SpendBytes(format.size()));
  return Value::MakeString(std::move(result));
}

Result<Value> BraceFormat(const MarkedString& format, const CallArgs& args, RenderState& state) {
  const std::string_view text = format.text();
  MarkedString result;
  size_t next = 0;
  size_t at = 0;
  while (at < text.size()) {
    if (!state.Step()) return state.CheckLimits().error();
    const size_t brace = std::min(text.find_first_of("{}", at), text.size());
    result.AppendSlice(format, at, brace);
    if (brace == text.size()) break;
    at = brace + 1;
    if (at < text.size() && text[at] == text[brace]) {
      result.AppendSlice(format, at, at + 1);
      ++at;
      continue;
    }
    const size_t close = text.find('}', at);
    if (text[brace] == '}' || close == std::string_view::npos) {
      return Fault("a single '{}' in a format string", text[brace]);
    }
    const std::string_view item = text.substr(at, close - at);
    const size_t colon = std::min(item.find(':'), item.size());
    QUIRE_ASSIGN_OR_RETURN(const Value value, FieldValue(item.substr(0, colon), args, next));
    QUIRE_ASSIGN_OR_RETURN(const Spec spec,
                           ParseBraceSpec(colon == item.size() ? "" : item.substr(colon + 1)));
    QUIRE_ASSIGN_OR_RETURN(const MarkedString piece, BraceItem(value, spec, state));
    QUIRE_RETURN_IF_ERROR(state.SpendBytes(piece.size()));
    result.Append(piece);
    at = close + 1;
  }
  QUIRE_RETURN_IF_ERROR(state.SpendBytes(format.size()));
  return Value::MakeString(std::move(result));
}

}  // namespace quire::jinja
