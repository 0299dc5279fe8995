// Beam search over log-probabilities: which beams live on, which answers have ended.
//
// Each step, every live beam proposes its 2 * width best tokens; of all proposals, in order of
// their cumulative log-probability (ties: lower beam, then lower token), those that end an answer
// while among the first `width` are kept as answers, and the first `width` others live on. The
// search is over when no live beam can better the worst of `width` answers, when early_stopping and
// there are `width` of them, or at max_tokens. A function of its inputs: nothing is drawn. Score of
// an answer: cumulative log-probability / (its tokens)^length_penalty, the token that ended it
// included (Wu et al. 2016, "Google's Neural Machine Translation System", without the constant).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/request.h"
#include "sampling/log_probs.h"

namespace quire {

struct BeamSearchOptions {
  BeamOptions beams{};
  int max_tokens = 1;  // of an answer
  int min_tokens = 0;  // before these, tokens that end an answer are not taken
  std::function<bool(int32_t)> ends_answer{};
};

// A beam of the next step: the tokens of beam `parent` of this step, and `token`.
struct BeamExtension {
  int parent = 0;
  int32_t token = 0;
};

struct BeamAnswer {
  std::vector<int32_t> tokens{};
  double cumulative_log_prob = 0;
  double score = 0;
  FinishReason finish_reason = FinishReason::kStop;
};

class BeamSearch {
 public:
  // Starts with one live beam, without tokens.
  explicit BeamSearch(const BeamSearchOptions& options);

  int num_live() const { return static_cast<int>(live_.size()); }
  int num_candidates() const { return 2 * options_.beams.width; }

  // candidates [num_live][at most num_candidates]: the best tokens after each live beam, best
  // first. Returns the beams that live on, in order; none when the search is over.
  std::vector<BeamExtension> Advance(std::span<const std::vector<TokenLogProb>> candidates);

  bool is_over() const { return is_over_; }
  // The `count` best, best first; of a search that is over, or cut short here (live beams then
  // count as answers that ended for `cut_reason`).
  std::vector<BeamAnswer> Finish(int count, FinishReason cut_reason);

 private:
  struct Beam {
    std::vector<int32_t> tokens{};
    double cumulative_log_prob = 0;
  };
  double ScoreOf(double cumulative, size_t num_tokens) const;
  // Whether going on may change the `width` best answers.
  bool CanImprove() const;
  void Keep(Beam beam, FinishReason reason);

  BeamSearchOptions options_;
  std::vector<Beam> live_;
  std::vector<BeamAnswer> answers_;  // best first, at most width
  bool is_over_ = false;
};

}  // namespace quire
