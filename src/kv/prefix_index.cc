#include "kv/prefix_index.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace quire {
namespace {

int CommonBeginning(std::span<const int32_t> a, std::span<const int32_t> b) {
  return static_cast<int>(std::ranges::mismatch(a, b).in1 - a.begin());
}

bool IsContent(const PrefixIndex::Node& node, const BlockContent& content) {
  return node.parent == content.parent && std::ranges::equal(node.tokens(), content.tokens);
}

}  // namespace

bool PrefixIndex::InOrder::Less(const Place& a, const Place& b) {
  const int order = std::memcmp(a.parent.data(), b.parent.data(), a.parent.size());
  return order != 0 ? order < 0 : std::ranges::lexicographical_compare(a.tokens, b.tokens);
}

bool PrefixIndex::Insert(const BlockContent& content, int group, BlockId block,
                         const BlockPlace& place) {
  QUIRE_CHECK(NodeOf(block) == nullptr, "block {} has a name", block);
  QUIRE_CHECK(!content.tokens.empty() && content.tokens.size() <= kBlockSlots);
  auto found = nodes_.find(content.id);
  if (found != nodes_.end()) {
    if (!IsContent(found->second, content) || found->second.blocks[group] != kNoBlock) return false;
  } else {
    if (in_order_.contains(Place{content.parent, content.tokens})) return false;
    Node node{.id = content.id,
              .parent = content.parent,
              .place = place,
              .num_tokens = static_cast<int>(content.tokens.size()),
              .blocks = std::vector<BlockId>(num_groups_, kNoBlock)};
    std::ranges::copy(content.tokens, node.token_ids.begin());
    found = nodes_.emplace(content.id, std::move(node)).first;
    in_order_.insert(&found->second);
  }
  Node& node = found->second;
  node.blocks[group] = block;
  ++node.num_blocks;
  ++num_named_;
  if (node_of_block_.size() <= static_cast<size_t>(block)) node_of_block_.resize(block + 1);
  node_of_block_[block] = &node;
  return true;
}

void PrefixIndex::Erase(BlockId block) {
  QUIRE_CHECK(NodeOf(block) != nullptr, "block {} has no name", block);
  Node& node = *node_of_block_[block];
  *std::ranges::find(node.blocks, block) = kNoBlock;
  node_of_block_[block] = nullptr;
  --num_named_;
  if (--node.num_blocks > 0) return;
  in_order_.erase(&node);
  nodes_.erase(nodes_.find(node.id));
}

const PrefixIndex::Node* PrefixIndex::Find(const BlockContent& content) const {
  const auto found = nodes_.find(content.id);
  return found != nodes_.end() && IsContent(found->second, content) ? &found->second : nullptr;
}

const PrefixIndex::Node* PrefixIndex::NodeOf(BlockId block) const {
  const auto idx = static_cast<size_t>(block);
  return idx < node_of_block_.size() ? node_of_block_[idx] : nullptr;
}

PrefixIndex::Beginning PrefixIndex::FindBeginning(const Digest& parent,
                                                  std::span<const int32_t> tokens,
                                                  int group) const {
  Beginning best;
  // Going away from the place, less and less is in common: the first with a block is the best of
  // its side. False when the side is done.
  const auto look_at = [&](const Node* node) {
    if (node->parent != parent) return false;
    const int common = CommonBeginning(node->tokens(), tokens);
    if (common <= best.num_tokens) return false;
    if (node->blocks[group] == kNoBlock) return true;
    best = {common, node->blocks[group]};
    return false;
  };
  const auto place = in_order_.lower_bound(Place{parent, tokens});
  auto after = place;
  for (int i = 0; i <= kMaxSkipped && after != in_order_.end() && look_at(*after); ++i) ++after;
  auto before = place;
  for (int i = 0; i <= kMaxSkipped && before != in_order_.begin() && look_at(*--before); ++i) {
  }
  return best;
}

const PrefixIndex::Node* PrefixIndex::Nearest(const Digest& parent,
                                              std::span<const int32_t> tokens) const {
  const Node* nearest = nullptr;
  int most = -1;
  const auto look_at = [&](const Node* node) {
    if (node->parent != parent) return;
    const int common = CommonBeginning(node->tokens(), tokens);
    if (common < most || (common == most && nearest->num_tokens > common)) return;
    nearest = node;
    most = common;
  };
  const auto after = in_order_.lower_bound(Place{parent, tokens});
  if (after != in_order_.end()) look_at(*after);
  if (after != in_order_.begin()) look_at(*std::prev(after));
  return nearest;
}

void PrefixIndex::CheckInvariants() const {
  QUIRE_CHECK(nodes_.size() == in_order_.size(), "{} nodes, {} in order", nodes_.size(),
              in_order_.size());
  size_t num_named = 0;
  for (const auto& [id, node] : nodes_) {
    QUIRE_CHECK(id == node.id && ChildOf(node.parent, node.tokens()) == id,
                "a node stands under {}, which is not its identity", ToHex(id));
    const auto place = in_order_.find(&node);
    QUIRE_CHECK(place != in_order_.end() && *place == &node, "{} is out of order", ToHex(id));
    int num_blocks = 0;
    for (const BlockId block : node.blocks) {
      if (block == kNoBlock) continue;
      QUIRE_CHECK(NodeOf(block) == &node, "block {} has another name", block);
      ++num_blocks;
    }
    QUIRE_CHECK(num_blocks > 0 && num_blocks == node.num_blocks, "{} names {} blocks, counted {}",
                ToHex(id), num_blocks, node.num_blocks);
    num_named += num_blocks;
  }
  const auto unnamed = std::ranges::count(node_of_block_, nullptr);
  QUIRE_CHECK(num_named == num_named_ && node_of_block_.size() - unnamed == num_named_,
              "{} blocks named, {} counted", num_named, num_named_);
}

}  // namespace quire
