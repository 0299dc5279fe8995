// Code points of UTF-8 text, as Python's str methods see them.
//
// A byte that belongs to no valid sequence counts as one code point of its own (kInvalid) and is
// copied through unchanged. Classes and case mappings are utf8proc's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template/marked_string.h"

namespace quire::jinja {

inline constexpr int32_t kInvalid = -1;

struct CodePoint {
  int32_t value;  // kInvalid for a stray byte
  size_t length;  // bytes, at least 1
};
// at < text.size().
CodePoint CodePointAt(std::string_view text, size_t at);
size_t CountCodePoints(std::string_view text);
// The byte offset of each code point, and text.size() at the end.
std::vector<size_t> CodePointOffsets(std::string_view text);
void AppendUtf8(std::string& out, int32_t code_point);

bool IsSpace(int32_t code_point);      // str.isspace
bool IsAlpha(int32_t code_point);      // str.isalpha
bool IsDigit(int32_t code_point);      // str.isdecimal, and superscript digits
bool IsDecimal(int32_t code_point);    // str.isdecimal
bool IsUpper(int32_t code_point);      // a cased letter in upper or title case
bool IsLower(int32_t code_point);      // a cased letter in lower case
bool IsPrintable(int32_t code_point);  // str.isprintable

// kCapitalize: first code point up, the rest down. kTitle: as str.title, a word begins at a letter
// that follows no letter. kSwap: each letter to the other case. Marks stay with their letters.
enum class CaseChange { kUpper, kLower, kCapitalize, kTitle, kSwap };
MarkedString ChangeCase(const MarkedString& text, CaseChange change);
std::string ToLower(std::string_view text);

// The part without white space at its ends, as [begin, end).
struct ByteRange {
  size_t begin;
  size_t end;
};
ByteRange TrimSpace(std::string_view text, bool left, bool right);

}  // namespace quire::jinja
