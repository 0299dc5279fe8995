// Every block of the pool as it is at one moment: what a picture of the cache is drawn from.
//
// Plain data, copied out in one pass over the pool, the tables and the index: about ten nanoseconds
// a block. By the cache's thread.
#pragma once

#include <cstdint>
#include <vector>

#include "kv/kv_cache.h"

namespace quire {

enum class BlockState : uint8_t { kFree, kCached, kUsed };

struct MappedBlock {
  BlockState state = BlockState::kFree;
  int16_t filled = 0;      // slots that hold a token
  int32_t references = 0;  // of holders
  int32_t group = -1;      // of layers; -1 where nothing says it
  double changed_ms = 0;   // when it was last taken, or given back by its last holder
  // What tiers know its content by: of a findable block of which all slots are filled; zeros of
  // others.
  Digest id{};

  bool is_whole() const { return id != Digest{}; }
};

struct BlockMap {
  int64_t num_blocks = 0;
  std::vector<MappedBlock> blocks{};  // those that were ever taken; the others are free
};

BlockMap MapBlocks(const KvCache& cache);

}  // namespace quire
