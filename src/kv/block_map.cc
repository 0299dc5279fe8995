#include "kv/block_map.h"

#include "kv/prefix_index.h"

namespace quire {

BlockMap MapBlocks(const KvCache& cache) {
  const BlockPool& pool = cache.pool_;
  BlockMap map{.num_blocks = pool.num_blocks()};
  map.blocks.resize(static_cast<size_t>(pool.num_touched()));
  for (BlockId id = 0; id < pool.num_touched(); ++id) {
    MappedBlock& block = map.blocks[static_cast<size_t>(id)];
    block.references = pool.references(id);
    block.changed_ms = pool.changed_ms(id);
    block.state = block.references > 0 ? BlockState::kUsed
                  : pool.is_cached(id) ? BlockState::kCached
                                       : BlockState::kFree;
    if (block.state != BlockState::kFree) block.filled = static_cast<int16_t>(pool.filled(id));
  }
  const int num_groups = cache.layout().num_groups();
  cache.index_->ForEach([&](const PrefixIndex::Node& node) {
    for (int group = 0; group < num_groups; ++group) {
      const BlockId id = node.blocks[static_cast<size_t>(group)];
      if (id == kNoBlock) continue;
      MappedBlock& block = map.blocks[static_cast<size_t>(id)];
      block.group = group;
      if (node.num_tokens == kBlockSlots) block.id = node.id;
    }
  });
  for (const BlockTables* tables : cache.registry_) {
    for (int group = 0; group < num_groups; ++group) {
      for (const BlockId id : tables->table(group)) {
        if (id != kNoBlock) map.blocks[static_cast<size_t>(id)].group = group;
      }
    }
  }
  return map;
}

}  // namespace quire
