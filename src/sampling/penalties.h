// What changes logits before anything is drawn: logit bias, then the three penalties.
#pragma once

#include <span>

#include "sampling/parameters.h"
#include "sampling/token_counts.h"

namespace quire {

// True where AdjustLogits would change something.
bool AdjustsLogits(const SamplingParameters& parameters, const TokenCounts& history);

// Changes `logits` [vocab_size] in place. In this order, each token by itself:
//   1. logit_bias is added; kBanningBias makes the logit -infinity.
//   2. repetition_penalty, for tokens of prompt or output: positive logits are divided, others
//      multiplied.
//   3. frequency_penalty * (times in the output), then presence_penalty (once if in the output),
//      are subtracted.
// Ids outside the vocabulary are passed over: the parameters were validated, and a prompt's ids are
// the tokenizer's.
void AdjustLogits(const SamplingParameters& parameters, const TokenCounts& history,
                  std::span<float> logits);

}  // namespace quire
