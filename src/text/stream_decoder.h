// Token ids to text as they come, never half a character.
//
// Invariant: all that Push and Finish return, joined, is RepairUtf8 of the tokenizer's
// Decode of the same ids. So an answer that ends inside a character ends in one U+FFFD, streamed or
// not. Holds back at most three bytes. The tokenizer must outlive it; one thread at a time.
#pragma once

#include <string>

#include "text/tokenizer.h"

namespace quire {

class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool with_control = false)
      : tokenizer_(&tokenizer),
        with_control_(with_control),
        at_start_(tokenizer.strips_leading_space()) {}

  // The characters that this token completes; bytes that cannot become one turn into U+FFFD.
  std::string Push(TokenId id);
  // What is held back, as one U+FFFD, or nothing. The decoder is then as if made anew.
  std::string Finish();
  // The raw bytes of the last token, as they continue (or begin) the text: for log-probabilities.
  const std::string& last_bytes() const { return last_bytes_; }

 private:
  const Tokenizer* tokenizer_;
  bool with_control_;
  bool at_start_;
  std::string held_;  // the beginning of a character
  std::string last_bytes_;
};

}  // namespace quire
