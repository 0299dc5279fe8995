#include "sampling/masks.h"

#include <algorithm>
#include <limits>

namespace quire {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

}  // namespace

bool AnyMasked(const Masks& masks) {
  return !masks.banned.empty() || !masks.parameters.allowed_token_ids.empty() ||
         !masks.parameters.bad_words.empty();
}

void MaskLogits(const Masks& masks, std::span<const float> logits, std::span<float> row) {
  const auto is_known = [&](int32_t token) {
    return token >= 0 && static_cast<size_t>(token) < row.size();
  };
  const auto ban = [&](int32_t token) {
    if (is_known(token)) row[static_cast<size_t>(token)] = kMasked;
  };
  const std::vector<int32_t>& allowed = masks.parameters.allowed_token_ids;
  if (allowed.empty()) {
    std::ranges::copy(logits, row.begin());
  } else {
    std::ranges::fill(row, kMasked);
    for (const int32_t token : allowed) {
      if (is_known(token)) row[static_cast<size_t>(token)] = logits[static_cast<size_t>(token)];
    }
  }
  for (const std::vector<int32_t>& word : masks.parameters.bad_words) {
    if (word.empty()) continue;
    const auto beginning = std::span(word).first(word.size() - 1);
    if (beginning.size() > masks.output.size()) continue;
    if (std::ranges::equal(beginning, masks.output.last(beginning.size()))) ban(word.back());
  }
  for (const int32_t token : masks.banned) ban(token);
}

}  // namespace quire
