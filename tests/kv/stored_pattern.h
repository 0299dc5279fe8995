// Keys and values that tell whose they are: a number made of all tokens up to the position, the
// root and the layer. Who reads another's slot reads another number.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <vector>

#include "kv/kv_cache.h"

namespace quire {

// Layers with one head of one f32 key and value, of these windows.
inline KvLayout PatternLayout(const std::vector<int>& windows) {
  std::vector<KvLayerShape> shapes;
  for (const int window : windows) shapes.push_back({1, 1, 1, window});
  return KvLayout::Make(shapes, KvType::kF32).value();
}

class StoredPattern {
 public:
  explicit StoredPattern(const KvCache& cache) : cache_(cache) {}

  // What a step that computes positions begin..end - 1 stores.
  void Write(const BlockTables& tables, uint64_t root, std::span<const int32_t> tokens,
             int begin) const {
    const int end = static_cast<int>(tokens.size());
    ForEachSlot(tables, root, tokens, [&](int position, std::byte* slot, uint32_t number) {
      if (position >= begin && position < end) std::memcpy(slot, &number, sizeof(number));
    });
  }

  // What the tables hold is what was computed for just these tokens.
  void Check(const BlockTables& tables, uint64_t root, std::span<const int32_t> tokens) const {
    int num_wrong = 0;
    ForEachSlot(tables, root, tokens, [&](int position, const std::byte* slot, uint32_t number) {
      uint32_t stored = 0;
      std::memcpy(&stored, slot, sizeof(stored));
      if (position < tables.num_tokens() && stored != number) ++num_wrong;
    });
    EXPECT_EQ(num_wrong, 0) << "of " << tables.num_tokens() << " tokens";
  }

 private:
  template <typename Visit>
  void ForEachSlot(const BlockTables& tables, uint64_t root, std::span<const int32_t> tokens,
                   const Visit& visit) const {
    const PagedKvView view = cache_.view();
    uint64_t prefix = root;
    for (int position = 0; position < static_cast<int>(tokens.size()); ++position) {
      prefix = (prefix ^ (tokens[position] + 1)) * 0x9E3779B97F4A7C15u;
      for (size_t layer = 0; layer < view.layers.size(); ++layer) {
        const KvLayer& place = view.layers[layer];
        const auto table = tables.table(place.group);
        const size_t entry = position / kBlockSlots;
        if (entry >= table.size() || table[entry] == kNoBlock) continue;
        const auto number = static_cast<uint32_t>((prefix + layer) >> 20);
        std::byte* block = view.Block(table[entry]);
        const size_t slot = position % kBlockSlots * sizeof(float);
        visit(position, block + place.key_offset + slot, number);
        visit(position, block + place.value_offset + slot, ~number);
      }
    }
  }

  const KvCache& cache_;
};

}  // namespace quire
