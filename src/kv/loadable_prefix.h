// How far a prefix would reach if tiers gave what they have: a pure function.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/layout.h"

namespace quire {

// Where a block of an entry is.
using BlockSource = int8_t;
inline constexpr BlockSource kNowhere = -1;
inline constexpr BlockSource kInMemory = 0;  // 1 + idx: in the tier of that index

struct LoadablePrefix {
  struct Missing {
    int entry = 0;
    int group = 0;
    int tier = 0;  // index
  };
  int num_entries = 0;             // whole entries, memory and tiers together
  std::vector<Missing> missing{};  // what must be loaded for that, by entry and group
};

// The longest prefix of whole entries. sources: [num_entries][num_groups].
LoadablePrefix FindLoadable(const KvLayout& layout, std::span<const BlockSource> sources);

}  // namespace quire
