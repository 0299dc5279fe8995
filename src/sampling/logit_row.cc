#include "sampling/logit_row.h"

#include <algorithm>
#include <array>
#include <cstdint>
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
  // As many maxima side by side as keep vectors busy; the best token is then the first that has the
  // highest of them. A comparison with NaN is false, which leaves a maximum as it is.
  constexpr size_t kNumLanes = 32;
  std::array<float, kNumLanes> highest_of{};
  std::array<uint32_t, kNumLanes> all_below_infinity_of{};
  highest_of.fill(-kInfinity);
  all_below_infinity_of.fill(1);
  const auto take = [&](size_t lane, float logit) {
    highest_of[lane] = logit > highest_of[lane] ? logit : highest_of[lane];
    all_below_infinity_of[lane] &= logit < kInfinity ? 1 : 0;  // 0 for NaN as well
  };
  size_t i = 0;
  for (; i + kNumLanes <= logits.size(); i += kNumLanes) {
    for (size_t lane = 0; lane < kNumLanes; ++lane) take(lane, logits[i + lane]);
  }
  for (size_t lane = 0; i + lane < logits.size(); ++lane) take(lane, logits[i + lane]);
  const float highest = *std::ranges::max_element(highest_of);
  const bool all_below_infinity = std::ranges::count(all_below_infinity_of, 0u) == 0;
  if (!all_below_infinity) return NotANumber(logits);
  if (highest == -kInfinity) {
    return MakeError(ErrorCode::kNumeric,
                     "all {} tokens are masked: their logits are -infinity, so none can be chosen",
                     logits.size());
  }
  return static_cast<int32_t>(std::ranges::find(logits, highest) - logits.begin());
}

}  // namespace quire
