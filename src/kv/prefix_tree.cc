#include "kv/prefix_tree.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <queue>
#include <unordered_map>
#include <utility>

#include "kv/prefix_index.h"

namespace quire {
namespace {

struct DigestHash {
  size_t operator()(const Digest& digest) const {
    size_t hash = 0;
    std::memcpy(&hash, digest.data(), sizeof(hash));
    return hash;
  }
};

// Who follows whom, by index among the entries.
struct Kinship {
  std::vector<std::vector<int>> children{};
  std::vector<int> firsts{};      // that follow nothing listed
  std::vector<int64_t> blocks{};  // in the entry and all behind it
};

Kinship FindKinship(std::span<const PrefixEntry> entries) {
  Kinship kin;
  const int count = static_cast<int>(entries.size());
  std::unordered_map<Digest, int, DigestHash> by_id;
  by_id.reserve(entries.size());
  for (int i = 0; i < count; ++i) by_id.emplace(entries[i].id, i);
  kin.children.resize(entries.size());
  std::vector<int> parents(entries.size(), -1);
  for (int i = 0; i < count; ++i) {
    const auto found = by_id.find(entries[i].parent);
    // A place before its own rules out a circle, whatever the identities say.
    const bool follows = found != by_id.end() && entries[found->second].entry < entries[i].entry;
    if (follows) parents[i] = found->second;
    (follows ? kin.children[found->second] : kin.firsts).push_back(i);
  }
  std::vector<int> deepest_first(entries.size());
  std::iota(deepest_first.begin(), deepest_first.end(), 0);
  std::ranges::sort(deepest_first, std::ranges::greater(), [&](int i) { return entries[i].entry; });
  kin.blocks.resize(entries.size());
  for (const int i : deepest_first) {
    kin.blocks[i] += entries[i].num_blocks;
    if (parents[i] >= 0) kin.blocks[parents[i]] += kin.blocks[i];
  }
  return kin;
}

}  // namespace

std::vector<PrefixEntry> ListPrefixes(const KvCache& cache) {
  std::vector<PrefixEntry> entries;
  entries.reserve(cache.index_->num_nodes());
  cache.index_->ForEach([&](const PrefixIndex::Node& node) {
    PrefixEntry& entry = entries.emplace_back();
    entry.id = node.id;
    entry.parent = node.parent;
    entry.entry = node.place.entry;
    entry.num_tokens = node.num_tokens;
    entry.token_ids = node.token_ids;
    entry.num_blocks = node.num_blocks;
    for (size_t group = 0; group < node.blocks.size(); ++group) {
      const BlockId block = node.blocks[group];
      if (block == kNoBlock) continue;
      entry.references = std::max(entry.references, cache.pool_.references(block));
      if (group < 64) entry.groups |= uint64_t{1} << group;
    }
  });
  return entries;
}

PrefixTree GrowTree(std::span<const PrefixEntry> entries, size_t max_nodes) {
  const Kinship kin = FindKinship(entries);
  struct Bud {
    int64_t blocks;
    int entry;
    int parent;  // node
    // The most blocks first; of equals the first listed.
    bool operator<(const Bud& other) const {
      return std::pair(blocks, -entry) < std::pair(other.blocks, -other.entry);
    }
  };
  std::priority_queue<Bud> buds;
  for (const int first : kin.firsts) buds.push({kin.blocks[first], first, -1});
  PrefixTree tree;
  while (!buds.empty() && tree.nodes.size() < max_nodes) {
    const Bud bud = buds.top();
    buds.pop();
    PrefixTree::Node node{.parent = bud.parent, .entries = {bud.entry}};
    while (kin.children[node.entries.back()].size() == 1) {
      node.entries.push_back(kin.children[node.entries.back()].front());
    }
    const int node_idx = static_cast<int>(tree.nodes.size());
    for (const int child : kin.children[node.entries.back()]) {
      buds.push({kin.blocks[child], child, node_idx});
    }
    tree.nodes.push_back(std::move(node));
  }
  tree.is_truncated = !buds.empty();
  return tree;
}

}  // namespace quire
