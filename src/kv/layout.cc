#include "kv/layout.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/bytes.h"

namespace quire {
namespace {

size_t TokenBytes(int heads, int dim, KvType type) {
  return KvBytes(type, static_cast<size_t>(heads) * dim);
}

// Blocks that num_positions consecutive positions touch at the worst alignment.
int64_t BlocksTouched(int64_t num_positions) {
  return num_positions <= 0 ? 0 : (num_positions + kBlockSlots - 2) / kBlockSlots + 1;
}

}  // namespace

Result<KvLayout> KvLayout::Make(std::span<const KvLayerShape> shapes, KvType type) {
  std::map<int, int> layers_of_window;  // 0, the full layers, comes first
  for (size_t i = 0; i < shapes.size(); ++i) {
    for (const int dim : {shapes[i].key_dim, shapes[i].value_dim}) {
      if (CanStore(type, dim)) continue;
      return MakeError(ErrorCode::kUnsupported,
                       "layer {} has heads of {} elements; {} stores multiples of {}; f16, bf16 "
                       "and f32 store any",
                       i, dim, NameOf(type), kKvScaleGroup);
    }
    ++layers_of_window[shapes[i].window];
  }
  int group_layers = 0;
  for (const auto& [window, count] : layers_of_window) group_layers = std::gcd(group_layers, count);

  KvLayout layout{.type = type, .layers = {}, .groups = {}};
  std::map<int, int> open_group;  // of each window
  for (const KvLayerShape& shape : shapes) {
    auto [open, is_new] = open_group.try_emplace(shape.window, -1);
    if (is_new || layout.groups[open->second].num_layers == group_layers) {
      open->second = layout.num_groups();
      layout.groups.push_back({.window = shape.window});
    }
    KvGroup& group = layout.groups[open->second];
    KvLayer layer{.group = open->second,
                  .num_kv_heads = shape.num_kv_heads,
                  .key_dim = shape.key_dim,
                  .value_dim = shape.value_dim};
    for (auto [dim, offset] : {std::pair{shape.key_dim, &layer.key_offset},
                               std::pair{shape.value_dim, &layer.value_offset}}) {
      const size_t token_bytes = TokenBytes(shape.num_kv_heads, dim, type);
      *offset = group.bytes;
      group.bytes += AlignUp(token_bytes * kBlockSlots, 64);
      layout.bytes_per_token += token_bytes;
    }
    ++group.num_layers;
    layout.block_bytes = std::max(layout.block_bytes, group.bytes);
    layout.layers.push_back(layer);
  }
  // Groups in the order of their windows, so that a full one comes first.
  std::vector<int> order(layout.groups.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {},
                    [&](int group) { return std::pair(layout.groups[group].window, group); });
  std::vector<KvGroup> groups;
  std::vector<int> place(order.size());
  for (const int group : order) {
    place[group] = static_cast<int>(groups.size());
    groups.push_back(layout.groups[group]);
  }
  layout.groups = std::move(groups);
  for (KvLayer& layer : layout.layers) layer.group = place[layer.group];
  return layout;
}

int64_t KvLayout::BlocksHeld(int first_position, int end_position) const {
  int64_t blocks = 0;
  for (const KvGroup& group : groups) {
    blocks += std::max(0, BlocksFor(end_position) - group.FirstEntryRead(first_position));
  }
  return blocks;
}

int64_t KvLayout::PeakBlocks(int num_tokens, int chunk) const {
  int64_t blocks = 0;
  for (const KvGroup& group : groups) {
    const int64_t all = BlocksFor(num_tokens);
    blocks += group.window == 0
                  ? all
                  : std::min(all, BlocksTouched(int64_t{group.window} - 1 + std::max(chunk, 1)));
  }
  return blocks;
}

uint64_t KvLayout::FormulaBytes(int64_t num_tokens) const {
  uint64_t bytes = 0;
  for (const KvLayer& layer : layers) {
    const int window = groups[layer.group].window;
    const uint64_t kept = window > 0 ? std::min<int64_t>(window, num_tokens) : num_tokens;
    bytes += kept * (TokenBytes(layer.num_kv_heads, layer.key_dim, type) +
                     TokenBytes(layer.num_kv_heads, layer.value_dim, type));
  }
  return bytes;
}

Digest KvLayout::LayoutDigest() const {
  Sha256 hash;
  hash.Add("quire kv layout 1").Add(static_cast<uint64_t>(kBlockSlots));
  hash.Add(NameOf(type)).Add(static_cast<uint64_t>(block_bytes));
  hash.Add(static_cast<uint64_t>(layers.size()));
  for (const KvLayer& layer : layers) {
    for (const size_t value :
         {static_cast<size_t>(layer.group), static_cast<size_t>(layer.num_kv_heads),
          static_cast<size_t>(layer.key_dim), static_cast<size_t>(layer.value_dim),
          layer.key_offset, layer.value_offset}) {
      hash.Add(static_cast<uint64_t>(value));
    }
  }
  hash.Add(static_cast<uint64_t>(groups.size()));
  for (const KvGroup& group : groups) hash.Add(static_cast<uint64_t>(group.window));
  return hash.Finish();
}

}  // namespace quire
