// Byte-level BPE: words by a pre-tokenizer, bytes as symbols, ranked merges.
//
// Radford et al., "Language Models are Unsupervised Multitask Learners" (2019). A byte that has no
// token of its own is left out, as the published tokenizers do; its neighbours may merge.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/pair_table.h"
#include "text/pre_tokenizer.h"
#include "text/vocabulary_tokenizer.h"

namespace quire {

class BpeTokenizer final : public VocabularyTokenizer {
 public:
  // With the pre-tokenizer that the vocabulary names, or the given one. Fails when the vocabulary
  // contradicts itself or a merge is malformed, double, or about tokens that are not there.
  static Result<std::unique_ptr<BpeTokenizer>> Create(Vocabulary vocabulary);
  static Result<std::unique_ptr<BpeTokenizer>> Create(Vocabulary vocabulary,
                                                      PreTokenizer pre_tokenizer);

  bool strips_leading_space() const override { return false; }

 protected:
  void EncodeText(std::string_view text, bool starts_run, std::vector<TokenId>& ids) const override;
  void AppendBytes(TokenId id, std::string& bytes) const override;

 private:
  BpeTokenizer(Vocabulary vocabulary, PreTokenizer pre_tokenizer);

  Status AddMerges();
  TokenId FindNormal(std::string_view text) const;

  PreTokenizer pre_tokenizer_;
  PairTable merges_;
  std::array<TokenId, 256> byte_ids_;  // -1: no token
};

}  // namespace quire
