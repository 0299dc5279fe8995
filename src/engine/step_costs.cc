#include "engine/step_costs.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace quire {
namespace {

// A step of fewer tokens is mostly the reading of weights and says little about one token.
constexpr int kTellingTokens = 8;
// What one step that mixes both may change at most.
constexpr double kMaxScale = 2;
// Of a mixed step, what the part that is not known has at least.
constexpr double kLeastShare = .1;

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

void StepCosts::Observe(int num_decodes, int num_prefill_tokens, double duration_ms) {
  if (!std::isfinite(duration_ms) || duration_ms <= 0) return;
  if (num_decodes > 0 && num_prefill_tokens > 0) {
    ObserveMixed(num_decodes, num_prefill_tokens, duration_ms);
  } else if (num_decodes > 0) {
    decode_steps_[ClassOf(num_decodes)].Add(duration_ms / std::sqrt(num_decodes));
  } else if (num_prefill_tokens >= kTellingTokens ||
             (num_prefill_tokens > 0 && prefill_tokens_.empty())) {
    prefill_tokens_.Add(duration_ms / num_prefill_tokens);
  }
}

void StepCosts::ObserveMixed(int num_decodes, int num_prefill_tokens, double duration_ms) {
  const StepCostEstimate known = Estimate(num_decodes);
  const double least = kLeastShare * duration_ms;
  double decodes_ms = known.decode_step_ms;
  double prefill_ms = known.prefill_token_ms * num_prefill_tokens;
  if (decodes_ms == 0 && prefill_ms == 0) return;
  if (decodes_ms == 0) {
    decodes_ms = std::max(duration_ms - prefill_ms, least);
  } else if (prefill_ms == 0) {
    prefill_ms = std::max(duration_ms - decodes_ms, least);
  } else {
    const double scale =
        std::clamp(duration_ms / (decodes_ms + prefill_ms), 1 / kMaxScale, kMaxScale);
    decodes_ms *= scale;
    prefill_ms *= scale;
  }
  decode_steps_[ClassOf(num_decodes)].Add(decodes_ms / std::sqrt(num_decodes));
  if (num_prefill_tokens >= kTellingTokens || known.prefill_token_ms == 0) {
    prefill_tokens_.Add(prefill_ms / num_prefill_tokens);
  }
}

StepCostEstimate StepCosts::Estimate(int num_decodes) const {
  StepCostEstimate estimate{.prefill_token_ms = prefill_tokens_.Median()};
  if (num_decodes <= 0) return estimate;
  const int wanted = ClassOf(num_decodes);
  for (int distance = 0; distance < kClasses; ++distance) {
    for (const int found : {wanted - distance, wanted + distance}) {
      if (found < 0 || found >= kClasses || decode_steps_[found].empty()) continue;
      estimate.decode_step_ms = decode_steps_[found].Median() * std::sqrt(num_decodes);
      return estimate;
    }
  }
  return estimate;
}

}  // namespace quire
