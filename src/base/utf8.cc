#include "base/utf8.h"

#include <cstring>

namespace quire {
namespace {

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

}  // namespace

size_t AsciiPrefix(std::string_view bytes) {
  size_t pos = 0;
  for (uint64_t word; pos + sizeof(word) <= bytes.size(); pos += sizeof(word)) {
    std::memcpy(&word, bytes.data() + pos, sizeof(word));
    if ((word & 0x8080808080808080u) != 0) break;
  }
  while (pos < bytes.size() && static_cast<uint8_t>(bytes[pos]) < 0x80) ++pos;
  return pos;
}

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

}  // namespace quire
