#include "kv/loadable_prefix.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "kv/stored_pattern.h"

namespace quire {
namespace {

// All lengths are tried, longest first.
int LongestTwin(const KvLayout& layout, const std::vector<BlockSource>& sources) {
  const int num_groups = layout.num_groups();
  const int most = static_cast<int>(sources.size()) / num_groups;
  for (int length = most; length > 0; --length) {
    bool fits = true;
    for (int group = 0; group < num_groups; ++group) {
      const int first = layout.groups[group].FirstEntryRead(length * kBlockSlots);
      for (int entry = first; entry < length; ++entry) {
        fits = fits && sources[entry * num_groups + group] != kNowhere;
      }
    }
    if (fits) return length;
  }
  return 0;
}

TEST(LoadablePrefix, IsWhatTryingEveryLengthFinds) {
  std::mt19937_64 random(1);
  const std::vector<std::vector<int>> windows = {{0}, {0, 20}, {0, 40, 100}, {30}};
  for (int round = 0; round < 4000; ++round) {
    const KvLayout layout = PatternLayout(windows[round % windows.size()]);
    const int num_groups = layout.num_groups();
    std::vector<BlockSource> sources((random() % 12) * num_groups);
    const uint64_t holes = 2 + random() % 12;
    for (BlockSource& source : sources) {
      source = random() % holes == 0 ? kNowhere : static_cast<BlockSource>(random() % 3);
    }
    const LoadablePrefix prefix = FindLoadable(layout, sources);
    ASSERT_EQ(prefix.num_entries, LongestTwin(layout, sources)) << "round " << round;
    std::vector<BlockSource> loaded = sources;
    for (const LoadablePrefix::Missing& missing : prefix.missing) {
      const size_t at = static_cast<size_t>(missing.entry) * num_groups + missing.group;
      ASSERT_EQ(sources[at], missing.tier + 1);
      loaded[at] = kInMemory;
    }
    // What was to be loaded is enough, and all of it is read.
    for (BlockSource& source : loaded) source = source == kInMemory ? kInMemory : kNowhere;
    ASSERT_GE(LongestTwin(layout, loaded), prefix.num_entries);
    for (const LoadablePrefix::Missing& missing : prefix.missing) {
      ASSERT_GE(missing.entry,
                layout.groups[missing.group].FirstEntryRead(prefix.num_entries * kBlockSlots));
    }
  }
}

}  // namespace
}  // namespace quire
