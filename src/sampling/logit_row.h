// The best token of a row of logits, and whether the row can be sampled from at all.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"

namespace quire {

// The token with the highest logit, ties to the lowest id, in one pass. Fails with kNumeric for a
// NaN, for +infinity and where every logit is -infinity (masked), and with kUnsupported for an
// empty row or one longer than kMaxVocabSize.
Result<int32_t> BestToken(std::span<const float> logits);

}  // namespace quire
