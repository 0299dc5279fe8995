// Filters that give text or a number.
#include <charconv>
#include <cmath>

#include "text/chat_template/filters.h"
#include "text/chat_template/json_text.h"
#include "text/chat_template/operators.h"
#include "text/chat_template/render_state.h"
#include "text/chat_template/string_format.h"
#include "text/chat_template/text_algorithms.h"
#include "text/chat_template/value_text.h"

namespace quire::jinja {
namespace {

using Args = const CallArgs&;

// The filter's input as text, paid for.
Result<MarkedString> InputText(const Value& input, RenderState& state) {
  QUIRE_ASSIGN_OR_RETURN(MarkedString text, ToText(input, state));
  QUIRE_RETURN_IF_ERROR(state.SpendBytes(text.size()));
  return text;
}

Result<Value> Trim(const Value& input, Args args, RenderState& state) {
  ArgReader reader("trim", args);
  const Value characters = reader.Take("chars", Value::MakeNone());
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  QUIRE_ASSIGN_OR_RETURN(const MarkedString text, InputText(input, state));
  ByteRange kept = TrimSpace(text.text(), true, true);
  if (!characters.IsNone()) {
    QUIRE_ASSIGN_OR_RETURN(const MarkedString set, StringOf(characters, "trim: chars"));
    if (!state.Step(static_cast<int64_t>(text.size() * set.size() / 64))) {
      return state.CheckLimits().error();
    }
    kept = TrimCharacters(text.text(), set.text(), true, true);
  }
  return Value::MakeString(text.Slice(kept.begin, kept.end));
}

template <CaseChange change>
Result<Value> CaseFilter(const Value& input, Args args, RenderState& state) {
  QUIRE_RETURN_IF_ERROR(ArgReader("a case filter", args).Finish());
  QUIRE_ASSIGN_OR_RETURN(const MarkedString text, InputText(input, state));
  return Value::MakeString(ChangeCase(text, change));
}

// Words begin after white space, hyphens and opening brackets.
Result<Value> Title(const Value& input, Args args, RenderState& state) {
  QUIRE_RETURN_IF_ERROR(ArgReader("title", args).Finish());
  QUIRE_ASSIGN_OR_RETURN(const MarkedString text, InputText(input, state));
  constexpr std::string_view kOpening = "-({[<";
  const std::string_view source = text.text();
  MarkedString result;
  size_t word = 0;
  for (size_t at = 0; at <= source.size();) {
    const bool at_end = at == source.size();
    const CodePoint unit = at_end ? CodePoint{' ', 1} : CodePointAt(source, at);
    const bool separates = IsSpace(unit.value) ||
                           (unit.length == 1 && unit.value != kInvalid &&
                            kOpening.find(static_cast<char>(unit.value)) != std::string_view::npos);
    if (separates) {
      result.Append(ChangeCase(text.Slice(word, at), CaseChange::kCapitalize));
      if (!at_end) result.AppendSlice(text, at, at + unit.length);
      word = at + unit.length;
    }
    at += unit.length;
  }
  return Value::MakeString(std::move(result));
}

Result<Value> ReplaceFilter(const Value& input, Args args, RenderState& state) {
  ArgReader reader("replace", args);
  const Value from = reader.Need("old");
  const Value to = reader.Need("new");
  const Value count_value = reader.Take("count", Value::MakeNone());
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  int64_t count = -1;
  if (!count_value.IsNone()) {
    QUIRE_ASSIGN_OR_RETURN(count, IntOf(count_value, "replace: count"));
  }
  QUIRE_ASSIGN_OR_RETURN(const MarkedString text, InputText(input, state));
  QUIRE_ASSIGN_OR_RETURN(const MarkedString old_text, InputText(from, state));
  QUIRE_ASSIGN_OR_RETURN(const MarkedString new_text, InputText(to, state));
  QUIRE_ASSIGN_OR_RETURN(MarkedString result,
                         ReplaceText(text, old_text.text(), new_text, count, state));
  return Value::MakeString(std::move(result));
}

Result<Value> String(const Value& input, Args args, RenderState& state) {
  QUIRE_RETURN_IF_ERROR(ArgReader("string", args).Finish());
  QUIRE_ASSIGN_OR_RETURN(MarkedString text, InputText(input, state));
  return Value::MakeString(std::move(text));
}

Result<Value> Escape(const Value& input, Args args, RenderState& state) {
  QUIRE_RETURN_IF_ERROR(ArgReader("escape", args).Finish());
  QUIRE_ASSIGN_OR_RETURN(MarkedString text, InputText(input, state));
  constexpr std::pair<char, std::string_view> kEscapes[] = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
  for (const auto& [from, to] : kEscapes) {
    MarkedString escaped;
    const std::string_view source = text.text();
    size_t at = 0;
    for (size_t found = source.find(from); found != std::string_view::npos;
         found = source.find(from, at)) {
      QUIRE_RETURN_IF_ERROR(state.SpendBytes(to.size()));
      escaped.AppendSlice(text, at, found);
      escaped.Append(to, text.TrustedAt(found));
      at = found + 1;
    }
    escaped.AppendSlice(text, at, source.size());
    text = std::move(escaped);
  }
  return Value::MakeString(std::move(text));
}

Result<Value> Indent(const Value& input, Args args, RenderState& state) {
  ArgReader reader("indent", args);
  const Value width = reader.Take("width", Value::MakeInt(4));
  const bool first = IsTrue(reader.Take("first", Value::MakeBool(false)));
  const bool blank = IsTrue(reader.Take("blank", Value::MakeBool(false)));
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  MarkedString indention;
  if (width.IsString()) {
    indention = width.AsString();
  } else {
    QUIRE_ASSIGN_OR_RETURN(const int64_t count, IntOf(width, "indent: width"));
    if (count > 10'000) return Fault("indent: a width above 10000");
    indention =
        MarkedString(std::string(static_cast<size_t>(std::max<int64_t>(count, 0)), ' '), true);
  }
  if (!input.IsString()) return Fault("indent needs a string, not {}", TypeName(input));
  const MarkedString& text = input.AsString();
  QUIRE_RETURN_IF_ERROR(state.SpendBytes(text.size()));
  MarkedString result;
  if (first) result.Append(indention);
  // A text that ends in a newline has one more line, which is empty.
  std::vector<ByteRange> lines = SplitLines(text.text(), false);
  const bool open_end = text.empty() || lines.back().end != text.size();
  if (open_end) lines.push_back({text.size(), text.size()});
  for (size_t i = 0; i < lines.size(); ++i) {
    QUIRE_RETURN_IF_ERROR(state.SpendBytes(indention.size() + 1));
    const bool empty = lines[i].begin == lines[i].end;
    if (i > 0) {
      const size_t newline = lines[i].begin - 1;
      result.Append("\n", text.TrustedAt(newline));
      if (blank || !empty) result.Append(indention);
    }
    result.AppendSlice(text, lines[i].begin, lines[i].end);
  }
  return Value::MakeString(std::move(result));
}

Result<Value> FormatFilter(const Value& input, Args args, RenderState& state) {
  QUIRE_ASSIGN_OR_RETURN(const MarkedString text, InputText(input, state));
  if (args.named.empty()) return PercentFormat(text, Value::MakeTuple(args.positional), state);
  if (!args.positional.empty()) return Fault("format takes positional or named values, not both");
  Dict values;
  for (const auto& [name, value] : args.named) values.Set(name, value);
  return PercentFormat(text, Value::MakeDict(std::move(values)), state);
}

Result<Value> WordCount(const Value& input, Args args, RenderState& state) {
  QUIRE_RETURN_IF_ERROR(ArgReader("wordcount", args).Finish());
  QUIRE_ASSIGN_OR_RETURN(const MarkedString text, InputText(input, state));
  int64_t words = 0;
  bool in_word = false;
  for (size_t at = 0; at < text.size();) {
    const CodePoint unit = CodePointAt(text.text(), at);
    const bool word = IsAlpha(unit.value) || IsDigit(unit.value) || unit.value == '_';
    words += word && !in_word;
    in_word = word;
    at += unit.length;
  }
  return Value::MakeInt(words);
}

// Digits without white space around them and underscores between them, or nothing.
std::optional<std::string> NumberText(std::string_view text) {
  const ByteRange range = TrimSpace(text, true, true);
  std::string digits;
  char before = '_';
  for (const char c : text.substr(range.begin, range.end - range.begin)) {
    const bool digit = c >= '0' && c <= '9';
    if (c == '_') {
      if (before < '0' || before > '9') return std::nullopt;
    } else if (before == '_' && !digit && !digits.empty()) {
      return std::nullopt;
    } else {
      digits += c;
    }
    before = c;
  }
  if (before == '_') return std::nullopt;
  if (digits[0] == '+') digits.erase(0, 1);
  if (digits.empty() || digits[0] == '+') return std::nullopt;
  return digits;
}

std::optional<double> ParseFloat(std::string_view text) {
  const auto digits = NumberText(text);
  if (!digits) return std::nullopt;
  double value = 0;
  const auto end = digits->data() + digits->size();
  const auto parsed = std::from_chars(digits->data(), end, value);
  if (parsed.ptr != end) return std::nullopt;
  if (parsed.ec == std::errc::result_out_of_range) return std::nullopt;
  if (parsed.ec != std::errc()) return std::nullopt;
  return value;
}

Result<Value> FromFloat(double value, const Value& fallback) {
  if (!(std::abs(value) < 0x1p63)) return fallback;
  return Value::MakeInt(static_cast<int64_t>(value));
}

Result<Value> Int(const Value& input, Args args, RenderState&) {
  ArgReader reader("int", args);
  const Value fallback = reader.Take("default", Value::MakeInt(0));
  const Value base_value = reader.Take("base", Value::MakeInt(10));
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  QUIRE_ASSIGN_OR_RETURN(const int64_t base, IntOf(base_value, "int: base"));
  if (base < 2 || base > 36) return Fault("int: a base between 2 and 36, not {}", base);
  if (input.IsInt() || input.IsBool()) {
    return Value::MakeInt(input.NumberAsInt()).SetTrusted(input.trusted());
  }
  if (input.IsFloat()) return FromFloat(input.AsFloat(), fallback);
  if (!input.IsString()) return fallback;
  const bool trusted = input.AsString().AllTrusted();
  if (auto digits = NumberText(input.Text())) {
    const bool negative = (*digits)[0] == '-';
    std::string_view body = std::string_view(*digits).substr(negative ? 1 : 0);
    const std::string_view prefix = body.substr(0, 2);
    if ((base == 16 && (prefix == "0x" || prefix == "0X")) ||
        (base == 8 && (prefix == "0o" || prefix == "0O")) ||
        (base == 2 && (prefix == "0b" || prefix == "0B"))) {
      body.remove_prefix(2);
    }
    const std::string signed_digits = (negative ? "-" : "") + std::string(body);
    int64_t value = 0;
    const auto end = signed_digits.data() + signed_digits.size();
    const auto parsed = std::from_chars(signed_digits.data(), end, value, static_cast<int>(base));
    if (parsed.ec == std::errc() && parsed.ptr == end) {
      return Value::MakeInt(value).SetTrusted(trusted);
    }
    if (parsed.ec == std::errc::result_out_of_range && parsed.ptr == end) {
      return Fault("int: the number does not fit in a 64-bit integer");
    }
  }
  if (const auto value = ParseFloat(input.Text())) {
    QUIRE_ASSIGN_OR_RETURN(Value number, FromFloat(*value, fallback));
    return number;
  }
  return fallback;
}

Result<Value> Float(const Value& input, Args args, RenderState&) {
  ArgReader reader("float", args);
  const Value fallback = reader.Take("default", Value::MakeFloat(0));
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  if (input.IsNumber()) {
    return Value::MakeFloat(input.NumberAsFloat()).SetTrusted(input.trusted());
  }
  if (!input.IsString()) return fallback;
  const auto value = ParseFloat(input.Text());
  return value ? Value::MakeFloat(*value) : fallback;
}

Result<Value> Abs(const Value& input, Args args, RenderState&) {
  QUIRE_RETURN_IF_ERROR(ArgReader("abs", args).Finish());
  if (input.IsFloat()) {
    return Value::MakeFloat(std::abs(input.AsFloat())).SetTrusted(input.trusted());
  }
  if (!input.IsNumber()) return Fault("abs needs a number, not {}", TypeName(input));
  if (input.NumberAsInt() < 0) return Negate(input);
  return Value::MakeInt(input.NumberAsInt()).SetTrusted(input.trusted());
}

// Rounds as Python's round(): the decimal of `precision` places nearest to the exact value, ties
// to even. Printing rounds that way already.
double RoundDecimal(double value, int64_t precision) {
  const std::string digits = fmt::format("{:.{}f}", value, static_cast<int>(precision));
  double rounded = value;
  std::from_chars(digits.data(), digits.data() + digits.size(), rounded);
  return rounded;
}

Result<Value> Round(const Value& input, Args args, RenderState&) {
  ArgReader reader("round", args);
  const Value precision_value = reader.Take("precision", Value::MakeInt(0));
  const Value method = reader.Take("method", Value::MakeString("common"));
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  QUIRE_ASSIGN_OR_RETURN(const int64_t precision, IntOf(precision_value, "round: precision"));
  QUIRE_ASSIGN_OR_RETURN(const MarkedString name, StringOf(method, "round: method"));
  if (!input.IsNumber()) return Fault("round needs a number, not {}", TypeName(input));
  if (precision < -300 || precision > 300) return Fault("round: a precision within 300 places");
  if (name.text() == "common") {
    if (!input.IsFloat() && precision >= 0) {
      return Value::MakeInt(input.NumberAsInt()).SetTrusted(input.trusted());
    }
    const double value = input.NumberAsFloat();
    if (!std::isfinite(value)) return input;
    const double scale = std::pow(10.0, static_cast<double>(-precision));
    const double rounded =
        precision >= 0 ? RoundDecimal(value, precision) : std::nearbyint(value / scale) * scale;
    if (!input.IsFloat()) return FromFloat(rounded, input);
    return Value::MakeFloat(rounded).SetTrusted(input.trusted());
  }
  const bool up = name.text() == "ceil";
  if (!up && name.text() != "floor") return Fault("round: method must be common, ceil or floor");
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = input.NumberAsFloat() * scale;
  return Value::MakeFloat((up ? std::ceil(scaled) : std::floor(scaled)) / scale)
      .SetTrusted(input.trusted());
}

Result<Value> ToJsonFilter(const Value& input, Args args, RenderState& state) {
  ArgReader reader("tojson", args);
  JsonStyle style;
  style.ensure_ascii = IsTrue(reader.Take("ensure_ascii", Value::MakeBool(false)));
  const Value indent = reader.Take("indent", Value::MakeNone());
  const Value separators = reader.Take("separators", Value::MakeNone());
  style.sort_keys = IsTrue(reader.Take("sort_keys", Value::MakeBool(false)));
  QUIRE_RETURN_IF_ERROR(reader.Finish());
  if (indent.IsString()) {
    style.indent = indent.Text();
  } else if (!indent.IsNone()) {
    QUIRE_ASSIGN_OR_RETURN(const int64_t width, IntOf(indent, "tojson: indent"));
    if (width > 100) return Fault("tojson: an indent above 100");
    style.indent = std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  }
  if (style.indent) style.item_separator = ",";
  if (!separators.IsNone()) {
    const bool pair = separators.IsSequence() && separators.AsSequence().items.size() == 2 &&
                      separators.AsSequence().items[0].IsString() &&
                      separators.AsSequence().items[1].IsString();
    if (!pair) return Fault("tojson: separators must be two strings");
    style.item_separator = separators.AsSequence().items[0].Text();
    style.key_separator = separators.AsSequence().items[1].Text();
  }
  QUIRE_ASSIGN_OR_RETURN(MarkedString text, JsonFromValue(input, style, state));
  return Value::MakeString(std::move(text));
}

constexpr FilterEntry kFilters[] = {
    {"abs", Abs},
    {"capitalize", CaseFilter<CaseChange::kCapitalize>},
    {"e", Escape},
    {"escape", Escape},
    {"float", Float},
    {"forceescape", Escape},
    {"format", FormatFilter},
    {"indent", Indent},
    {"int", Int},
    {"lower", CaseFilter<CaseChange::kLower>},
    {"replace", ReplaceFilter},
    {"round", Round},
    {"safe", String},
    {"string", String},
    {"title", Title},
    {"tojson", ToJsonFilter},
    {"trim", Trim},
    {"upper", CaseFilter<CaseChange::kUpper>},
    {"wordcount", WordCount},
};

}  // namespace

Filter FindTextFilter(std::string_view name) { return FindIn(kFilters, name); }

}  // namespace quire::jinja
