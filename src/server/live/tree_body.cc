#include "server/live/tree_body.h"

#include <algorithm>
#include <vector>

#include "base/utf8.h"
#include "kv/tiers/tier_set.h"
#include "server/openai/json_writer.h"
#include "server/routes/quire_routes.h"

namespace quire {
namespace {

constexpr int kMaxCharacters = 80;

// What the node's blocks come to.
struct NodeSum {
  int num_tokens = 0;
  int64_t num_blocks = 0;
  int references = 0;
  std::vector<int32_t> first_tokens{};
};

NodeSum SumOf(const PrefixTree::Node& node, std::span<const PrefixEntry> entries) {
  NodeSum sum;
  for (const int idx : node.entries) {
    const PrefixEntry& entry = entries[static_cast<size_t>(idx)];
    sum.num_tokens += entry.num_tokens;
    sum.num_blocks += entry.num_blocks;
    sum.references = std::max(sum.references, entry.references);
    // A token is a byte at least, mostly: more of them are not needed.
    if (sum.first_tokens.size() < kMaxCharacters) {
      const auto tokens = entry.tokens();
      sum.first_tokens.insert(sum.first_tokens.end(), tokens.begin(), tokens.end());
    }
  }
  return sum;
}

bool HoldsAll(const Tier& tier, const PrefixTree::Node& node,
              std::span<const PrefixEntry> entries) {
  bool has_whole = false;
  for (const int idx : node.entries) {
    const PrefixEntry& entry = entries[static_cast<size_t>(idx)];
    if (entry.num_tokens < kBlockSlots) continue;  // tiers hold whole blocks
    for (int group = 0; group < 64; ++group) {
      if ((entry.groups >> group & 1) == 0) continue;
      has_whole = true;
      if (!tier.MayHold({.id = entry.id, .group = group})) return false;
    }
  }
  return has_whole;
}

void WriteTiers(const PrefixTree::Node& node, std::span<const PrefixEntry> entries,
                const TierSet* tiers, JsonWriter& json) {
  json.Key("tiers");
  json.BeginArray();
  json.String("memory");
  for (int i = 0; tiers != nullptr && i < tiers->num_tiers(); ++i) {
    const Tier& tier = tiers->tier(i);
    if (tier.KnowsAll() && HoldsAll(tier, node, entries)) json.String(NameOf(tier.kind()));
  }
  json.EndArray();
}

}  // namespace

std::string BeginningOf(std::span<const int32_t> tokens, const Tokenizer& tokenizer,
                        int max_characters) {
  std::string bytes;
  // A character has four bytes at most.
  for (size_t i = 0; i < tokens.size() && bytes.size() < 4 * size_t(max_characters); ++i) {
    bytes += tokenizer.TokenBytes(tokens[i], /*with_control=*/true);
  }
  const std::string text = RepairUtf8(bytes);
  size_t end = 0;
  for (int count = 0; count < max_characters && end < text.size(); ++count) {
    end += static_cast<size_t>(FirstCharacter(std::string_view(text).substr(end)).num_bytes);
  }
  return text.substr(0, end);
}

std::string TreeBody(std::span<const PrefixEntry> entries, size_t max_nodes,
                     const Tokenizer& tokenizer, const TierSet* tiers) {
  const PrefixTree tree = GrowTree(entries, max_nodes);
  std::string body;
  JsonWriter json(body);
  json.BeginObject();
  json.Key("version");
  json.Int(kQuireVersion);
  json.Key("nodes");
  json.BeginArray();
  for (size_t i = 0; i < tree.nodes.size(); ++i) {
    const PrefixTree::Node& node = tree.nodes[i];
    const NodeSum sum = SumOf(node, entries);
    json.BeginObject();
    json.Key("id");
    json.Int(static_cast<int64_t>(i));
    json.Key("parent");
    json.Int(node.parent);
    json.Key("position");
    json.Int(int64_t{entries[static_cast<size_t>(node.entries.front())].entry} * kBlockSlots);
    json.Key("tokens");
    json.Int(sum.num_tokens);
    json.Key("text");
    json.String(BeginningOf(sum.first_tokens, tokenizer, kMaxCharacters));
    json.Key("blocks");
    json.Int(sum.num_blocks);
    json.Key("used");
    json.Bool(sum.references > 0);
    json.Key("references");
    json.Int(sum.references);
    WriteTiers(node, entries, tiers, json);
    json.EndObject();
  }
  json.EndArray();
  json.Key("truncated");
  json.Bool(tree.is_truncated);
  json.EndObject();
  return body;
}

}  // namespace quire
