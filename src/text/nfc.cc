#include "text/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"

namespace quire {
namespace {

// Code points below this one are starters, are never changed by NFC and never compose with what
// stands before them, so a text may be cut in front of each.
constexpr char32_t kFirstCombining = 0x300;

void AppendDecomposed(char32_t code_point, std::vector<utf8proc_int32_t>& code_points) {
  // Canonical decompositions have at most 4 code points.
  utf8proc_int32_t buffer[8];
  int boundary_class = 0;
  const utf8proc_ssize_t count = utf8proc_decompose_char(
      static_cast<utf8proc_int32_t>(code_point), buffer, 8, UTF8PROC_DECOMPOSE, &boundary_class);
  QUIRE_CHECK(count >= 1 && count <= 8, "U+{:04X} decomposes to {}",
              static_cast<uint32_t>(code_point), count);
  code_points.insert(code_points.end(), buffer, buffer + count);
}

int CombiningClass(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

// Sorts each run of combining marks by class, keeping equals in order. utf8proc's own pass swaps
// neighbours, which is quadratic in the length of a run.
void OrderMarks(std::vector<utf8proc_int32_t>& code_points) {
  // Class, place and code point in one number: 8, 35 and 21 bits.
  std::vector<uint64_t> marks;
  for (size_t begin = 0; begin < code_points.size();) {
    marks.clear();
    for (size_t at = begin; at < code_points.size(); ++at) {
      const auto mark_class = static_cast<uint64_t>(CombiningClass(code_points[at]));
      if (mark_class == 0) break;
      marks.push_back(mark_class << 56 | (at - begin) << 21 |
                      static_cast<uint64_t>(code_points[at]));
    }
    std::sort(marks.begin(), marks.end());
    for (size_t i = 0; i < marks.size(); ++i) {
      code_points[begin + i] = static_cast<utf8proc_int32_t>(marks[i] & 0x1FFFFF);
    }
    begin += marks.size() + 1;
  }
}

void AppendComposed(std::vector<utf8proc_int32_t>& code_points, std::string& text) {
  OrderMarks(code_points);
  const utf8proc_ssize_t count = utf8proc_normalize_utf32(
      code_points.data(), static_cast<utf8proc_ssize_t>(code_points.size()),
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  QUIRE_CHECK(count >= 0, "utf8proc returned {}", count);
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    AppendUtf8(static_cast<char32_t>(code_points[i]), text);
  }
  code_points.clear();
}

}  // namespace

std::string NormalizeNfc(std::string_view text) {
  std::string normalized;
  normalized.reserve(text.size());
  std::vector<utf8proc_int32_t> pending;  // decomposed, begins with the last starter
  while (!text.empty()) {
    // Most text is ASCII; only the last character before something else may take part.
    if (const size_t num_ascii = AsciiPrefix(text); num_ascii > 1) {
      AppendComposed(pending, normalized);
      normalized += text.substr(0, num_ascii - 1);
      text.remove_prefix(num_ascii - 1);
    }
    const Utf8Character character = FirstCharacter(text);
    QUIRE_CHECK(character.state == Utf8State::kWhole, "NormalizeNfc of invalid UTF-8");
    text.remove_prefix(character.num_bytes);
    if (character.code_point < kFirstCombining) AppendComposed(pending, normalized);
    AppendDecomposed(character.code_point, pending);
  }
  AppendComposed(pending, normalized);
  return normalized;
}

}  // namespace quire
