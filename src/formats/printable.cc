#include "formats/printable.h"

#include <fmt/format.h>

#include <cstdint>

namespace quire {
namespace {

struct Utf8Character {
  uint32_t code_point = 0;
  size_t num_bytes = 0;  // 0: the first byte starts no well-formed character
};

Utf8Character FirstCharacter(std::string_view bytes) {
  const auto at = [&](size_t idx) { return static_cast<uint8_t>(bytes[idx]); };
  const uint8_t lead = at(0);
  if (lead < 0x80) return {lead, 1};
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || bytes.size() < length) return {};
  uint32_t code_point = lead & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xc0) != 0x80) return {};
    code_point = code_point << 6 | (at(i) & 0x3fu);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code_point >= 0xd800 && code_point <= 0xdfff;
  if (code_point < kSmallest[length] || code_point > 0x10ffff || is_surrogate) return {};
  return {code_point, length};
}

// C0 and C1 controls, line separators, and the marks that change the direction of text.
bool DrivesTerminal(uint32_t code_point) {
  return code_point < 0x20 || (code_point >= 0x7f && code_point <= 0x9f) || code_point == 0x061c ||
         (code_point >= 0x200e && code_point <= 0x200f) ||
         (code_point >= 0x2028 && code_point <= 0x202e) ||
         (code_point >= 0x2066 && code_point <= 0x2069);
}

void AppendEscaped(uint32_t code_point, std::string& out) {
  switch (code_point) {
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      out += fmt::format("\\u{{{:x}}}", code_point);
  }
}

}  // namespace

bool IsValidUtf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t length = FirstCharacter(bytes).num_bytes;
    if (length == 0) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

std::string Printable(std::string_view bytes, size_t max_bytes) {
  std::string out;
  const size_t size = bytes.size();
  while (!bytes.empty()) {
    const Utf8Character character = FirstCharacter(bytes);
    const size_t length = character.num_bytes == 0 ? 1 : character.num_bytes;
    if (size - bytes.size() + length > max_bytes) return out + "...";
    if (character.num_bytes == 0) {
      out += fmt::format("\\x{:02x}", static_cast<uint8_t>(bytes[0]));
    } else if (DrivesTerminal(character.code_point)) {
      AppendEscaped(character.code_point, out);
    } else if (bytes[0] == '\\') {
      out += "\\\\";
    } else {
      out += bytes.substr(0, length);
    }
    bytes.remove_prefix(length);
  }
  return out;
}

std::string ReplaceInvalidUtf8(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const size_t length = FirstCharacter(bytes).num_bytes;
    if (length == 0) {
      out += "\xef\xbf\xbd";
      bytes.remove_prefix(1);
    } else {
      out += bytes.substr(0, length);
      bytes.remove_prefix(length);
    }
  }
  return out;
}

}  // namespace quire
