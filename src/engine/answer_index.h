// Finds the token ids of an answer that comes back as text.
//
// A chat's next request repeats the last prompt and its answer as text, which may tokenize
// otherwise than it was sampled: then the cache, which knows ids, would miss. So the text of a
// prompt with its answer is remembered beside its ids, and a later text that begins with it takes
// those ids. A text is more than its bytes: which of them the template wrote and which a user is
// part of it, so that a user who spells a control token is not taken for the template.
//
// Entries live within one root (kv/identity.h): tenants never meet. Bounded by bytes, the least
// recently used go first. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.h"
#include "text/tokenizer.h"

namespace quire {

// The beginning of a text whose ids are known.
struct KnownBeginning {
  size_t num_bytes = 0;  // of the joint text of the pieces
  std::vector<int32_t> ids{};
};

class AnswerIndex {
 public:
  static constexpr size_t kMaxBytes = size_t{64} << 20;

  explicit AnswerIndex(size_t max_bytes = kMaxBytes);
  ~AnswerIndex();

  // The prompt of these pieces was computed as prompt_ids; an answer of answer_ids followed, shown
  // as answer_text. Of the answer, the ids whose bytes lie whole inside answer_text are kept, up to
  // the first that is not plain text; an answer of which none are is not remembered.
  void Add(const Digest& root, const Tokenizer& tokenizer, std::span<const PromptPiece> prompt,
           std::span<const int32_t> prompt_ids, std::string_view answer_text,
           std::span<const int32_t> answer_ids);

  // The longest remembered text that these pieces begin with.
  std::optional<KnownBeginning> Find(const Digest& root, std::span<const PromptPiece> pieces) const;

  size_t size_bytes() const;

 private:
  struct Entries;
  std::unique_ptr<Entries> entries_;
};

}  // namespace quire
