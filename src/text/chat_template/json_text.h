// JSON text to values and back. Reading is Boost.JSON's parser; writing is Python's json.dumps.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/chat_template/marked_string.h"
#include "text/chat_template/value.h"

namespace quire::jinja {

// Keys keep their order; of equal keys the last wins. Integers beyond 64 bits become floats. Fails
// with kInvalidArgument for text that is not JSON, and for nesting beyond what a value may have.
Result<Value> ValueFromJson(std::string_view text);

// Python's json.dumps.
struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
// All of the text is trusted when every value in it is, none of it otherwise.
Result<MarkedString> JsonFromValue(const Value& value, const JsonStyle& style, RenderState& state);

}  // namespace quire::jinja
