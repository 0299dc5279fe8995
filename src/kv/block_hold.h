// A block that somebody outside the cache fills: a tier that loads it.
//
//   KvCache::ReserveBlock -> empty -> KvCache::Publish -> findable
//
// Movable; giving it up gives the block back: findable once published, free before. Whoever writes
// its memory does so before Publish, and is done before the hold goes.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "kv/block_pool.h"

namespace quire {

class KvCache;

class BlockHold {
 public:
  BlockHold(BlockHold&& other) noexcept
      : cache_(std::exchange(other.cache_, nullptr)), block_(other.block_) {}
  BlockHold& operator=(BlockHold&& other) noexcept;
  ~BlockHold();

  BlockId block() const { return block_; }

 private:
  friend class KvCache;
  BlockHold(KvCache& cache, BlockId block) : cache_(&cache), block_(block) {}

  KvCache* cache_;  // null in one that was moved from
  BlockId block_;
};

}  // namespace quire
