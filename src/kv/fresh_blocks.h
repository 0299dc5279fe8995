// Which blocks hold what nothing but memory holds yet, in the order in which they came to.
// Every verb takes logarithmic time. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "kv/block_pool.h"

namespace quire {

class FreshBlocks {
 public:
  void Add(BlockId block) {
    if (static_cast<size_t>(block) >= number_of_.size()) number_of_.resize(block + 1, 0);
    Remove(block);
    number_of_[block] = next_;
    blocks_.emplace(next_++, block);
  }
  void Remove(BlockId block) {
    if (!Contains(block)) return;
    blocks_.erase(number_of_[block]);
    number_of_[block] = 0;
  }
  bool Contains(BlockId block) const {
    return static_cast<size_t>(block) < number_of_.size() && number_of_[block] != 0;
  }
  std::optional<BlockId> Oldest() const {
    if (blocks_.empty()) return std::nullopt;
    return blocks_.begin()->second;
  }
  int64_t size() const { return static_cast<int64_t>(blocks_.size()); }

 private:
  uint64_t next_ = 1;
  std::map<uint64_t, BlockId> blocks_;
  std::vector<uint64_t> number_of_;  // [blocks up to the last that was added]; 0 = not among them
};

}  // namespace quire
