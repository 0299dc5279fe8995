// What both families of tokenizers share: the vocabulary, special tokens in text, and decoding.
//
// A prompt is cut at its special tokens: at each place the longest text of an allowed one wins,
// from left to right. What lies between two control tokens is a run; user-defined tokens stand
// inside runs. A family encodes the texts of runs.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/prefix_table.h"
#include "text/token_index.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace quire {

class VocabularyTokenizer : public Tokenizer {
 public:
  std::vector<TokenId> Encode(std::string_view text, const EncodeOptions& options) const override;
  std::vector<TokenId> EncodePieces(std::span<const PromptPiece> pieces,
                                    bool add_special) const override;
  std::vector<TokenId> EncodeRest(std::span<const PromptPiece> pieces) const override;
  std::string Decode(std::span<const TokenId> ids, bool with_control) const override;
  std::string TokenBytes(TokenId id, bool with_control) const override;

  int num_tokens() const override { return static_cast<int>(vocabulary_.tokens.size()); }
  std::string_view TokenText(TokenId id) const override;
  TokenKind Kind(TokenId id) const override;
  TokenId bos() const override { return vocabulary_.bos; }
  TokenId eos() const override { return vocabulary_.eos; }
  bool adds_bos() const override { return adds_bos_; }
  std::span<const TokenId> end_of_text_ids() const override { return end_of_text_ids_; }
  TokenId FindToken(std::string_view text) const override { return index_.Find(text); }

 protected:
  // `vocabulary` has passed CheckVocabulary. `adds_bos` holds where it does not say.
  VocabularyTokenizer(Vocabulary vocabulary, bool adds_bos);

  // Appends the ids of a valid UTF-8 text without special tokens. `starts_run`: nothing stands
  // between it and the start of its run; the text is empty when a user-defined token comes first.
  virtual void EncodeText(std::string_view text, bool starts_run,
                          std::vector<TokenId>& ids) const = 0;
  // Appends the bytes of a normal or byte token.
  virtual void AppendBytes(TokenId id, std::string& bytes) const = 0;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  const TokenIndex& index() const { return index_; }

 private:
  // Where a stretch of a prompt ends, and whether control tokens are read in it.
  struct Stretch {
    size_t end = 0;
    bool from_template = false;
  };

  // A text with special tokens around it, without, or the rest of one that has them.
  enum class Extent : uint8_t { kWhole, kPlain, kRest };

  bool Contains(TokenId id) const { return id >= 0 && id < num_tokens(); }
  std::vector<TokenId> EncodePieces(std::span<const PromptPiece> pieces, Extent extent) const;
  std::vector<TokenId> EncodeStretches(std::string_view text, std::span<const Stretch> stretches,
                                       Extent extent) const;

  Vocabulary vocabulary_;
  TokenIndex index_;
  PrefixTable control_tokens_;
  PrefixTable user_defined_tokens_;
  std::vector<TokenId> end_of_text_ids_;
  bool adds_bos_;
};

}  // namespace quire
