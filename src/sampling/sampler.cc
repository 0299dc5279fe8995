#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "sampling/candidates.h"
#include "sampling/logit_row.h"
#include "sampling/masks.h"
#include "sampling/penalties.h"
#include "sampling/philox.h"
#include "sampling/weights.h"

namespace quire {
namespace {

// The lowest weight that min_p lets through.
uint64_t LowestWeight(float min_p) {
  const double lowest = std::ceil(static_cast<double>(min_p) * 0x1p43);
  static_assert(kWeightBits == 43);
  return static_cast<uint64_t>(lowest);
}

void DropBelow(uint64_t lowest_weight, std::span<uint64_t> weights) {
  if (lowest_weight == 0) return;
  for (uint64_t& weight : weights) weight = weight < lowest_weight ? 0 : weight;
}

// The index i of a weight, with probability weights[i] / sum: where the running sum passes
// draw / 2^64 * sum.
size_t DrawIndex(std::span<const uint64_t> weights, uint64_t draw) {
  const uint64_t sum = SumWeights(weights);
  QUIRE_CHECK(sum > 0, "no token has a weight");
  auto remaining = static_cast<uint64_t>(static_cast<unsigned __int128>(draw) * sum >> 64);
  size_t i = 0;
  while (remaining >= weights[i]) remaining -= weights[i++];
  return i;
}

// Draws among the top_k best tokens, best first.
int32_t DrawAmongBest(std::span<const float> logits, const SamplingParameters& parameters,
                      uint64_t draw, SamplerScratch* scratch) {
  SelectBest(logits, static_cast<size_t>(parameters.top_k), &scratch->keys);
  const std::span<const uint64_t> keys = scratch->keys;
  std::vector<float> best_logits;
  best_logits.reserve(keys.size());
  for (const uint64_t key : keys) best_logits.push_back(logits[static_cast<size_t>(TokenOf(key))]);
  scratch->weights.resize(keys.size());
  std::span<uint64_t> weights = scratch->weights;
  ComputeWeights(best_logits, best_logits[0], 1.0 / parameters.temperature, weights);
  DropBelow(LowestWeight(parameters.min_p), weights);
  if (parameters.top_p < 1.0f) {
    const uint64_t target = NucleusTarget(parameters.top_p, SumWeights(weights));
    uint64_t sum = 0;
    size_t kept = 0;
    while (sum < target) sum += weights[kept++];
    weights = weights.first(kept);
  }
  return TokenOf(keys[DrawIndex(weights, draw)]);
}

// Draws among the whole vocabulary, in the order of the ids.
int32_t DrawAmongAll(std::span<const float> logits, float highest,
                     const SamplingParameters& parameters, uint64_t draw, SamplerScratch* scratch) {
  scratch->weights.resize(logits.size());
  const std::span<uint64_t> weights = scratch->weights;
  ComputeWeights(logits, highest, 1.0 / parameters.temperature, weights);
  DropBelow(LowestWeight(parameters.min_p), weights);
  if (parameters.top_p < 1.0f) {
    const uint64_t target = NucleusTarget(parameters.top_p, SumWeights(weights));
    const uint64_t lowest_key = SelectNucleus(logits, weights, target, &scratch->keys);
    for (size_t i = 0; i < weights.size(); ++i) {
      const bool kept = RankKey(logits[i], static_cast<int32_t>(i)) >= lowest_key;
      weights[i] = kept ? weights[i] : 0;
    }
  }
  return static_cast<int32_t>(DrawIndex(weights, draw));
}

// The row that is drawn from, in scratch->logits, and its best token.
Result<int32_t> PrepareRow(const SampleInput& input, const Masks& masks, SamplerScratch* scratch) {
  scratch->logits.resize(input.logits.size());
  MaskLogits(masks, input.logits, scratch->logits);
  AdjustLogits(input.parameters, input.history, scratch->logits);
  const auto is_masked = [](float logit) {
    return logit == -std::numeric_limits<float>::infinity();
  };
  if (std::ranges::all_of(scratch->logits, is_masked)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "all {} tokens are masked or banned, so none can be chosen; loosen "
                     "allowed_token_ids, bad_words, logit_bias or min_tokens",
                     input.logits.size());
  }
  return BestToken(scratch->logits);
}

}  // namespace

Result<SampledToken> Sample(const SampleInput& input, SamplerScratch* scratch) {
  const SamplingParameters& parameters = input.parameters;
  QUIRE_ASSIGN_OR_RETURN(int32_t best, BestToken(input.logits));
  std::span<const float> logits = input.logits;
  const Masks masks{.parameters = parameters, .output = input.output, .banned = input.banned};
  if (AnyMasked(masks) || AdjustsLogits(parameters, input.history)) {
    QUIRE_ASSIGN_OR_RETURN(best, PrepareRow(input, masks, scratch));
    logits = scratch->logits;
  }

  SampledToken sampled{.token = best, .log_probs = std::nullopt};
  if (!parameters.is_greedy()) {
    const uint64_t draw = DrawBits(input.seed, input.choice, input.position);
    const bool limited =
        parameters.top_k > 0 && static_cast<size_t>(parameters.top_k) < logits.size();
    sampled.token = limited ? DrawAmongBest(logits, parameters, draw, scratch)
                            : DrawAmongAll(logits, logits[static_cast<size_t>(best)], parameters,
                                           draw, scratch);
  }
  if (parameters.logprobs) {
    QUIRE_ASSIGN_OR_RETURN(sampled.log_probs,
                           ComputeLogProbs(input.logits, *parameters.logprobs, sampled.token));
  }
  return sampled;
}

}  // namespace quire
