// What is where: block contents by identity, and by what a block may begin with.
//
//   identity -> node { parent, token ids, the block of each group that holds them }
//
// All nodes also stand in one order, by parent and then by token ids as words stand in a
// dictionary:
//
//   parent P   [ 4 4 9 ]          a tail, not filled
//              [ 4 7 1 2 ... ]    <- [ 4 7 1 5 ] would stand here: its neighbours
//              [ 4 7 3 3 ... ]       are those with which it has most in common
//   parent Q   ...
//
// so the child of a parent with the longest common beginning is a neighbour of the place where the
// tokens looked for would stand: a few steps, however many children there are.
//
// Invariants (CheckInvariants):
//   1. A node is kept exactly while it names at least one block.
//   2. A block is named by at most one node, in one group.
//   3. A node's identity is ChildOf(its parent, its token ids).
// Identity alone is never trusted: parent and token ids are compared. Used by one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "kv/block_pool.h"
#include "kv/identity.h"

namespace quire {

// What a block holds: 1 to kBlockSlots tokens that follow a prefix.
struct BlockContent {
  const Digest& id;
  const Digest& parent;
  std::span<const int32_t> tokens;
};

// Whose a content is, and where in its sequence.
struct BlockPlace {
  Digest root{};
  int entry = 0;  // of the table
};

class PrefixIndex {
 public:
  struct Node {
    Digest id{};
    Digest parent{};
    BlockPlace place{};
    int num_tokens = 0;
    std::array<int32_t, kBlockSlots> token_ids{};
    int num_blocks = 0;
    std::vector<BlockId> blocks;  // [num_groups]; kNoBlock where there is none

    std::span<const int32_t> tokens() const {
      return std::span(token_ids).first(static_cast<size_t>(num_tokens));
    }
  };

  // A block whose first tokens are those looked for.
  struct Beginning {
    int num_tokens = 0;
    BlockId block = kNoBlock;
  };

  explicit PrefixIndex(int num_groups) : num_groups_(num_groups) {}
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  // Names a block that has no name. False, and nothing changes, where the group has a block for
  // this content, or the identity stands for another content.
  bool Insert(const BlockContent& content, int group, BlockId block, const BlockPlace& place = {});
  // The block's name is forgotten.
  void Erase(BlockId block);

  // The node of just this content; null where there is none.
  const Node* Find(const BlockContent& content) const;
  // The node that names the block; null where none does.
  const Node* NodeOf(BlockId block) const;

  // Of the group's blocks that follow `parent`, one that has the longest common beginning with
  // `tokens`. Where evictions have left more than kMaxSkipped neighbours on either side without a
  // block in this group, it looks no further.
  Beginning FindBeginning(const Digest& parent, std::span<const int32_t> tokens, int group) const;
  static constexpr int kMaxSkipped = 64;

  // Of the nodes that follow `parent`, one that has the longest common beginning with `tokens`, of
  // equals one that goes on; null where nothing follows it.
  const Node* Nearest(const Digest& parent, std::span<const int32_t> tokens) const;

  size_t num_nodes() const { return nodes_.size(); }
  // Every node, in the index's order.
  template <typename Function>
  void ForEach(Function&& function) const {
    for (const Node* node : in_order_) function(*node);
  }
  size_t num_named() const { return num_named_; }

  // Ends the process when an invariant does not hold.
  void CheckInvariants() const;

 private:
  struct Place {  // where a node stands, or would
    const Digest& parent;
    std::span<const int32_t> tokens;
  };
  struct InOrder {
    using is_transparent = void;
    static bool Less(const Place& a, const Place& b);
    static Place Of(const Node* node) { return {node->parent, node->tokens()}; }
    static Place Of(const Place& place) { return place; }
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return Less(Of(a), Of(b));
    }
  };
  // Part of a digest is as good a hash as any.
  struct DigestHash {
    size_t operator()(const Digest& digest) const {
      size_t hash = 0;
      std::memcpy(&hash, digest.data(), sizeof(hash));
      return hash;
    }
  };

  int num_groups_;
  std::unordered_map<Digest, Node, DigestHash> nodes_;
  std::set<const Node*, InOrder> in_order_;
  std::vector<Node*> node_of_block_;  // [blocks up to the last that was named]
  size_t num_named_ = 0;              // blocks
};

}  // namespace quire
