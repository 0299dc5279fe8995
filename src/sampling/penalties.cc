#include "sampling/penalties.h"

#include <cstddef>
#include <limits>

namespace quire {

bool AdjustsLogits(const SamplingParameters& parameters, const TokenCounts& history) {
  return !parameters.logit_bias.empty() || (parameters.uses_history() && !history.counts().empty());
}

void AdjustLogits(const SamplingParameters& parameters, const TokenCounts& history,
                  std::span<float> logits) {
  const auto is_known = [&](int32_t token) {
    return token >= 0 && static_cast<size_t>(token) < logits.size();
  };
  for (const auto& [token, bias] : parameters.logit_bias) {
    if (!is_known(token)) continue;
    float& logit = logits[static_cast<size_t>(token)];
    logit = bias <= kBanningBias ? -std::numeric_limits<float>::infinity() : logit + bias;
  }
  if (!parameters.uses_history()) return;
  for (const auto& [token, count] : history.counts()) {
    if (!is_known(token)) continue;
    float& logit = logits[static_cast<size_t>(token)];
    logit = logit > 0.0f ? logit / parameters.repetition_penalty
                         : logit * parameters.repetition_penalty;
    if (count.in_output > 0) {
      logit -= parameters.frequency_penalty * static_cast<float>(count.in_output);
      logit -= parameters.presence_penalty;
    }
  }
}

}  // namespace quire
