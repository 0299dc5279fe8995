// Where keys and values lie inside a block, and how many blocks tokens take.
//
// Layers are parted into groups, each with a block table of its own, so that one pool of equal
// blocks serves layers that remember everything and layers that remember a window. Layers of the
// same window share groups of equal size: the size is the greatest common divisor of the counts, so
// that none is padded in layers (Gemma 3 270M: 3 full and 15 windowed layers are six groups of
// three).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/sha256.h"
#include "tensor/paged_kv_view.h"

namespace quire {

// What one layer stores for a token.
struct KvLayerShape {
  int num_kv_heads = 0;
  int key_dim = 0;
  int value_dim = 0;
  int window = 0;  // keys attended, the token itself included; 0 = all
};

// Layers that follow one block table.
struct KvGroup {
  int window = 0;  // 0 = all
  int num_layers = 0;
  size_t bytes = 0;  // of kBlockSlots tokens, before padding to the largest group

  // First entry of the table that a token at this position reads: those before may be given back.
  int FirstEntryRead(int position) const {
    return window == 0 || position < window ? 0 : (position - window + 1) / kBlockSlots;
  }
};

// Blocks that hold num_tokens slots.
constexpr int BlocksFor(int num_tokens) {
  return static_cast<int>((static_cast<int64_t>(num_tokens) + kBlockSlots - 1) / kBlockSlots);
}

// K then V of each layer of a group, in the model's order, every array 64-byte aligned.
struct KvLayout {
  KvType type = KvType::kF16;
  std::vector<KvLayer> layers;  // [num_layers] in the model's order
  std::vector<KvGroup> groups;  // those without a window first
  size_t block_bytes = 0;       // of the largest group, a multiple of 64
  size_t bytes_per_token = 0;   // over all layers, without padding

  // Fails with kUnsupported, naming the layer, where the type cannot store its heads.
  static Result<KvLayout> Make(std::span<const KvLayerShape> shapes, KvType type);

  int num_groups() const { return static_cast<int>(groups.size()); }

  // Blocks of all groups that a sequence holds while a step computes positions
  // first_position..end_position - 1; after the step (first_position == end_position) what it
  // keeps.
  int64_t BlocksHeld(int first_position, int end_position) const;

  // The most blocks that a sequence of num_tokens entries ever holds, computed in steps of at most
  // `chunk` tokens.
  int64_t PeakBlocks(int num_tokens, int chunk) const;

  // Bytes that num_tokens entries take by the formula: windows capped, no rounding to blocks.
  uint64_t FormulaBytes(int64_t num_tokens) const;

  // Part of the fingerprint: two layouts with the same digest lay a block out alike.
  Digest LayoutDigest() const;
};

}  // namespace quire
