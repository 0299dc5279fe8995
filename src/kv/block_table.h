// The blocks of one sequence, in the order of its positions.
//
// Position p lies in slot p % kBlockSlots of entry p / kBlockSlots. The table holds its blocks:
// they go back to the pool when it shrinks or dies. Move-only; the pool outlives it.
#pragma once

#include <span>
#include <vector>

#include "kv/block_pool.h"

namespace quire {

class BlockTable {
 public:
  explicit BlockTable(BlockPool& pool) : pool_(&pool) {}
  BlockTable(BlockTable&& other) noexcept;
  BlockTable& operator=(BlockTable&& other) noexcept;
  ~BlockTable() { Shrink(0); }

  // Makes room for positions 0..num_tokens - 1, or changes nothing and returns false.
  [[nodiscard]] bool Grow(int num_tokens);
  // Gives back the blocks that positions 0..num_tokens - 1 do not need.
  void Shrink(int num_tokens);

  std::span<const BlockId> blocks() const { return blocks_; }

 private:
  BlockPool* pool_;
  std::vector<BlockId> blocks_;
};

}  // namespace quire
