#include "text/byte_alphabet.h"

#include "base/utf8.h"

namespace quire {
namespace {

constexpr int kFirstSpare = 0x100;
constexpr int kNumSpare = 68;

constexpr bool StandsForItself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
}

struct Alphabet {
  std::array<std::string, 256> spellings;
  std::array<int, kFirstSpare + kNumSpare> byte_of;  // -1: spells no byte
};

const Alphabet& TheAlphabet() {
  static const Alphabet alphabet = [] {
    Alphabet result;
    result.byte_of.fill(-1);
    int next_spare = kFirstSpare;
    for (int byte = 0; byte < 256; ++byte) {
      const int code_point = StandsForItself(byte) ? byte : next_spare++;
      AppendUtf8(static_cast<char32_t>(code_point), result.spellings[byte]);
      result.byte_of[code_point] = byte;
    }
    return result;
  }();
  return alphabet;
}

}  // namespace

const std::array<std::string, 256>& ByteSpellings() { return TheAlphabet().spellings; }

std::string SpellBytes(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += ByteSpellings()[static_cast<uint8_t>(byte)];
  return text;
}

std::optional<std::string> UnspellBytes(std::string_view text) {
  const auto& byte_of = TheAlphabet().byte_of;
  std::string bytes;
  while (!text.empty()) {
    const Utf8Character character = FirstCharacter(text);
    if (character.code_point >= byte_of.size() || byte_of[character.code_point] < 0) {
      return std::nullopt;
    }
    bytes.push_back(static_cast<char>(byte_of[character.code_point]));
    text.remove_prefix(character.num_bytes);
  }
  return bytes;
}

}  // namespace quire
