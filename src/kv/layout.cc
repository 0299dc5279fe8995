#include "kv/layout.h"

#include "base/bytes.h"

namespace quire {

KvLayout KvLayout::Make(std::span<const KvLayerShape> shapes, KvType type) {
  KvLayout layout{.type = type, .layers = {}};
  const auto take = [&](int heads, int dim) {
    const size_t offset = layout.block_bytes;
    const size_t token_bytes = static_cast<size_t>(heads) * dim * ElementBytes(type);
    layout.bytes_per_token += token_bytes;
    layout.block_bytes += AlignUp(token_bytes * kBlockSlots, 64);
    return offset;
  };
  for (const KvLayerShape& shape : shapes) {
    KvLayer layer{
        .num_kv_heads = shape.num_kv_heads, .key_dim = shape.key_dim, .value_dim = shape.value_dim};
    layer.key_offset = take(shape.num_kv_heads, shape.key_dim);
    layer.value_offset = take(shape.num_kv_heads, shape.value_dim);
    layout.layers.push_back(layer);
  }
  return layout;
}

}  // namespace quire
