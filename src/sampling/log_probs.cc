#include "sampling/log_probs.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/exact_math.h"
#include "sampling/candidates.h"
#include "sampling/logit_row.h"
#include "sampling/weights.h"

namespace quire {

Result<LogProbs> ComputeLogProbs(std::span<const float> logits, int top_n, int32_t chosen) {
  QUIRE_CHECK(chosen >= 0 && static_cast<size_t>(chosen) < logits.size(), "token {} of {}", chosen,
              logits.size());
  QUIRE_CHECK(top_n >= 0, "{} best tokens", top_n);
  QUIRE_ASSIGN_OR_RETURN(const int32_t best, BestToken(logits));
  const float highest = logits[static_cast<size_t>(best)];
  std::vector<uint64_t> weights(logits.size());
  ComputeWeights(logits, highest, 1.0, weights);
  const double log_sum = exact::Log(static_cast<double>(SumWeights(weights)) * 0x1p-43);
  static_assert(kWeightBits == 43);

  const auto log_prob_of = [&](int32_t token) {
    const double below_highest =
        static_cast<double>(logits[static_cast<size_t>(token)]) - static_cast<double>(highest);
    return TokenLogProb{.token = token, .log_prob = below_highest - log_sum};
  };
  LogProbs result{.chosen = log_prob_of(chosen), .top = {}};
  std::vector<uint64_t> keys;
  SelectBest(logits, static_cast<size_t>(top_n), &keys);
  bool chosen_is_listed = false;
  for (const uint64_t key : keys) {
    result.top.push_back(log_prob_of(TokenOf(key)));
    chosen_is_listed |= TokenOf(key) == chosen;
  }
  if (!chosen_is_listed) result.top.push_back(result.chosen);
  return result;
}

}  // namespace quire
