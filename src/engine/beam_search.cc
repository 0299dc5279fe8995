#include "engine/beam_search.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/exact_math.h"

namespace quire {
namespace {

struct Proposal {
  int parent = 0;
  int32_t token = 0;
  double cumulative_log_prob = 0;
};

bool Better(const Proposal& a, const Proposal& b) {
  return std::tuple(-a.cumulative_log_prob, a.parent, a.token) <
         std::tuple(-b.cumulative_log_prob, b.parent, b.token);
}

// length^exponent. The usual exponents are exact, so that equal means score alike.
double PowerOf(double length, double exponent) {
  if (exponent == 0) return 1;
  if (exponent == 1) return length;
  if (exponent == 2) return length * length;
  return exact::Pow(length, exponent);
}

}  // namespace

BeamSearch::BeamSearch(const BeamSearchOptions& options) : options_(options), live_(1) {
  QUIRE_CHECK(options_.beams.width >= 1, "a beam width of {}", options_.beams.width);
  QUIRE_CHECK(options_.max_tokens >= 1, "answers of {} tokens", options_.max_tokens);
}

double BeamSearch::ScoreOf(double cumulative, size_t num_tokens) const {
  // A certain answer keeps its 0 whatever the power, which may have left the range of a double.
  if (cumulative == 0) return 0;
  const auto length = static_cast<double>(std::max<size_t>(num_tokens, 1));
  return cumulative / PowerOf(length, options_.beams.length_penalty);
}

bool BeamSearch::CanImprove() const {
  if (live_.empty()) return false;
  if (answers_.size() < static_cast<size_t>(options_.beams.width)) return true;
  if (options_.beams.early_stopping) return false;
  // Log-probabilities are not above 0, so a beam's answer sums to no more than the beam does. That
  // sum is divided by what grows with the length where the penalty is positive, and shrinks where
  // it is negative: the longest or the next length is then the best it can have.
  const size_t length = options_.beams.length_penalty > 0 ? static_cast<size_t>(options_.max_tokens)
                                                          : live_.front().tokens.size() + 1;
  // Live beams stand best first and are equally long, so the first has the highest bound.
  return ScoreOf(live_.front().cumulative_log_prob, length) > answers_.back().score;
}

void BeamSearch::Keep(Beam beam, FinishReason reason) {
  BeamAnswer answer{.tokens = std::move(beam.tokens),
                    .cumulative_log_prob = beam.cumulative_log_prob,
                    .score = 0,
                    .finish_reason = reason};
  answer.score = ScoreOf(answer.cumulative_log_prob, answer.tokens.size());
  const auto place =
      std::upper_bound(answers_.begin(), answers_.end(), answer.score,
                       [](double score, const BeamAnswer& other) { return score > other.score; });
  answers_.insert(place, std::move(answer));
  if (answers_.size() > static_cast<size_t>(options_.beams.width)) answers_.pop_back();
}

std::vector<BeamExtension> BeamSearch::Advance(
    std::span<const std::vector<TokenLogProb>> candidates) {
  QUIRE_CHECK(!is_over_, "the search is over");
  QUIRE_CHECK(candidates.size() == live_.size(), "candidates for {} of {} beams", candidates.size(),
              live_.size());
  const size_t num_tokens = live_.front().tokens.size() + 1;
  const bool may_end = num_tokens > static_cast<size_t>(std::max(options_.min_tokens, 0));
  const auto ends = [this](int32_t token) {
    return options_.ends_answer && options_.ends_answer(token);
  };
  std::vector<Proposal> proposals;
  for (size_t parent = 0; parent < candidates.size(); ++parent) {
    for (const TokenLogProb& candidate : candidates[parent]) {
      // Impossible tokens, and such as may not come yet.
      if (!std::isfinite(candidate.log_prob) || (!may_end && ends(candidate.token))) continue;
      proposals.push_back({static_cast<int>(parent), candidate.token,
                           live_[parent].cumulative_log_prob + candidate.log_prob});
    }
  }
  std::sort(proposals.begin(), proposals.end(), Better);

  std::vector<BeamExtension> extensions;
  std::vector<Beam> next;
  const auto width = static_cast<size_t>(options_.beams.width);
  for (size_t rank = 0; rank < proposals.size() && next.size() < width; ++rank) {
    const Proposal& proposal = proposals[rank];
    const bool is_end = ends(proposal.token);
    if (is_end && rank >= width) continue;
    Beam beam{.tokens = live_[static_cast<size_t>(proposal.parent)].tokens,
              .cumulative_log_prob = proposal.cumulative_log_prob};
    beam.tokens.push_back(proposal.token);
    if (is_end) {
      Keep(std::move(beam), FinishReason::kStop);
    } else {
      next.push_back(std::move(beam));
      extensions.push_back({.parent = proposal.parent, .token = proposal.token});
    }
  }
  // Where nothing may follow a beam, it stays as it is, for Finish to count.
  const bool is_stuck = proposals.empty();
  if (!is_stuck) live_ = std::move(next);
  if (!is_stuck && num_tokens >= static_cast<size_t>(options_.max_tokens)) {
    for (Beam& beam : live_) Keep(std::move(beam), FinishReason::kLength);
    live_.clear();
  }
  is_over_ = is_stuck || !CanImprove();
  if (!is_over_) return extensions;
  if (!is_stuck) live_.clear();
  return {};
}

std::vector<BeamAnswer> BeamSearch::Finish(int count, FinishReason cut_reason) {
  for (Beam& beam : live_) Keep(std::move(beam), cut_reason);
  live_.clear();
  is_over_ = true;
  if (answers_.size() > static_cast<size_t>(std::max(count, 0))) {
    answers_.resize(static_cast<size_t>(std::max(count, 0)));
  }
  return std::exchange(answers_, {});
}

}  // namespace quire
