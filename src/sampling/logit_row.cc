#include "sampling/logit_row.h"

#include <algorithm>
#include <limits>

#include "sampling/weights.h"

namespace quire {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Error NotANumber(std::span<const float> logits) {
  const auto position =
      std::find_if(logits.begin(), logits.end(), [](float logit) { return !(logit < kInfinity); });
  return MakeError(ErrorCode::kNumeric,
                   "the logit of token {} is {}; the output layer has to give finite numbers",
                   position - logits.begin(), *position);
}

}  // namespace

Result<int32_t> BestToken(std::span<const float> logits) {
  if (logits.empty() || logits.size() > kMaxVocabSize) {
    return MakeError(ErrorCode::kUnsupported, "a vocabulary of {} tokens; expected 1 to {}",
                     logits.size(), kMaxVocabSize);
  }
  size_t best = 0;
  float highest = -kInfinity;
  bool all_below_infinity = true;
  for (size_t i = 0; i < logits.size(); ++i) {
    const float logit = logits[i];
    all_below_infinity &= logit < kInfinity;  // false for NaN as well
    if (logit > highest) {
      highest = logit;
      best = i;
    }
  }
  if (!all_below_infinity) return NotANumber(logits);
  if (highest == -kInfinity) {
    return MakeError(ErrorCode::kNumeric,
                     "all {} tokens are masked, so none can be chosen; loosen logit_bias or the "
                     "grammar",
                     logits.size());
  }
  return static_cast<int32_t>(best);
}

}  // namespace quire
