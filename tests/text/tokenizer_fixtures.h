// Vocabularies and golden files for the tokenizer tests.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace quire {

// The 256 byte tokens of a "gpt2" vocabulary (id = byte), then the tokens that `merges` makes, in
// order; each merge is "LEFT RIGHT" in the spelling of the byte alphabet.
Vocabulary ByteLevelVocabulary(const std::vector<std::string>& merges,
                               std::string_view pre = "gpt-2");

// A "llama" vocabulary: <unk>, <s>, </s>, the bytes <0x00> to <0xFF>, then `pieces` from id 259 on,
// earlier ones with higher scores.
Vocabulary SentencePieceVocabulary(const std::vector<std::string>& pieces);

// Adds a token at the end and returns its id.
TokenId AddToken(Vocabulary& vocabulary, std::string_view text, TokenKind kind);

// golden/tokenizer/NAME.json as tests/oracles/minimal_vocabularies.py wrote it: the ids of the real
// vocabulary, with unused fillers between.
Vocabulary MinimalVocabulary(std::string_view name);

// The tokenizer of a model file in $QUIRE_CACHE/models (default ~/.cache/quire/models); null, and a
// line on standard output, when the file is not there.
std::unique_ptr<Tokenizer> ModelTokenizer(std::string_view file_name);

struct GoldenCase {
  std::string text;  // bytes, perhaps invalid UTF-8
  bool parse_special = false;
  std::vector<TokenId> ids;
};

struct GoldenFile {
  std::string model_file;
  std::vector<GoldenCase> cases;
};

// golden/tokenizer/NAME.json as tests/oracles/tokenizer_goldens.py wrote it.
GoldenFile ReadGoldenFile(std::string_view name);

// Every case of the golden file gives its ids, and its ids give its text (with invalid bytes
// replaced) unless the vocabulary lacks a byte or normalises. Skips when the model is absent.
void ExpectGoldenFileHolds(std::string_view name);

// Encode without BOS and without control tokens.
std::vector<TokenId> EncodePlain(const Tokenizer& tokenizer, std::string_view text);
std::vector<TokenId> EncodeSpecial(const Tokenizer& tokenizer, std::string_view text);

}  // namespace quire
