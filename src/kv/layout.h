// Where keys and values lie inside a block, and what a token costs.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tensor/paged_kv_view.h"

namespace quire {

// What one layer stores for a token.
struct KvLayerShape {
  int num_kv_heads = 0;
  int key_dim = 0;
  int value_dim = 0;
};

// All layers in one group, in their order: K then V of each, every array 64-byte aligned.
struct KvLayout {
  KvType type = KvType::kF16;
  std::vector<KvLayer> layers;
  size_t block_bytes = 0;      // of kBlockSlots tokens, a multiple of 64
  size_t bytes_per_token = 0;  // sum of kv_heads * (key_dim + value_dim) * element bytes

  static KvLayout Make(std::span<const KvLayerShape> shapes, KvType type);
};

}  // namespace quire
