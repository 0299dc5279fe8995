#include "text/bpe_tokenizer.h"

#include <utility>

#include "base/utf8.h"
#include "text/byte_alphabet.h"
#include "text/merge_symbols.h"
#include "text/nfc.h"

namespace quire {
namespace {

// Symbols count bytes in 32 bits. A longer word is cut, which may cost one merge a GiB.
constexpr size_t kMaxWordBytes = size_t{1} << 30;

}  // namespace

Result<std::unique_ptr<BpeTokenizer>> BpeTokenizer::Create(Vocabulary vocabulary) {
  QUIRE_ASSIGN_OR_RETURN(PreTokenizer pre_tokenizer, PreTokenizer::Create(vocabulary.pre));
  return Create(std::move(vocabulary), std::move(pre_tokenizer));
}

Result<std::unique_ptr<BpeTokenizer>> BpeTokenizer::Create(Vocabulary vocabulary,
                                                           PreTokenizer pre_tokenizer) {
  QUIRE_RETURN_IF_ERROR(CheckVocabulary(vocabulary));
  std::unique_ptr<BpeTokenizer> tokenizer(
      new BpeTokenizer(std::move(vocabulary), std::move(pre_tokenizer)));
  QUIRE_RETURN_IF_ERROR(tokenizer->AddMerges());
  return tokenizer;
}

BpeTokenizer::BpeTokenizer(Vocabulary vocabulary, PreTokenizer pre_tokenizer)
    : VocabularyTokenizer(std::move(vocabulary), pre_tokenizer.adds_bos()),
      pre_tokenizer_(std::move(pre_tokenizer)),
      merges_(this->vocabulary().merges.size()) {
  for (int byte = 0; byte < 256; ++byte) byte_ids_[byte] = FindNormal(ByteSpellings()[byte]);
}

Status BpeTokenizer::AddMerges() {
  const std::vector<std::string>& merges = vocabulary().merges;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    // From the second byte on: a token is never empty.
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      return MakeError(ErrorCode::kCorrupt,
                       "tokenizer.ggml.merges[{}] is '{}'; expected two tokens and a space", rank,
                       merge);
    }
    const std::string_view left = merge.substr(0, space);
    const std::string_view right = merge.substr(space + 1);
    std::string joined(left);
    joined += right;
    const TokenId left_id = FindNormal(left);
    const TokenId right_id = FindNormal(right);
    const PairMerge result{static_cast<uint32_t>(rank), FindNormal(joined)};
    if (left_id < 0 || right_id < 0 || result.id < 0) {
      const std::string_view absent = left_id < 0 ? left : right_id < 0 ? right : joined;
      return MakeError(ErrorCode::kCorrupt,
                       "tokenizer.ggml.merges[{}] is '{}', but '{}' is not a normal token", rank,
                       merge, absent);
    }
    if (!merges_.Insert(left_id, right_id, result)) {
      return MakeError(ErrorCode::kCorrupt, "tokenizer.ggml.merges[{}] repeats '{}'", rank, merge);
    }
  }
  return {};
}

TokenId BpeTokenizer::FindNormal(std::string_view text) const {
  const TokenId id = index().Find(text);
  return id >= 0 && Kind(id) == TokenKind::kNormal ? id : -1;
}

void BpeTokenizer::EncodeText(std::string_view text, bool /*starts_run*/,
                              std::vector<TokenId>& ids) const {
  std::string normalized;
  if (pre_tokenizer_.normalizes_nfc()) {
    normalized = NormalizeNfc(text);
    text = normalized;
  }
  std::vector<Symbol> symbols;
  std::vector<uint64_t> heap;
  for (std::string_view rest : pre_tokenizer_.Split(text)) {
    if (pre_tokenizer_.whole_words_first() && rest.size() <= index().longest_bytes()) {
      if (const TokenId id = FindNormal(SpellBytes(rest)); id >= 0) {
        ids.push_back(id);
        continue;
      }
    }
    while (!rest.empty()) {
      const std::string_view word = rest.substr(0, kMaxWordBytes);
      rest.remove_prefix(word.size());
      symbols.clear();
      for (uint32_t at = 0; at < word.size(); ++at) {
        const TokenId id = byte_ids_[static_cast<uint8_t>(word[at])];
        if (id >= 0) symbols.push_back({.begin = at, .end = at + 1, .id = id});
      }
      if (symbols.empty()) continue;
      MergeSymbols(symbols, heap, [this](const Symbol& left, const Symbol& right) {
        return merges_.Find(left.id, right.id);
      });
      for (int32_t idx = 0; idx >= 0; idx = symbols[idx].next) ids.push_back(symbols[idx].id);
    }
  }
}

void BpeTokenizer::AppendBytes(TokenId id, std::string& bytes) const {
  const std::string_view text = TokenText(id);
  // Added tokens are sometimes marked as normal ones and spelled in plain text.
  bytes += UnspellBytes(text).value_or(std::string(text));
}

}  // namespace quire
