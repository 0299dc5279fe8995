// Operations on marked text that methods and filters share.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/chat_template/marked_string.h"
#include "text/chat_template/unicode_text.h"
#include "text/chat_template/value.h"

namespace quire::jinja {

// `count` replacements from the left, all when negative. An empty `from` stands before every code
// point and at the end.
Result<MarkedString> ReplaceText(const MarkedString& text, std::string_view from,
                                 const MarkedString& to, int64_t count, RenderState& state);
// The part without code points of `characters` at its ends.
ByteRange TrimCharacters(std::string_view text, std::string_view characters, bool left, bool right);
// Lines without their ends ("\n", "\r\n", "\r" and the others of str.splitlines), or with them.
std::vector<ByteRange> SplitLines(std::string_view text, bool keep_ends);

}  // namespace quire::jinja
