#include "kv/prefix_match.h"

#include <algorithm>

namespace quire {
namespace {

// A number of whole entries with which the prefix may end.
struct Candidate {
  int num_whole = 0;
  int min_copied = 0;  // tokens further, the windows need no entry that is missing
};

class Walk {
 public:
  explicit Walk(const KvLayout& layout)
      : layout_(layout), run_begins_(layout.groups.size(), 0), candidates_(1) {}

  // Goes on over the next entry. False where a full group has no block there.
  bool Step(const PrefixIndex::Node* node) {
    for (size_t group = 0; group < run_begins_.size(); ++group) {
      if (node != nullptr && node->blocks[group] != kNoBlock) continue;
      if (layout_.groups[group].window == 0) return false;
      run_begins_[group] = num_whole_ + 1;
    }
    ++num_whole_;
    if (WindowsAreThere(0)) {
      candidates_.clear();  // this one is at least as long as any before
      candidates_.push_back({.num_whole = num_whole_});
      return true;
    }
    for (int copied = 1; copied < kBlockSlots; ++copied) {
      if (!WindowsAreThere(copied)) continue;
      candidates_.push_back({.num_whole = num_whole_, .min_copied = copied});
      break;
    }
    return true;
  }

  std::span<const Candidate> candidates() const { return candidates_; }

 private:
  bool WindowsAreThere(int num_copied) const {
    for (size_t group = 0; group < run_begins_.size(); ++group) {
      const int position = num_whole_ * kBlockSlots + num_copied;
      if (run_begins_[group] > layout_.groups[group].FirstEntryRead(position)) return false;
    }
    return true;
  }

  const KvLayout& layout_;
  int num_whole_ = 0;
  std::vector<int> run_begins_;  // [num_groups] blocks are there from this entry to the last
  std::vector<Candidate> candidates_;
};

}  // namespace

FoundPrefix FindPrefix(const PrefixIndex& index, const KvLayout& layout, IdentityChain& chain,
                       std::span<const int32_t> tokens, int max_tokens) {
  FoundPrefix found;
  tokens = tokens.first(std::min(tokens.size(), static_cast<size_t>(std::max(max_tokens, 0))));
  Walk walk(layout);
  for (size_t entry = 0; (entry + 1) * kBlockSlots <= tokens.size(); ++entry) {
    chain.Extend(tokens.first((entry + 1) * kBlockSlots));
    const PrefixIndex::Node* node =
        index.Find({.id = chain.ids()[entry],
                    .parent = chain.parent(entry),
                    .tokens = tokens.subspan(entry * kBlockSlots, kBlockSlots)});
    if (!walk.Step(node)) break;
    found.nodes.push_back(node);
  }
  // The furthest for which enough can be copied. With no whole entry at all nothing needs to be.
  for (size_t i = walk.candidates().size(); i-- > 0;) {
    const Candidate candidate = walk.candidates()[i];
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
