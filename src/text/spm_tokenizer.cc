#include "text/spm_tokenizer.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/utf8.h"
#include "text/merge_symbols.h"

namespace quire {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581

// Symbols count bytes in 32 bits. A longer text is cut, which may cost one merge a GiB.
constexpr size_t kMaxStretchBytes = size_t{1} << 30;

// Order-reversing: the highest score gives the lowest number. Adding 0 turns -0 into 0.
uint32_t PriorityOf(float score) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0f);
  const uint32_t ascending = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  return ~ascending;
}

// In front of byte `limit` or earlier, between two characters.
size_t CharacterBoundary(std::string_view text, size_t limit) {
  if (text.size() <= limit) return text.size();
  while ((static_cast<uint8_t>(text[limit]) & 0xC0) == 0x80) --limit;
  return limit;
}

}  // namespace

Result<std::unique_ptr<SpmTokenizer>> SpmTokenizer::Create(Vocabulary vocabulary) {
  QUIRE_RETURN_IF_ERROR(CheckVocabulary(vocabulary));
  std::unique_ptr<SpmTokenizer> tokenizer(new SpmTokenizer(std::move(vocabulary)));
  QUIRE_RETURN_IF_ERROR(tokenizer->AddBytes());
  return tokenizer;
}

SpmTokenizer::SpmTokenizer(Vocabulary vocabulary)
    : VocabularyTokenizer(std::move(vocabulary), /*adds_bos=*/true) {
  byte_ids_.fill(-1);
  priorities_.reserve(this->vocabulary().scores.size());
  for (const float score : this->vocabulary().scores) priorities_.push_back(PriorityOf(score));
}

Status SpmTokenizer::AddBytes() {
  for (TokenId id = 0; id < num_tokens(); ++id) {
    if (Kind(id) != TokenKind::kByte) continue;
    const auto byte = ParseByteToken(TokenText(id));
    if (!byte) {
      return MakeError(ErrorCode::kCorrupt,
                       "tokenizer.ggml.tokens[{}] is a byte token spelled '{}'; expected <0x00> to "
                       "<0xFF>",
                       id, TokenText(id));
    }
    byte_ids_[*byte] = id;
  }
  return {};
}

PairMerge SpmTokenizer::FindPiece(std::string_view text) const {
  const TokenId id = index().Find(text);
  if (id < 0 || Kind(id) != TokenKind::kNormal) return {};
  return {priorities_[id], id};
}

void SpmTokenizer::EncodeText(std::string_view text, bool starts_run,
                              std::vector<TokenId>& ids) const {
  std::string escaped;
  escaped.reserve(text.size() + text.size() / 4 + kSpace.size());
  if (starts_run && vocabulary().add_space_prefix) escaped += kSpace;
  for (const char byte : text) {
    if (byte == ' ') {
      escaped += kSpace;
    } else {
      escaped += byte;
    }
  }
  for (std::string_view rest = escaped; !rest.empty();) {
    const std::string_view stretch = rest.substr(0, CharacterBoundary(rest, kMaxStretchBytes));
    EncodeStretch(stretch, ids);
    rest.remove_prefix(stretch.size());
  }
}

void SpmTokenizer::EncodeStretch(std::string_view escaped, std::vector<TokenId>& ids) const {
  const auto text_of = [escaped](uint32_t begin, uint32_t end) {
    return escaped.substr(begin, end - begin);
  };
  std::vector<Symbol> symbols;
  for (size_t at = 0; at < escaped.size();) {
    const size_t end = at + FirstCharacter(escaped.substr(at)).num_bytes;
    symbols.push_back({.begin = static_cast<uint32_t>(at),
                       .end = static_cast<uint32_t>(end),
                       .id = FindPiece(escaped.substr(at, end - at)).id});
    at = end;
  }
  std::vector<uint64_t> heap;
  MergeSymbols(symbols, heap, [&](const Symbol& left, const Symbol& right) {
    return FindPiece(text_of(left.begin, right.end));
  });
  bool follows_unknown = false;
  for (int32_t idx = symbols.empty() ? -1 : 0; idx >= 0; idx = symbols[idx].next) {
    const Symbol& symbol = symbols[idx];
    if (symbol.id >= 0) {
      ids.push_back(symbol.id);
    } else {
      AppendFallback(text_of(symbol.begin, symbol.end), follows_unknown, ids);
    }
    follows_unknown = symbol.id < 0;
  }
}

void SpmTokenizer::AppendFallback(std::string_view character, bool follows_unknown,
                                  std::vector<TokenId>& ids) const {
  const bool has_bytes = std::all_of(character.begin(), character.end(), [this](char byte) {
    return byte_ids_[static_cast<uint8_t>(byte)] >= 0;
  });
  if (has_bytes) {
    for (const char byte : character) ids.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
  } else if (const TokenId unknown = vocabulary().unknown;
             unknown >= 0 && !(follows_unknown && ids.back() == unknown)) {
    ids.push_back(unknown);
  }
}

void SpmTokenizer::AppendBytes(TokenId id, std::string& bytes) const {
  std::string_view text = TokenText(id);
  if (Kind(id) == TokenKind::kByte) {
    bytes.push_back(static_cast<char>(*ParseByteToken(text)));
    return;
  }
  while (!text.empty()) {
    const size_t space = std::min(text.find(kSpace), text.size());
    bytes += text.substr(0, space);
    text.remove_prefix(space);
    if (text.empty()) break;
    bytes.push_back(' ');
    text.remove_prefix(kSpace.size());
  }
}

}  // namespace quire
