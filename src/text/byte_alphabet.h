// The byte-level alphabet: how "gpt2" vocabularies spell arbitrary bytes as printable characters.
//
// The 188 printable bytes of Latin-1 stand for themselves as code points; the other 68, in
// ascending order, are U+0100 to U+0143 (so a space is U+0120). Source: Radford et al., "Language
// Models are Unsupervised Multitask Learners" (2019) and the vocabulary published with it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quire {

// The spelling of each byte in UTF-8.
const std::array<std::string, 256>& ByteSpellings();

std::string SpellBytes(std::string_view bytes);

// The bytes that a text spells; nothing when one of its characters is outside the alphabet.
std::optional<std::string> UnspellBytes(std::string_view text);

}  // namespace quire
