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
  const auto note_groups = [&](const auto& table_of) {
    for (int group = 0; group < cache.layout().num_groups(); ++group) {
      for (const BlockId id : table_of(group)) {
        if (id != kNoBlock) map.blocks[static_cast<size_t>(id)].group = group;
      }
    }
  };
  cache.index_->ForEach([&](const PrefixIndex::Node& node) {
    note_groups([&](int group) { return std::span(&node.blocks[static_cast<size_t>(group)], 1); });
  });
  for (const BlockTables* tables : cache.registry_) {
    note_groups([&](int group) { return tables->table(group); });
  }
  return map;
}

}  // namespace quire
