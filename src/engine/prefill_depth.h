// What a prompt's token costs by its position, from the steps that ran: token_ms + p * depth_ms.
//
// Attention reads every entry before a token, all else costs the same anywhere, so the mean token
// of a step costs token_ms + (mean position) * depth_ms, exactly. Two things are estimated apart,
// because they change for different reasons:
//
//   shape = depth_ms / token_ms   The model's and the machine's: the last kShapeSteps steps tell.
//           Each pair of steps gives the one that explains both; it is their median, weighted by
//           how far apart they lie. After Theil and Sen, whose estimator stands a quarter of wild
//           steps. A pair is free of scale, so that a machine of half the speed leaves it alone;
//           only steps that came shortly after one another are paired, so that few pairs
//           straddle such a change.
//   level = token_ms              What the machine gives at present: the median of the last
//           kLevelSteps steps, each as one at position 0. One slow step moves nothing, a lasting
//           change is followed within half as many.
#pragma once

#include <vector>

#include "plan/load_plan.h"

namespace quire {

// Thread-compatible.
class PrefillDepth {
 public:
  static constexpr int kShapeSteps = 64;
  static constexpr int kLevelSteps = 9;
  static constexpr int kPairedSteps = 16;        // at most so many apart in time
  static constexpr double kLeastDistance = 128;  // in positions; nearer ones tell noise
  static constexpr int kLeastPairs = 6;          // of fewer the shape is 0

  // The tokens of a step, at mean_position >= 0, took so long each. Both are finite, and the latter
  // is above 0.
  void Observe(double mean_position, double token_ms);

  // Nothing known before the first step; depth_ms is 0 until steps at several depths were seen.
  const PrefillCost& cost() const { return cost_; }

 private:
  struct Step {
    double position = 0;
    double token_ms = 0;
  };

  // The i-th newest.
  const Step& Last(int i) const {
    return steps_[(next_ + static_cast<int>(steps_.size()) - 1 - i) % steps_.size()];
  }
  double Shape() const;
  double Level(double shape) const;

  std::vector<Step> steps_;  // a ring
  int next_ = 0;             // where the next one goes; the oldest, once the ring is full
  PrefillCost cost_{};
};

}  // namespace quire
