#include "kv/prefix_match.h"

#include <algorithm>

#include "kv/prefix_walk.h"

namespace quire {
namespace {

// A number of whole entries with which the prefix may end.
struct Candidate {
  int num_whole = 0;
  int min_copied = 0;  // tokens further, the windows need no entry that is missing
};

// The places where a prefix may end, of a walk that has just made a step.
void AddCandidate(const PrefixWalk& walk, std::vector<Candidate>& candidates) {
  if (walk.MayEnd(0)) {
    candidates.clear();  // this one is at least as long as any before
    candidates.push_back({.num_whole = walk.num_entries()});
    return;
  }
  for (int copied = 1; copied < kBlockSlots; ++copied) {
    if (!walk.MayEnd(copied)) continue;
    candidates.push_back({.num_whole = walk.num_entries(), .min_copied = copied});
    return;
  }
}

}  // namespace

FoundPrefix FindPrefix(const PrefixIndex& index, const KvLayout& layout, IdentityChain& chain,
                       std::span<const int32_t> tokens, int max_tokens) {
  FoundPrefix found;
  tokens = tokens.first(std::min(tokens.size(), static_cast<size_t>(std::max(max_tokens, 0))));
  PrefixWalk walk(layout);
  std::vector<Candidate> candidates(1);
  for (size_t entry = 0; (entry + 1) * kBlockSlots <= tokens.size(); ++entry) {
    chain.Extend(tokens.first((entry + 1) * kBlockSlots));
    const PrefixIndex::Node* node =
        index.Find({.id = chain.ids()[entry],
                    .parent = chain.parent(entry),
                    .tokens = tokens.subspan(entry * kBlockSlots, kBlockSlots)});
    const auto has = [node](int group) {
      return node != nullptr && node->blocks[group] != kNoBlock;
    };
    if (!walk.Step(has)) break;
    AddCandidate(walk, candidates);
    found.nodes.push_back(node);
  }
  // The furthest for which enough can be copied. With no whole entry at all nothing needs to be.
  for (size_t i = candidates.size(); i-- > 0;) {
    const Candidate candidate = candidates[i];
    const auto rest = tokens.subspan(candidate.num_whole * kBlockSlots);
    const auto wanted = rest.first(std::min<size_t>(rest.size(), kBlockSlots - 1));
    found.num_whole = candidate.num_whole;
    found.num_copied = static_cast<int>(wanted.size());
    found.sources.clear();
    for (int group = 0; group < layout.num_groups() && found.num_copied > 0; ++group) {
      const PrefixIndex::Beginning beginning =
          index.FindBeginning(chain.parent(candidate.num_whole), wanted, group);
      found.num_copied = std::min(found.num_copied, beginning.num_tokens);
      found.sources.push_back(beginning.block);
    }
    if (found.num_copied >= candidate.min_copied) break;
  }
  if (found.num_copied == 0) found.sources.clear();
  return found;
}

}  // namespace quire
