// The memory of the KV cache: equal blocks, handed out and taken back one by one.
//
// Owns the arena: address space for all blocks, committed when a block is first written. Blocks are
// held through BlockTable (kv/block_table.h), so forgetting to give one back cannot happen.
//
// Invariants:
//   1. A block is either free or held by exactly one holder.
//   2. num_free() + num_used() == num_blocks().
// Used by one thread at a time; the memory of held blocks may be read and written by many.
#pragma once

#include <optional>
#include <vector>

#include "base/huge_buffer.h"
#include "kv/layout.h"

namespace quire {

using BlockId = int32_t;

class BlockPool {
 public:
  static Result<BlockPool> Create(KvLayout layout, int num_blocks);

  // Nothing when no block is free. The block last given back comes first: its memory is committed.
  std::optional<BlockId> Take();
  void Return(BlockId block);

  int num_blocks() const { return static_cast<int>(used_.size()); }
  int num_free() const { return num_blocks() - num_touched_ + static_cast<int>(returned_.size()); }
  int num_used() const { return num_blocks() - num_free(); }
  const KvLayout& layout() const { return layout_; }
  PagedKvView view() const;

  // Ends the process when an invariant does not hold.
  void CheckInvariants() const;

 private:
  BlockPool(KvLayout layout, HugeBuffer arena, int num_blocks);

  KvLayout layout_;
  HugeBuffer arena_;  // [num_blocks][block_bytes]
  // Free blocks are those given back, the next one last, and those never taken: from num_touched_
  // on. So a pool costs no memory for blocks that nobody has asked for.
  std::vector<BlockId> returned_;
  int num_touched_ = 0;
  std::vector<bool> used_;  // [num_blocks]
};

}  // namespace quire
