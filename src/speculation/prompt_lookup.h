// What a sequence says next if it goes on as it did before.
//
// An answer that edits, quotes or repeats copies long stretches of what stands before it. So the
// longest earlier occurrence of the sequence's present end is kept, and what followed there is the
// prediction (prompt lookup decoding; Saxena 2023, and the n-gram drafts of llama.cpp and vLLM).
// Here the place is kept from token to token instead of being searched anew:
//
//   tokens   a b c d e f g ... x b c d e | ?        source: f, match length 4
//
//   right    the source and the match grow by one, whatever else there is
//   wrong    the latest place behind the last kKeyTokens tokens; else, for kLostTokens tokens, the
//            nearest place a little behind where the trail was lost that follows the last token: a
//            text copied with some words changed goes on there. Straight after the miss, where
//            nothing follows it, the token behind the one that differed (match length 0).
//
// O(1) a token, apart from growing; 16 to 64 bytes a token. Places are looked for among the last
// kMostIndexed tokens, so that a long text takes no more than 1 MiB, nor longer to look through; a
// trail is followed however far back it lies. A place that a hash collision lost is a missing
// prediction, never a wrong match: tokens are compared. Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace quire {

class PromptLookup {
 public:
  static constexpr int kKeyTokens = 3;
  static constexpr int kLostTokens = 8;
  static constexpr int kMostCompared = 32;  // match lengths of a found place are told up to this

  static constexpr int kMostIndexed = 32768;

  // Looks through what the sequence has so far, its last kMostIndexed tokens.
  explicit PromptLookup(std::span<const int32_t> tokens);

  // tokens: all of the sequence, one more than before.
  void Push(std::span<const int32_t> tokens);

  bool predicts() const { return source_ >= 0; }
  // Tokens before the source that are the last tokens of the sequence, as far as they were
  // compared.
  int match_length() const { return match_length_; }
  size_t index_bytes() const { return places_.size() * sizeof(int32_t); }
  // The i-th token from here, 0 = the next one, where it predicts. A source that runs into the end
  // of the text goes round.
  int32_t Prediction(std::span<const int32_t> tokens, int i) const;

 private:
  size_t SlotOf(std::span<const int32_t> tokens, int end) const;
  void Index(std::span<const int32_t> tokens, int end);
  void IndexAllBefore(std::span<const int32_t> tokens, int end);
  int Find(std::span<const int32_t> tokens) const;
  int MatchLength(std::span<const int32_t> tokens, int place) const;
  void Follow(int place, int match_length);
  void Resume(std::span<const int32_t> tokens);

  std::vector<int32_t> places_;  // [power of two] the latest behind a key; -1 = none
  int source_ = -1;              // of the next token; -1 = none
  int match_length_ = 0;
  int lost_source_ = -1;  // what was predicted when the trail was lost; -1 = there was none
  int lost_at_ = 0;       // the position that it was predicted for
};

}  // namespace quire
