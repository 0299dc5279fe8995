// How the forward pass sees the KV cache: plain structs over memory that src/kv owns.
//
// A block holds kBlockSlots consecutive tokens of one group of layers, keys and values. Inside a
// block: [layer of the group][K | V][kv_head][...], and inside a head
//   f16, bf16, f32
//     keys   [key_dim][kBlockSlots]    lanes are tokens: scores need no shuffles
//     values [kBlockSlots][value_dim]  lanes are dimensions: weighted sums need no shuffles
//   q8_0
//     keys   int8 [key_dim / 4][kBlockSlots][4], then scales f16 [key_dim / 32][kBlockSlots]
//     values int8 [value_dim / 32][kBlockSlots / 4][32][4], four slots side by side, then scales
//            f16 [value_dim / 32][kBlockSlots]
// The slot of a token at position p is p % kBlockSlots of entry p / kBlockSlots of its block table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/kv_type.h"

namespace quire {

inline constexpr int kBlockSlots = 16;

// An entry of a block table whose block was given back: every layer's window has left it behind.
inline constexpr int32_t kNoBlock = -1;

// Where one layer's keys and values lie inside a block of its group.
struct KvLayer {
  int group = 0;            // whose block table to follow
  int num_kv_heads = 0;     // heads of keys and values
  int key_dim = 0;          // elements of a key per head
  int value_dim = 0;        // elements of a value per head
  size_t key_offset = 0;    // bytes from the start of the block to the keys of head 0
  size_t value_offset = 0;  // bytes from the start of the block to the values of head 0
};

// Every block of the pool. The memory outlives the view.
struct PagedKvView {
  std::byte* base = nullptr;  // [num_blocks][block_bytes], 64-byte aligned
  size_t block_bytes = 0;     // a multiple of 64
  KvType type = KvType::kF16;
  std::span<const KvLayer> layers;  // [num_layers]

  std::byte* Block(int32_t block_id) const { return base + block_id * block_bytes; }
};

// The rows of one sequence inside a step: num_rows consecutive positions, whose keys and values are
// written during the step, over the tokens already stored. Entries that every window of the group
// has left behind may be kNoBlock.
struct KvSequence {
  int first_row = 0;  // of the step's activation rows
  int num_rows = 0;
  int first_position = 0;                                  // of first_row
  std::span<const std::span<const int32_t>> block_tables;  // [num_groups][ceil(tokens / 16)]
};

}  // namespace quire
