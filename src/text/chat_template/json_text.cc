#include "text/chat_template/json_text.h"

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <charconv>
#include <cmath>
#include <cstring>

#include "text/chat_template/operators.h"
#include "text/chat_template/render_state.h"
#include "text/chat_template/unicode_text.h"
#include "text/chat_template/value_text.h"

namespace quire::jinja {
namespace {

namespace json = boost::json;

// Receives the parser's events and builds the value from the inside out. Numbers are read from
// their text, so that a double is the nearest one.
class ValueBuilder {
 public:
  static constexpr size_t max_object_size = SIZE_MAX;
  static constexpr size_t max_array_size = SIZE_MAX;
  static constexpr size_t max_key_size = SIZE_MAX;
  static constexpr size_t max_string_size = SIZE_MAX;

  Value Take() { return std::move(values_.back()); }

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }
  bool on_object_begin(json::error_code&) { return Open(); }
  bool on_object_end(size_t count, json::error_code&) {
    Dict dict;
    const size_t first = values_.size() - count;
    for (size_t i = 0; i < count; ++i) {
      dict.Set(std::move(keys_[keys_.size() - count + i]), std::move(values_[first + i]));
    }
    keys_.resize(keys_.size() - count);
    values_.resize(first);
    return Add(Value::MakeDict(std::move(dict)));
  }
  bool on_array_begin(json::error_code&) { return Open(); }
  bool on_array_end(size_t count, json::error_code&) {
    const auto first = values_.end() - static_cast<ptrdiff_t>(count);
    std::vector<Value> items(std::make_move_iterator(first),
                             std::make_move_iterator(values_.end()));
    values_.erase(first, values_.end());
    return Add(Value::MakeList(std::move(items)));
  }
  bool on_key_part(json::string_view text, size_t, json::error_code&) { return AddText(text); }
  bool on_key(json::string_view text, size_t, json::error_code&) {
    AddText(text);
    keys_.push_back(Value::MakeString(std::exchange(text_, {})));
    return true;
  }
  bool on_string_part(json::string_view text, size_t, json::error_code&) { return AddText(text); }
  bool on_string(json::string_view text, size_t, json::error_code&) {
    AddText(text);
    return Add(Value::MakeString(std::exchange(text_, {})));
  }
  bool on_number_part(json::string_view text, json::error_code&) { return AddText(text); }
  bool on_int64(int64_t value, json::string_view, json::error_code&) {
    text_.clear();
    return Add(Value::MakeInt(value));
  }
  bool on_uint64(uint64_t value, json::string_view, json::error_code&) {
    text_.clear();
    if (value <= INT64_MAX) return Add(Value::MakeInt(static_cast<int64_t>(value)));
    return Add(Value::MakeFloat(static_cast<double>(value)));
  }
  bool on_double(double value, json::string_view text, json::error_code&) {
    AddText(text);
    std::from_chars(text_.data(), text_.data() + text_.size(), value);
    text_.clear();
    return Add(Value::MakeFloat(value));
  }
  bool on_bool(bool value, json::error_code&) { return Add(Value::MakeBool(value)); }
  bool on_null(json::error_code&) { return Add(Value::MakeNone()); }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }

 private:
  bool Open() {
    text_.clear();
    return true;
  }
  bool Add(Value value) {
    values_.push_back(std::move(value));
    return true;
  }
  bool AddText(json::string_view text) {
    text_.append(text.data(), text.size());
    return true;
  }

  std::vector<Value> values_;
  std::vector<Value> keys_;
  std::string text_;
};

void AppendUnicodeEscape(std::string& out, int32_t code_point) {
  if (code_point >= 0x10000) {
    const int32_t rest = code_point - 0x10000;
    out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
  } else {
    out += fmt::format("\\u{:04x}", code_point);
  }
}

