// One vector for a whole prompt, out of the final hidden states of its tokens.
//
// States come in ascending position, each once. A mean is summed in double in that order, so it
// does not depend on how the prompt was cut into chunks, nor on what else was in a step.
// Thread-compatible.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "engine/request.h"

namespace quire {

class PromptEmbedding {
 public:
  // width: numbers of a hidden state
  PromptEmbedding(Pooling pooling, int num_tokens, int width);

  // The first position whose state is wanted and has not come; num_tokens when all have. Those
  // before it may be computed again, after a preemption, and are not wanted then.
  int next_position() const { return next_position_; }
  // state [width] of next_position()
  void Add(std::span<const float> state);

  // The vector [width], scaled to length 1, once all states are there. Fails with kNumeric where it
  // has no direction.
  Result<std::vector<float>> Finish() const;

 private:
  int num_tokens_;
  int next_position_;
  std::vector<double> sum_;  // [width]
};

}  // namespace quire
