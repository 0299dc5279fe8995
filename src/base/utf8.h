// UTF-8: reading, checking and repairing bytes that may not be text.
//
// Terms are those of the Unicode Standard 15.0, chapter 3: a maximal invalid part is the "maximal
// subpart of an ill-formed subsequence" of section 3.9, and each one becomes one U+FFFD.
// All functions take time linear in the text and may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace quire {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

enum class Utf8State : uint8_t {
  kWhole,       // a character
  kInvalid,     // a maximal invalid part: no continuation can make it a character
  kIncomplete,  // the bytes end inside what may still become a character
};

// The first character of some bytes, or the maximal invalid part in its place.
struct Utf8Character {
  Utf8State state = Utf8State::kInvalid;
  int num_bytes = 0;        // at least 1
  char32_t code_point = 0;  // U+FFFD unless whole
};

// `bytes` is not empty.
Utf8Character FirstCharacter(std::string_view bytes);

// How many ASCII bytes the text begins with.
size_t AsciiPrefix(std::string_view bytes);

bool IsWellFormedUtf8(std::string_view bytes);

// The text with every maximal invalid part replaced by U+FFFD, an unfinished end included.
std::string RepairUtf8(std::string_view bytes);

// Appends a code point, which is not a surrogate and is at most U+10FFFF.
void AppendUtf8(char32_t code_point, std::string& text);

}  // namespace quire
