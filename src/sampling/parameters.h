// What a request may say about how its tokens are chosen.
//
// Names, ranges and neutral values are those of the OpenAI API and of vLLM's extensions to it. The
// order in which they act is in docs/sampling.md. Stop strings are not here: they act on text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/result.h"

namespace quire {

// Below this temperature the best token is taken and nothing is drawn.
inline constexpr float kGreedyTemperature = 1e-5f;
// A logit bias of this value bans its token, whatever the logits are.
inline constexpr float kBanningBias = -100.0f;
inline constexpr int kMaxLogProbs = 20;
inline constexpr size_t kMaxBadWords = 1024;
inline constexpr size_t kMaxBadWordTokens = 64;  // of one

struct SamplingParameters {
  // 0 to 2. The logits are divided by it; below kGreedyTemperature: greedy.
  float temperature = 1.0f;
  // Draw among the k best tokens only. 0 or -1 = off; more than the vocabulary = off.
  int top_k = 0;
  // 0 to 1. Draw among the fewest best tokens whose probabilities reach top_p. 1 = off; 0 leaves
  // the best token alone.
  float top_p = 1.0f;
  // 0 to 1. Drop tokens less probable than min_p times the most probable one. 0 = off.
  float min_p = 0.0f;
  // 0.01 to 100. Positive logits of tokens in prompt or output are divided by it, negative ones
  // multiplied. 1 = off.
  float repetition_penalty = 1.0f;
  // -2 to 2. Subtracted once from the logit of each token in the output. 0 = off.
  float presence_penalty = 0.0f;
  // -2 to 2. Subtracted from a token's logit as often as it stands in the output. 0 = off.
  float frequency_penalty = 0.0f;
  // Token id to a value from -100 (banned) to 100 that is added to its logit.
  std::map<int32_t, float> logit_bias = {};
  // Where not empty: no other token is drawn. Ids of the vocabulary, any order; at most as many as
  // it has.
  std::vector<int32_t> allowed_token_ids = {};
  // At most kMaxBadWords sequences of 1 to kMaxBadWordTokens ids that never stand in the output:
  // the last token of one is banned where the output so far ends in those before it.
  std::vector<std::vector<int32_t>> bad_words = {};
  // What fixes every draw. Absent: the engine takes one from RandomSeed() for the request.
  std::optional<uint64_t> seed = std::nullopt;
  // 0 to kMaxLogProbs: log-probabilities of so many best tokens and of the chosen one.
  // Absent = off.
  std::optional<int> logprobs = std::nullopt;

  // kInvalidArgument, naming the parameter, its accepted range and the value, where one is out of
  // range or not a number.
  Status Validate(int vocab_size) const;

  bool is_greedy() const { return temperature < kGreedyTemperature; }
  // Penalties need to know the tokens before; without them a history may stay empty.
  bool uses_history() const {
    return repetition_penalty != 1.0f || presence_penalty != 0.0f || frequency_penalty != 0.0f;
  }
};

}  // namespace quire
