// One line of tokens and how far its keys and values have come.
//
// Invariants:
//   1. 0 <= num_computed() <= tokens().size(): the cache holds entries for exactly the first
//      num_computed() tokens. A sampled token has no entry until it is fed.
//   2. The block table covers at least num_computed() positions.
// Move-only; the block pool outlives it. Used by one thread at a time.
#pragma once

#include <span>
#include <vector>

#include "base/check.h"
#include "kv/block_table.h"

namespace quire {

class Sequence {
 public:
  explicit Sequence(BlockPool& pool) : table_(pool) {}

  std::span<const int32_t> tokens() const { return tokens_; }
  int num_tokens() const { return static_cast<int>(tokens_.size()); }
  int num_computed() const { return num_computed_; }
  const BlockTable& table() const { return table_; }

  void Append(int32_t token) { tokens_.push_back(token); }

  // Becomes these tokens; the entries of the longest common beginning stay.
  void SetTokens(std::span<const int32_t> tokens) {
    size_t common = 0;
    while (common < tokens.size() && common < tokens_.size() && tokens[common] == tokens_[common]) {
      ++common;
    }
    tokens_.assign(tokens.begin(), tokens.end());
    Forget(static_cast<int>(common));
  }

  // Drops the entries from position `num_kept` on; the tokens stay and are computed again.
  void Forget(int num_kept) {
    if (num_kept >= num_computed_) return;
    num_computed_ = num_kept;
    table_.Shrink(num_kept);
  }

  // Makes room for the entries of the next num_new tokens, or returns false.
  [[nodiscard]] bool Reserve(int num_new) { return table_.Grow(num_computed_ + num_new); }
  // The entries of the next num_new tokens are in their slots.
  void Commit(int num_new) {
    num_computed_ += num_new;
    QUIRE_CHECK(num_computed_ <= num_tokens(), "{} entries of {} tokens", num_computed_,
                num_tokens());
  }

 private:
  std::vector<int32_t> tokens_;
  int num_computed_ = 0;
  BlockTable table_;
};

}  // namespace quire
