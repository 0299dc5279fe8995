#include "kv/loadable_prefix.h"

#include "kv/prefix_walk.h"

namespace quire {

LoadablePrefix FindLoadable(const KvLayout& layout, std::span<const BlockSource> sources) {
  const int num_groups = layout.num_groups();
  const auto source = [&](int entry, int group) {
    return sources[static_cast<size_t>(entry) * num_groups + group];
  };
  LoadablePrefix prefix;
  PrefixWalk walk(layout);
  const int num_entries = static_cast<int>(sources.size()) / num_groups;
  for (int entry = 0; entry < num_entries; ++entry) {
    if (!walk.Step([&](int group) { return source(entry, group) != kNowhere; })) break;
    if (walk.MayEnd(0)) prefix.num_entries = walk.num_entries();
  }
  const int position = prefix.num_entries * kBlockSlots;
  for (int entry = 0; entry < prefix.num_entries; ++entry) {
    for (int group = 0; group < num_groups; ++group) {
      if (source(entry, group) == kInMemory || source(entry, group) == kNowhere) continue;
      if (entry < layout.groups[group].FirstEntryRead(position)) continue;
      prefix.missing.push_back({.entry = entry, .group = group, .tier = source(entry, group) - 1});
    }
  }
  return prefix;
}

}  // namespace quire
