// The body of GET /quire/blocks: the pool, block by block.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "kv/block_map.h"

namespace quire {

class TierSet;

struct OwnedBlocks {
  BlockMap map{};
  std::vector<RequestId> requests{};  // [map.blocks] that hold the block; 0 = none does
};

// On the engine's thread. Of several requests that hold a block the first counts.
OwnedBlocks MapOwnedBlocks(const Engine& engine);

// now_ms: in the time that blocks remember their changes with. tiers: null without; asked only for
// what they know without waiting. Any thread.
std::string BlockBody(const OwnedBlocks& blocks, const KvLayout& layout, double now_ms,
                      const TierSet* tiers);

}  // namespace quire
