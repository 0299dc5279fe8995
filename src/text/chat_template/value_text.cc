#include "text/chat_template/value_text.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "text/chat_template/render_state.h"
#include "text/chat_template/unicode_text.h"

namespace quire::jinja {
namespace {

// Writes a repr and learns on the way whether all of it is the template's.
class ReprWriter {
 public:
  explicit ReprWriter(RenderState& state) : state_(state) {}

  Status Write(const Value& value) {
    if (!state_.Step()) return state_.CheckLimits();
    if (value.IsString()) {
      trusted_ = trusted_ && value.AsString().AllTrusted();
      return Add(QuotedText(value.Text()));
    }
    trusted_ = trusted_ && value.trusted();
    switch (value.kind()) {
      case Kind::kUndefined:
        return Add("Undefined");
      case Kind::kNone:
        return Add("None");
      case Kind::kBool:
        return Add(value.AsBool() ? "True" : "False");
      case Kind::kInt:
        return Add(fmt::to_string(value.AsInt()));
      case Kind::kFloat:
        return Add(FloatText(value.AsFloat()));
      case Kind::kSequence:
        return WriteSequence(value.AsSequence());
      case Kind::kDict:
        return WriteDict(value.AsDict());
      case Kind::kCallable:
        return Add(fmt::format("<function {}>", value.AsCallable().name));
      default:
        return Add(value.AsObject()->Describe());
    }
  }

  MarkedString Take() && { return MarkedString(std::move(text_), trusted_); }

 private:
  Status Add(std::string_view text) {
    QUIRE_RETURN_IF_ERROR(state_.SpendBytes(text.size()));
    text_ += text;
    return {};
  }

  Status WriteItems(const Sequence& sequence) {
    bool first = true;
    for (const Value& item : sequence.items) {
      if (!first) QUIRE_RETURN_IF_ERROR(Add(", "));
      first = false;
      QUIRE_RETURN_IF_ERROR(Write(item));
    }
    return {};
  }

  Status WriteRange(const Sequence& sequence) {
    const auto& items = sequence.items;
    if (items.empty()) return Add("range(0, 0)");
    const int64_t start = items.front().AsInt();
    const int64_t step = items.size() > 1 ? items[1].AsInt() - start : 1;
    const int64_t stop = items.back().AsInt() + step;
    if (step == 1) return Add(fmt::format("range({}, {})", start, stop));
    return Add(fmt::format("range({}, {}, {})", start, stop, step));
  }

  Status WriteSequence(const Sequence& sequence) {
    std::string_view open = "[";
    std::string_view close = "]";
    switch (sequence.kind) {
      case SequenceKind::kList:
        break;
      case SequenceKind::kTuple:
        open = "(";
        close = sequence.items.size() == 1 ? ",)" : ")";
        break;
      case SequenceKind::kRange:
        return WriteRange(sequence);
      case SequenceKind::kGenerator:
        return Add("<generator object>");
      case SequenceKind::kKeys:
        open = "dict_keys([";
        close = "])";
        break;
      case SequenceKind::kValues:
        open = "dict_values([";
        close = "])";
        break;
      case SequenceKind::kItems:
        open = "dict_items([";
        close = "])";
        break;
    }
    QUIRE_RETURN_IF_ERROR(Add(open));
    QUIRE_RETURN_IF_ERROR(WriteItems(sequence));
    return Add(close);
  }

  Status WriteDict(const Dict& dict) {
    QUIRE_RETURN_IF_ERROR(Add("{"));
    bool first = true;
    for (const auto& [key, value] : dict.entries()) {
      if (!first) QUIRE_RETURN_IF_ERROR(Add(", "));
      first = false;
      QUIRE_RETURN_IF_ERROR(Write(key));
      QUIRE_RETURN_IF_ERROR(Add(": "));
      QUIRE_RETURN_IF_ERROR(Write(value));
    }
    return Add("}");
  }

  RenderState& state_;
  std::string text_;
  bool trusted_ = true;
};

void AppendEscaped(std::string& out, int32_t code_point) {
  if (code_point <= 0xFF) {
    out += fmt::format("\\x{:02x}", code_point);
  } else if (code_point <= 0xFFFF) {
    out += fmt::format("\\u{:04x}", code_point);
  } else {
    out += fmt::format("\\U{:08x}", code_point);
  }
}

}  // namespace

Result<MarkedString> ToText(const Value& value, RenderState& state) {
  if (value.IsString()) return value.AsString();
  if (value.IsUndefined()) return MarkedString();
  return ToRepr(value, state);
}

Result<MarkedString> ToRepr(const Value& value, RenderState& state) {
  ReprWriter writer(state);
  QUIRE_RETURN_IF_ERROR(writer.Write(value));
  return std::move(writer).Take();
}

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific).ptr;
  // d.ddde[+-]xx
  const std::string_view text(buffer, static_cast<size_t>(end - buffer));
  const size_t e = text.find('e');
  int exponent = 0;
  const char* exponent_begin = buffer + e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(exponent_begin, end, exponent);
  if (exponent < -4 || exponent >= 16) return std::string(text);
  std::string digits;
  std::string result;
  for (const char c : text.substr(0, e)) {
    if (c == '-') result += c;
    if (c >= '0' && c <= '9') digits += c;
  }
  if (exponent < 0)
    return result + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole)
    return result + digits + std::string(whole - digits.size(), '0') + ".0";
  return result + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string QuotedText(std::string_view text) {
  const bool double_quotes =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = double_quotes ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0; at < text.size();) {
    const CodePoint unit = CodePointAt(text, at);
    if (unit.value == quote || unit.value == '\\') {
      out += '\\';
      out += text[at];
    } else if (unit.value == '\n') {
      out += "\\n";
    } else if (unit.value == '\r') {
      out += "\\r";
    } else if (unit.value == '\t') {
      out += "\\t";
    } else if (unit.value == kInvalid || IsPrintable(unit.value)) {
      out.append(text.substr(at, unit.length));
    } else {
      AppendEscaped(out, unit.value);
    }
    at += unit.length;
  }
  out += quote;
  return out;
}

std::string_view TypeName(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "undefined";
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kSequence:
      switch (value.AsSequence().kind) {
        case SequenceKind::kList:
          return "list";
        case SequenceKind::kTuple:
          return "tuple";
        case SequenceKind::kRange:
          return "range";
        case SequenceKind::kGenerator:
          return "generator";
        case SequenceKind::kKeys:
          return "dict_keys";
        case SequenceKind::kValues:
          return "dict_values";
        case SequenceKind::kItems:
          return "dict_items";
      }
      return "list";
    case Kind::kDict:
      return "dict";
    case Kind::kCallable:
      return "function";
    case Kind::kObject:
      return "object";
  }
  return "object";
}

}  // namespace quire::jinja
