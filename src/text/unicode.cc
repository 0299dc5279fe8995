#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"

namespace quire {
namespace {

// Code points below this one are starters, are never changed by NFC and never compose with what
// stands before them, so a text may be cut in front of each.
constexpr char32_t kFirstCombining = 0x300;

struct LeadByte {
  int num_bytes;  // 0: cannot begin a character
  uint8_t second_min, second_max;
};

// Table 3-7 of the standard, "Well-Formed UTF-8 Byte Sequences".
LeadByte ReadLeadByte(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

size_t AsciiPrefix(std::string_view bytes) {
  size_t pos = 0;
  for (uint64_t word; pos + sizeof(word) <= bytes.size(); pos += sizeof(word)) {
    std::memcpy(&word, bytes.data() + pos, sizeof(word));
    if ((word & 0x8080808080808080u) != 0) break;
  }
  while (pos < bytes.size() && static_cast<uint8_t>(bytes[pos]) < 0x80) ++pos;
  return pos;
}

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

Utf8Character FirstCharacter(std::string_view bytes) {
  const auto lead_value = static_cast<uint8_t>(bytes[0]);
  const LeadByte lead = ReadLeadByte(lead_value);
  if (lead.num_bytes == 1) return {Utf8State::kWhole, 1, lead_value};
  if (lead.num_bytes == 0) return {Utf8State::kInvalid, 1, 0xFFFD};
  char32_t code_point = lead_value & (0x7F >> lead.num_bytes);
  for (int i = 1; i < lead.num_bytes; ++i) {
    if (static_cast<size_t>(i) == bytes.size()) return {Utf8State::kIncomplete, i, 0xFFFD};
    const auto byte = static_cast<uint8_t>(bytes[i]);
    const uint8_t min = i == 1 ? lead.second_min : 0x80;
    const uint8_t max = i == 1 ? lead.second_max : 0xBF;
    if (byte < min || byte > max) return {Utf8State::kInvalid, i, 0xFFFD};
    code_point = code_point << 6 | (byte & 0x3F);
  }
  return {Utf8State::kWhole, lead.num_bytes, code_point};
}

bool IsWellFormedUtf8(std::string_view bytes) {
  for (;;) {
    bytes.remove_prefix(AsciiPrefix(bytes));
    if (bytes.empty()) return true;
    const Utf8Character character = FirstCharacter(bytes);
    if (character.state != Utf8State::kWhole) return false;
    bytes.remove_prefix(character.num_bytes);
  }
}

std::string RepairUtf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const Utf8Character character = FirstCharacter(bytes);
    if (character.state == Utf8State::kWhole) {
      text.append(bytes.substr(0, character.num_bytes));
    } else {
      text.append(kReplacementCharacter);
    }
    bytes.remove_prefix(character.num_bytes);
  }
  return text;
}

void AppendUtf8(char32_t code_point, std::string& text) {
  const auto tail = [&](int shift) {
    text.push_back(static_cast<char>(0x80 | (code_point >> shift & 0x3F)));
  };
  if (code_point < 0x80) {
    text.push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    text.push_back(static_cast<char>(0xC0 | code_point >> 6));
    tail(0);
  } else if (code_point < 0x10000) {
    text.push_back(static_cast<char>(0xE0 | code_point >> 12));
    tail(6);
    tail(0);
  } else {
    text.push_back(static_cast<char>(0xF0 | code_point >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

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
