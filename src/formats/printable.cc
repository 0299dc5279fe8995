#include "formats/printable.h"

#include <fmt/format.h>

#include <cstdint>

#include "base/utf8.h"

namespace quire {
namespace {

// C0 and C1 controls, line separators, and the marks that change the direction of text.
bool DrivesTerminal(char32_t code_point) {
  return code_point < 0x20 || (code_point >= 0x7f && code_point <= 0x9f) || code_point == 0x061c ||
         (code_point >= 0x200e && code_point <= 0x200f) ||
         (code_point >= 0x2028 && code_point <= 0x202e) ||
         (code_point >= 0x2066 && code_point <= 0x2069);
}

void AppendEscaped(char32_t code_point, std::string& out) {
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
      out += fmt::format("\\u{{{:x}}}", static_cast<uint32_t>(code_point));
  }
}

}  // namespace

std::string Printable(std::string_view bytes, size_t max_bytes) {
  std::string out;
  const size_t size = bytes.size();
  while (!bytes.empty()) {
    const Utf8Character character = FirstCharacter(bytes);
    const bool whole = character.state == Utf8State::kWhole;
    const size_t length = whole ? static_cast<size_t>(character.num_bytes) : 1;
    if (size - bytes.size() + length > max_bytes) return out + "...";
    if (!whole) {
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

}  // namespace quire
