// One answer as it grows: what its next draw depends on, its text, and what ends it.
// Thread-compatible; the tokenizer and the request outlive it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "sampling/sampler.h"
#include "sampling/token_counts.h"
#include "text/stop_matcher.h"
#include "text/stream_decoder.h"

namespace quire {

class Answer {
 public:
  // max_tokens: what the request allows and the context has room for, at least 1. Fails for stop
  // strings that cannot be matched.
  static Result<Answer> Create(const Tokenizer& tokenizer, const Request& request, int index,
                               uint64_t seed, int max_tokens);

  // The draw of its next token from these logits; `position` is that token's in the sequence.
  SampleInput NextDraw(std::span<const float> logits, int position) const;

  // Takes a drawn token. Returns the text that it adds for good; ended() says whether it was the
  // last.
  std::string Push(SampledToken sampled);
  // Ends it for another reason, or after the token that ended it; returns the text held back.
  std::string Finish(FinishReason reason);

  bool ended() const { return ended_; }
  // That it may still have.
  int tokens_left() const { return max_tokens_ - static_cast<int>(choice_.tokens.size()); }
  const Choice& choice() const { return choice_; }
  Choice TakeChoice() { return std::move(choice_); }

 private:
  Answer(const Tokenizer& tokenizer, const Request& request, int index, uint64_t seed,
         int max_tokens, StopMatcher stops);

  bool below_min_tokens() const {
    return static_cast<int>(choice_.tokens.size()) < request_->min_tokens;
  }
  bool IsEnder(int32_t token) const;
  std::string Show(std::string text);

  const Tokenizer* tokenizer_;
  const Request* request_;
  uint64_t seed_;
  int max_tokens_;
  StreamDecoder decoder_;
  StopMatcher stops_;
  TokenCounts history_;
  std::vector<int32_t> enders_;  // banned below min_tokens
  Choice choice_;
  bool ended_ = false;
};

}  // namespace quire
