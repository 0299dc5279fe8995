// Which tokens a draw may choose at all.
#pragma once

#include <cstdint>
#include <span>

#include "sampling/parameters.h"

namespace quire {

struct Masks {
  const SamplingParameters& parameters;  // allowed_token_ids and bad_words
  std::span<const int32_t> output{};     // what bad_words are matched against
  std::span<const int32_t> banned{};     // beside them, for this draw alone
};

// False where every token may be chosen, whatever the output.
bool AnyMasked(const Masks& masks);

// row [vocab_size] becomes `logits` where a token may be chosen and -infinity elsewhere: not among
// the allowed ids, last of a bad word whose other ids the output ends in, or banned. Ids outside
// the vocabulary are passed over. O(vocab_size + ids of the bad words).
void MaskLogits(const Masks& masks, std::span<const float> logits, std::span<float> row);

}  // namespace quire