void AppendJsonString(std::string& out, std::string_view text, bool ensure_ascii) {
  out += '"';
  for (size_t at = 0; at < text.size();) {
    const CodePoint unit = CodePointAt(text, at);
    constexpr std::string_view kFrom = "\"\\\n\r\t\f\b";
    constexpr std::string_view kTo = "\"\\nrtfb";
    const size_t special = unit.length == 1 ? kFrom.find(text[at]) : std::string_view::npos;
    if (special != std::string_view::npos) {
      out += '\\';
      out += kTo[special];
    } else if (unit.value != kInvalid &&
               (unit.value < 0x20 || (ensure_ascii && unit.value > 0x7F))) {
      AppendUnicodeEscape(out, unit.value);
    } else {
      out.append(text.substr(at, unit.length));
    }
    at += unit.length;
  }
  out += '"';
}

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, RenderState& state) : style_(style), state_(state) {}

  Status Write(const Value& value, int level) {
    if (!state_.Step()) return state_.CheckLimits();
    const size_t before = text_.size();
    trusted_ = trusted_ && (value.IsString() ? value.AsString().AllTrusted() : value.trusted());
    switch (value.kind()) {
      case Kind::kNone:
      case Kind::kBool:
      case Kind::kInt:
      case Kind::kFloat:
        text_ += ScalarText(value);
        break;
      case Kind::kString:
        AppendJsonString(text_, value.Text(), style_.ensure_ascii);
        break;
      case Kind::kSequence: {
        const SequenceKind kind = value.AsSequence().kind;
        if (kind != SequenceKind::kList && kind != SequenceKind::kTuple) return NotJson(value);
        return WriteItems('[', ']', value.AsSequence().items, level,
                          [&](const Value& item) { return Write(item, level + 1); });
      }
      case Kind::kDict:
        return WriteDict(value.AsDict(), level);
      default:
        return NotJson(value);
    }
    return state_.SpendBytes(text_.size() - before);
  }

  MarkedString Take() && { return MarkedString(std::move(text_), trusted_); }

 private:
  static Status NotJson(const Value& value) {
    if (value.IsUndefined()) return Fault("tojson: {}", value.UndefinedReason());
    return Fault("tojson: a {} has no JSON form", TypeName(value));
  }

  static std::string ScalarText(const Value& value) {
    if (value.IsNone()) return "null";
    if (value.IsBool()) return value.AsBool() ? "true" : "false";
    if (value.IsInt()) return fmt::to_string(value.AsInt());
    const double number = value.AsFloat();
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
    return FloatText(number);
  }

  Status Newline(int level) {
    if (!style_.indent) return {};
    QUIRE_RETURN_IF_ERROR(
        state_.SpendBytes(1 + style_.indent->size() * static_cast<size_t>(level)));
    text_ += '\n';
    for (int i = 0; i < level; ++i) text_ += *style_.indent;
    return {};
  }

  template <typename Items, typename WriteItem>
  Status WriteItems(char open, char close, const Items& items, int level,
                    const WriteItem& write_item) {
    text_ += open;
    bool first = true;
    for (const auto& item : items) {
      if (!first) text_ += style_.item_separator;
      QUIRE_RETURN_IF_ERROR(state_.SpendBytes(style_.item_separator.size()));
      first = false;
      QUIRE_RETURN_IF_ERROR(Newline(level + 1));
      QUIRE_RETURN_IF_ERROR(write_item(item));
    }
    if (!first) QUIRE_RETURN_IF_ERROR(Newline(level));
    text_ += close;
    return state_.SpendBytes(2);
  }

  Status WriteDict(const Dict& dict, int level) {
    std::vector<const Dict::Entry*> entries;
    QUIRE_RETURN_IF_ERROR(state_.SpendItems(dict.size()));
    for (const auto& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys) {
      const bool strings = std::all_of(entries.begin(), entries.end(),
                                       [](const auto* entry) { return entry->first.IsString(); });
      if (!strings) return Fault("tojson: sort_keys needs keys that are strings");
      std::sort(entries.begin(), entries.end(),
                [](const auto* a, const auto* b) { return a->first.Text() < b->first.Text(); });
    }
    return WriteItems('{', '}', entries, level, [&](const Dict::Entry* entry) -> Status {
      const Value& key = entry->first;
      if (key.kind() > Kind::kString || key.IsUndefined()) {
        return Fault("tojson: a {} cannot be a key", TypeName(key));
      }
      trusted_ = trusted_ && (key.IsString() ? key.AsString().AllTrusted() : key.trusted());
      AppendJsonString(text_, key.IsString() ? key.Text() : ScalarText(key), style_.ensure_ascii);
      text_ += style_.key_separator;
      QUIRE_RETURN_IF_ERROR(state_.SpendBytes(style_.key_separator.size() +
                                              (key.IsString() ? key.Text().size() : 0)));
      return Write(entry->second, level + 1);
    });
  }

  const JsonStyle& style_;
  RenderState& state_;
  std::string text_;
  bool trusted_ = true;
};

}  // namespace

Result<Value> ValueFromJson(std::string_view text) {
  json::parse_options options;
  options.max_depth = kMaxValueDepth / 2;
  json::basic_parser<ValueBuilder> parser(options);
  json::error_code error;
  const size_t read = parser.write_some(false, text.data(), text.size(), error);
  if (!error && read < text.size()) error = json::error::extra_data;
  if (error) {
    return MakeError(ErrorCode::kInvalidArgument, "not valid JSON at byte {}: {}", read,
                     error.message());
  }
  return parser.handler().Take();
}

Result<MarkedString> JsonFromValue(const Value& value, const JsonStyle& style, RenderState& state) {
  JsonWriter writer(style, state);
  QUIRE_RETURN_IF_ERROR(writer.Write(value, 0));
  return std::move(writer).Take();
}

}  // namespace quire::jinja
