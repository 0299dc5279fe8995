// Cuts a text into the words inside which a byte-level BPE may merge.
//
// A pre-tokenizer is a list of patterns. Each one cuts every word that the patterns before it left:
// its matches become words, and so does the text between two matches; nothing is lost or reordered.
// The patterns are those published with the models (docs/tokenizers.md says where).
//
// Matching uses PCRE2, compiled to machine code where the system allows it, with a stack of its own
// (one per thread, at most 512 KiB) and otherwise on the heap: the caller's stack does not grow
// with the text. Const after creation; any number of threads may call Split.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

class PreTokenizer {
 public:
  // By its name in a file (`tokenizer.ggml.pre`). Fails for an unknown one, naming the known ones.
  static Result<PreTokenizer> Create(std::string_view name);
  // From patterns in PCRE2's syntax. `\s` and `\S` mean the White_Space property of Unicode. With
  // patterns that look far ahead the time may be more than linear in the text.
  static Result<PreTokenizer> FromPatterns(std::span<const std::string> patterns);

  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // The words of a valid UTF-8 text, in order; together they are the text. They are views into it.
  // Where a pattern exceeds the match limits (no named one does), the rest is one word.
  std::vector<std::string_view> Split(std::string_view text) const;

  bool normalizes_nfc() const { return normalizes_nfc_; }
  // Whether a word that is a token as a whole is taken as it is, whatever the merges say.
  bool whole_words_first() const { return whole_words_first_; }
  // Whether files that do not say so add the BOS token.
  bool adds_bos() const { return adds_bos_; }

 private:
  class Pattern;

  PreTokenizer();

  std::vector<std::unique_ptr<Pattern>> patterns_;
  bool normalizes_nfc_ = false;
  bool whole_words_first_ = false;
  bool adds_bos_ = false;
};

}  // namespace quire
