// Chooses the next token from a row of logits.
//
// A function of its input: the same logits, parameters, history, seed, choice and position give the
// same token, whatever else runs, on every machine and in every build. The steps and their order
// are in docs/sampling.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "sampling/log_probs.h"
#include "sampling/parameters.h"
#include "sampling/token_counts.h"

namespace quire {

struct SampleInput {
  std::span<const float> logits;         // [vocab_size]; -infinity = masked
  const SamplingParameters& parameters;  // validated against vocab_size
  const TokenCounts& history;            // may stay empty unless parameters.uses_history()
  uint64_t seed = 0;                     // parameters.seed, or what RandomSeed() gave the request
  uint32_t choice = 0;                   // index of the answer among the request's n
  uint32_t position = 0;                 // of the sampled token in its sequence
  // The answer so far, prompt left out; may stay empty without parameters.bad_words.
  std::span<const int32_t> output{};
  // Ids that this draw cannot choose, whatever their logits; log_probs do not know of it.
  std::span<const int32_t> banned{};
};

struct SampledToken {
  int32_t token = 0;
  std::optional<LogProbs> log_probs;  // where parameters.logprobs asks for them
};

// Memory that calls reuse. One thread at a time.
struct SamplerScratch {
  std::vector<float> logits;
  std::vector<uint64_t> weights;
  std::vector<uint64_t> keys;
};

// Fails with kNumeric for a NaN, for +infinity and where every token is masked already, and with
// kInvalidArgument where the parameters and bans leave no token. O(vocab_size); greedy without
// bias, penalties, masks and bans is a single pass.
Result<SampledToken> Sample(const SampleInput& input, SamplerScratch* scratch);

}  // namespace quire
