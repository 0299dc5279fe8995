// From a token's exact text to its id: an open-addressing hash table over a vocabulary's texts.
//
// Invariants: the indexed texts outlive the index and do not move; at most half the slots are
// taken, so a search ends. Of two tokens with one text the first is found. Const after creation.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace quire {

class TokenIndex {
 public:
  explicit TokenIndex(std::span<const std::string> texts);

  TokenId Find(std::string_view text) const;  // -1: no such token
  size_t longest_bytes() const { return longest_bytes_; }

 private:
  size_t SlotOf(std::string_view text) const;  // where it is, or the free slot where it would be

  std::span<const std::string> texts_;
  std::vector<TokenId> slots_;  // -1: free
  size_t longest_bytes_ = 0;
};

}  // namespace quire
