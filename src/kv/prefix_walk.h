// How far a prefix reaches, given which groups have a block for each entry.
//
// Full groups need the blocks of all entries; a windowed group needs those that its window touches
// at the place where the prefix ends. So the walk goes on over entries that windowed groups lack,
// and knows of each place whether a prefix may end there.
#pragma once

#include <vector>

#include "kv/layout.h"

namespace quire {

class PrefixWalk {
 public:
  explicit PrefixWalk(const KvLayout& layout)
      : layout_(layout), run_begins_(layout.groups.size(), 0) {}

  // Goes on over the next entry: has(group). False, and nothing changes but what windowed groups
  // lack, where a full group has no block there.
  template <typename Has>
  bool Step(const Has& has) {
    for (size_t group = 0; group < run_begins_.size(); ++group) {
      if (has(static_cast<int>(group))) continue;
      if (layout_.groups[group].window == 0) return false;
      run_begins_[group] = num_entries_ + 1;
    }
    ++num_entries_;
    return true;
  }

  int num_entries() const { return num_entries_; }

  // Whether a prefix may end so many tokens (0..15) after the entries walked over.
  bool MayEnd(int num_copied) const {
    for (size_t group = 0; group < run_begins_.size(); ++group) {
      const int position = num_entries_ * kBlockSlots + num_copied;
      if (run_begins_[group] > layout_.groups[group].FirstEntryRead(position)) return false;
    }
    return true;
  }

 private:
  const KvLayout& layout_;
  int num_entries_ = 0;
  std::vector<int> run_begins_;  // [num_groups] blocks are there from this entry to the last
};

}  // namespace quire
