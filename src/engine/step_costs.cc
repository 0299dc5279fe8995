#include "engine/step_costs.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace quire {
namespace {

// A step of fewer tokens is mostly the reading of weights and says little about one token.
constexpr int kTellingTokens = 8;
// Of a mixed step, what the part that is not known has at least.
constexpr double kLeastShare = .1;
// A step of fewer tokens, or one that is mostly decodes, does not tell what depth costs.
constexpr int kDepthTokens = 64;
constexpr double kDepthShare = .5;

}  // namespace

void StepCosts::Window::Add(double value) {
  if (static_cast<int>(values_.size()) < kSamples) {
    values_.push_back(value);
    return;
  }
  values_[next_] = value;
  next_ = (next_ + 1) % kSamples;
}

double StepCosts::Window::Median() const {
  if (values_.empty()) return 0;
  std::vector<double> sorted = values_;
  // Of an even number the lower one: the first steps are the ones that fault pages in.
  const auto middle = sorted.begin() + (static_cast<int>(sorted.size()) - 1) / 2;
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

int StepCosts::ClassOf(int num_decodes) {
  return std::min<int>(std::bit_width(static_cast<unsigned>(num_decodes - 1)), kClasses - 1);
}

void StepCosts::Add(DecodeSteps& steps, int num_decodes, double duration_ms) {
  steps[ClassOf(num_decodes)].Add(duration_ms / std::sqrt(num_decodes));
}

double StepCosts::Find(const DecodeSteps& steps, int num_decodes) {
  const int wanted = ClassOf(num_decodes);
  for (int distance = 0; distance < kClasses; ++distance) {
    for (const int found : {wanted - distance, wanted + distance}) {
      if (found < 0 || found >= kClasses || steps[found].empty()) continue;
      return steps[found].Median() * std::sqrt(num_decodes);
    }
  }
  return 0;
}

void StepCosts::Observe(int num_decodes, int num_prefill_tokens, double duration_ms,
                        double mean_position) {
  if (!std::isfinite(duration_ms) || duration_ms <= 0) return;
  if (num_prefill_tokens >= kDepthTokens && mean_position >= 0) {
    const double share_ms = PrefillShareMs(num_decodes, duration_ms);
    if (share_ms > 0) depth_.Observe(mean_position, share_ms / num_prefill_tokens);
  }
  if (num_decodes > 0 && num_prefill_tokens > 0) {
    ObserveMixed(num_decodes, num_prefill_tokens, duration_ms);
  } else if (num_decodes > 0) {
    Add(alone_, num_decodes, duration_ms);
  } else if (num_prefill_tokens >= kTellingTokens) {
    tokens_alone_.Add(duration_ms / num_prefill_tokens);
  } else if (num_prefill_tokens > 0) {
    Add(beside_, num_prefill_tokens, duration_ms);
  }
}

void StepCosts::ObserveMixed(int num_decodes, int num_prefill_tokens, double duration_ms) {
  const double alone_ms = Find(alone_, num_decodes);
  const double decodes_ms = alone_ms > 0 ? alone_ms : Find(beside_, num_decodes);
  const double token_ms = TokenMs();
  const double least = kLeastShare * duration_ms;
  if (alone_ms > 0 || (decodes_ms > 0 && token_ms == 0)) {
    tokens_beside_.Add(std::max(duration_ms - decodes_ms, least) / num_prefill_tokens);
  } else if (token_ms > 0) {
    Add(beside_, num_decodes, std::max(duration_ms - token_ms * num_prefill_tokens, least));
  }
}

double StepCosts::PrefillShareMs(int num_decodes, double duration_ms) const {
  if (num_decodes == 0) return duration_ms;
  const double decodes_ms = Find(alone_, num_decodes);
  const double share_ms = duration_ms - decodes_ms;
  return decodes_ms > 0 && share_ms >= kDepthShare * duration_ms ? share_ms : 0;
}

StepCostEstimate StepCosts::Estimate(int num_decodes) const {
  StepCostEstimate estimate{.prefill_token_ms = TokenMs()};
  if (num_decodes <= 0) return estimate;
  estimate.decode_step_ms = Find(alone_, num_decodes);
  if (estimate.decode_step_ms == 0) estimate.decode_step_ms = Find(beside_, num_decodes);
  return estimate;
}

}  // namespace quire
