#include "engine/prefill_depth.h"

#include <algorithm>
#include <cmath>

namespace quire {
namespace {

// Of a pair where the deeper step costs more than in proportion to its position, so that nothing is
// left for position 0. Far beyond what a model can have.
constexpr double kSteepest = 1;

struct PairShape {
  double shape = 0;
  double weight = 0;
};

double WeightedMedian(std::vector<PairShape>& pairs) {
  std::ranges::sort(pairs, {}, &PairShape::shape);
  double left = 0;
  for (const PairShape& pair : pairs) left += pair.weight / 2;
  for (const PairShape& pair : pairs) {
    left -= pair.weight;
    if (left <= 0) return pair.shape;
  }
  return pairs.back().shape;
}

}  // namespace

void PrefillDepth::Observe(double mean_position, double token_ms) {
  if (static_cast<int>(steps_.size()) < kShapeSteps) {
    steps_.push_back({mean_position, token_ms});
    next_ = static_cast<int>(steps_.size()) % kShapeSteps;
  } else {
    steps_[next_] = {mean_position, token_ms};
    next_ = (next_ + 1) % kShapeSteps;
  }
  const double shape = Shape();
  cost_.token_ms = Level(shape);
  cost_.depth_ms = shape * cost_.token_ms;
}

double PrefillDepth::Shape() const {
  std::vector<PairShape> pairs;
  const int num_steps = static_cast<int>(steps_.size());
  for (int i = 0; i < num_steps; ++i) {
    for (int k = i + 1; k < std::min(num_steps, i + 1 + kPairedSteps); ++k) {
      const bool in_order = Last(i).position < Last(k).position;
      const Step& low = in_order ? Last(i) : Last(k);
      const Step& high = in_order ? Last(k) : Last(i);
      const double distance = high.position - low.position;
      if (distance < kLeastDistance) continue;
      // low = a (1 + s p), high = a (1 + s q)  =>  s = (high - low) / (low q - high p)
      const double rest = low.token_ms * high.position - high.token_ms * low.position;
      const double rise = high.token_ms - low.token_ms;
      pairs.push_back({rest > 0 ? std::min(rise / rest, kSteepest) : kSteepest, distance});
    }
  }
  if (static_cast<int>(pairs.size()) < kLeastPairs) return 0;
  return std::max(WeightedMedian(pairs), 0.);
}

double PrefillDepth::Level(double shape) const {
  std::vector<double> levels;
  const int num_steps = std::min<int>(static_cast<int>(steps_.size()), kLevelSteps);
  for (int i = 0; i < num_steps; ++i) {
    levels.push_back(Last(i).token_ms / (1 + shape * Last(i).position));
  }
  // Of an even number the lower one: the first steps are the ones that fault pages in.
  const auto middle = levels.begin() + (num_steps - 1) / 2;
  std::ranges::nth_element(levels, middle);
  return *middle;
}

}  // namespace quire
