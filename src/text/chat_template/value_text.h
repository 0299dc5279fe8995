// Values as Python prints them: str(), repr(), type names.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "text/chat_template/marked_string.h"
#include "text/chat_template/value.h"

namespace quire::jinja {

// str(): strings as they are with their marks, undefined as nothing. Anything computed is trusted
// only if every part of it is.
Result<MarkedString> ToText(const Value& value, RenderState& state);
// repr(): strings in quotes.
Result<MarkedString> ToRepr(const Value& value, RenderState& state);

// The shortest digits that read back as the same double, laid out as Python does: 1.0, 1e+16, nan.
std::string FloatText(double value);
std::string QuotedText(std::string_view text);

// "int", "str", "dict": what Python calls the value's type.
std::string_view TypeName(const Value& value);

}  // namespace quire::jinja
