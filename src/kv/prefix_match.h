// How much of a prompt the cache holds: the walk through the index.
//
// A prefix of L entries can be taken over when a step that computes position L finds what it reads:
//
//   a full group      blocks of all entries 0..L
//   a windowed group  blocks of the entries that the window before L touches
//
// and where L lies inside a block, blocks (one a group, to be copied) that follow the same prefix
// and begin with the same tokens. The walk follows identities as far as every full group has
// blocks, over entries that windowed groups no longer have, and keeps the longest L on the way.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/prefix_index.h"

namespace quire {

// Plain data, true until the index next changes.
struct FoundPrefix {
  int num_whole = 0;   // entries of the tables that are taken over as they are
  int num_copied = 0;  // tokens after them, out of `sources`: 0..15
  std::vector<const PrefixIndex::Node*> nodes{};  // [num_whole or more]; null: no group needs it
  std::vector<BlockId> sources{};                 // [num_groups]; empty without copied tokens

  int num_tokens() const { return num_whole * kBlockSlots + num_copied; }
};

// The longest, of at most max_tokens. Extends the chain as far as it looks.
FoundPrefix FindPrefix(const PrefixIndex& index, const KvLayout& layout, IdentityChain& chain,
                       std::span<const int32_t> tokens, int max_tokens);

}  // namespace quire
