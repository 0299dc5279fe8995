#include "engine/prompt_embedding.h"

#include <cmath>

#include "base/check.h"

namespace quire {

PromptEmbedding::PromptEmbedding(Pooling pooling, int num_tokens, int width)
    : num_tokens_(num_tokens),
      next_position_(pooling == Pooling::kLast ? num_tokens - 1 : 0),
      sum_(static_cast<size_t>(width), 0.0) {}

void PromptEmbedding::Add(std::span<const float> state) {
  QUIRE_CHECK(next_position_ < num_tokens_ && state.size() == sum_.size(),
              "a state of {} numbers for position {} of {}", state.size(), next_position_,
              num_tokens_);
  for (size_t i = 0; i < sum_.size(); ++i) sum_[i] += static_cast<double>(state[i]);
  ++next_position_;
}

Result<std::vector<float>> PromptEmbedding::Finish() const {
  QUIRE_CHECK(next_position_ == num_tokens_, "{} of {} states are there", next_position_,
              num_tokens_);
  // A mean and its sum point the same way.
  double squares = 0;
  for (const double number : sum_) squares += number * number;
  const double length = std::sqrt(squares);
  if (!(length > 0) || !std::isfinite(length)) {
    return MakeError(ErrorCode::kNumeric,
                     "the prompt's hidden states add up to a vector of length {}, which cannot be "
                     "scaled to 1",
                     length);
  }
  std::vector<float> embedding;
  embedding.reserve(sum_.size());
  for (const double number : sum_) embedding.push_back(static_cast<float>(number / length));
  return embedding;
}

}  // namespace quire
