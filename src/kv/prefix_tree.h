// The findable contents as a tree of prefixes, of which every branch is one node: what a person
// wants to see of an index of thousands of blocks.
//
//   ListPrefixes   copies the index out, on the cache's thread: a microsecond for ten contents
//   GrowTree       joins and chooses, on any thread
//
// A content follows the one that its `parent` names. One whose parent is not listed begins a tree:
// the first block of a prompt, or what outlived the block before it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kv/kv_cache.h"

namespace quire {

// A findable content: up to 16 tokens that follow a prefix.
struct PrefixEntry {
  Digest id{};
  Digest parent{};
  int entry = 0;  // of its sequence's table: the first token's position / kBlockSlots
  int num_tokens = 0;
  std::array<int32_t, kBlockSlots> token_ids{};
  int num_blocks = 0;   // of all groups
  int references = 0;   // the most that one of them has
  uint64_t groups = 0;  // bit g: group g has a block; of the first 64

  std::span<const int32_t> tokens() const {
    return std::span(token_ids).first(static_cast<size_t>(num_tokens));
  }
};

// Parents may stand behind their children.
std::vector<PrefixEntry> ListPrefixes(const KvCache& cache);

struct PrefixTree {
  struct Node {
    int parent = -1;             // among the nodes; -1 = begins a tree
    std::vector<int> entries{};  // indices; each but the first is the only one that follows
  };
  std::vector<Node> nodes{};  // a parent before its children
  bool is_truncated = false;  // there are more
};

// At most max_nodes nodes: of those that could come next, the one with the most blocks in it and
// behind it comes first.
PrefixTree GrowTree(std::span<const PrefixEntry> entries, size_t max_nodes);

}  // namespace quire
