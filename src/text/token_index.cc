#include "text/token_index.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace quire {

TokenIndex::TokenIndex(std::span<const std::string> texts)
    : texts_(texts), slots_(std::bit_ceil(texts.size() * 2 + 1), -1) {
  for (size_t id = 0; id < texts.size(); ++id) {
    TokenId& slot = slots_[SlotOf(texts[id])];
    if (slot < 0) slot = static_cast<TokenId>(id);
    longest_bytes_ = std::max(longest_bytes_, texts[id].size());
  }
}

TokenId TokenIndex::Find(std::string_view text) const {
  return text.size() > longest_bytes_ ? -1 : slots_[SlotOf(text)];
}

size_t TokenIndex::SlotOf(std::string_view text) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = std::hash<std::string_view>{}(text)&mask;
  while (slots_[slot] >= 0 && texts_[slots_[slot]] != text) slot = (slot + 1) & mask;
  return slot;
}

}  // namespace quire
