// SentencePiece BPE with byte fallback, the "llama" type of GGUF files.
//
// Kudo and Richardson, "SentencePiece" (2018), model type BPE: characters as symbols, of two
// neighbours the pair whose joined text has the highest score merges first. A space is U+2581 in
// the vocabulary. With `add_space_prefix` every run (vocabulary_tokenizer.h) that holds anything
// gets a space in front, as when the library encodes each stretch between control tokens by itself.
// A character without a piece becomes its bytes where the vocabulary has all of them, and otherwise
// the unknown token, one for a row of such characters.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/pair_table.h"
#include "text/vocabulary_tokenizer.h"

namespace quire {

class SpmTokenizer final : public VocabularyTokenizer {
 public:
  // Fails when the vocabulary contradicts itself or a byte token is not spelled "<0xNN>".
  static Result<std::unique_ptr<SpmTokenizer>> Create(Vocabulary vocabulary);

  bool strips_leading_space() const override { return vocabulary().add_space_prefix; }

 protected:
  void EncodeText(std::string_view text, bool starts_run, std::vector<TokenId>& ids) const override;
  void AppendBytes(TokenId id, std::string& bytes) const override;

 private:
  explicit SpmTokenizer(Vocabulary vocabulary);

  Status AddBytes();
  PairMerge FindPiece(std::string_view text) const;
  void EncodeStretch(std::string_view escaped, std::vector<TokenId>& ids) const;
  // `follows_unknown`: the id before belongs to the same row of unknown characters.
  void AppendFallback(std::string_view character, bool follows_unknown,
                      std::vector<TokenId>& ids) const;

  std::array<TokenId, 256> byte_ids_;  // -1: no token
  std::vector<uint32_t> priorities_;   // of each token: lower merges first
};

}  // namespace quire
