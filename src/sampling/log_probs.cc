#include "sampling/log_probs.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/exact_math.h"
#include "sampling/candidates.h"
#include "sampling/logit_row.h"
#include "sampling/weights.h"

namespace quire {
namespace {

// A row whose sum of weights is known.
class Softmax {
 public:
  static Result<Softmax> Of(std::span<const float> logits) {
    QUIRE_ASSIGN_OR_RETURN(const int32_t best, BestToken(logits));
    return Softmax(logits, logits[static_cast<size_t>(best)]);
  }

  TokenLogProb LogProbOf(int32_t token) const {
    const double below_highest =
        static_cast<double>(logits_[static_cast<size_t>(token)]) - static_cast<double>(highest_);
    return {.token = token, .log_prob = below_highest - log_sum_};
  }

 private:
  Softmax(std::span<const float> logits, float highest) : logits_(logits), highest_(highest) {
    // In pieces that stay in the nearest cache: the weights are summed and never looked at again.
    std::array<uint64_t, 1024> weights;
    uint64_t sum = 0;
    for (size_t begin = 0; begin < logits.size(); begin += weights.size()) {
      const size_t count = std::min(weights.size(), logits.size() - begin);
      const auto piece = std::span(weights).first(count);
      ComputeWeights(logits.subspan(begin, count), highest, 1.0, piece);
      sum += SumWeights(piece);
    }
    log_sum_ = exact::Log(static_cast<double>(sum) * 0x1p-43);
    static_assert(kWeightBits == 43);
  }

  std::span<const float> logits_;
  float highest_;
  double log_sum_ = 0;
};

}  // namespace

Result<LogProbs> ComputeLogProbs(std::span<const float> logits, int top_n, int32_t chosen) {
  QUIRE_CHECK(chosen >= 0 && static_cast<size_t>(chosen) < logits.size(), "token {} of {}", chosen,
              logits.size());
  QUIRE_CHECK(top_n >= 0, "{} best tokens", top_n);
  QUIRE_ASSIGN_OR_RETURN(const Softmax softmax, Softmax::Of(logits));
  LogProbs result{.chosen = softmax.LogProbOf(chosen), .top = {}};
  std::vector<uint64_t> keys;
  SelectBest(logits, static_cast<size_t>(top_n), &keys);
  bool chosen_is_listed = false;
  for (const uint64_t key : keys) {
    result.top.push_back(softmax.LogProbOf(TokenOf(key)));
    chosen_is_listed |= TokenOf(key) == chosen;
  }
  if (!chosen_is_listed) result.top.push_back(result.chosen);
  return result;
}

Result<std::vector<TokenLogProb>> ComputeBestLogProbs(std::span<const float> logits, int count,
                                                      std::span<const int32_t> banned) {
  QUIRE_CHECK(count >= 0, "{} best tokens", count);
  QUIRE_ASSIGN_OR_RETURN(const Softmax softmax, Softmax::Of(logits));
  std::vector<uint64_t> keys;
  SelectBest(logits, static_cast<size_t>(count) + banned.size(), &keys);
  std::vector<TokenLogProb> best;
  for (const uint64_t key : keys) {
    if (best.size() == static_cast<size_t>(count)) break;
    if (std::ranges::find(banned, TokenOf(key)) != banned.end()) continue;
    best.push_back(softmax.LogProbOf(TokenOf(key)));
  }
  return best;
}

}  // namespace quire
