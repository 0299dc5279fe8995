#include "sampling/token_counts.h"

namespace quire {

void TokenCounts::AddPrompt(std::span<const int32_t> tokens) {
  for (const int32_t token : tokens) counts_[token].in_prompt = true;
}

void TokenCounts::AddOutput(int32_t token) { ++counts_[token].in_output; }

}  // namespace quire
