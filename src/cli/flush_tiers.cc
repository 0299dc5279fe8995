#include "cli/flush_tiers.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/interrupt.h"
#include "cli/progress.h"

namespace quire {

int64_t FlushTiers(Engine& engine) {
  const std::vector<TierStatus> before = engine.TierStatuses();
  if (std::ranges::all_of(before, &TierStatus::is_read_only)) return 0;
  EndAtNextInterrupt();
  int64_t left = 0;
  {
    ProgressLine progress;
    const int64_t num_blocks = engine.cache().num_fresh();
    if (num_blocks > 0) progress.Show(fmt::format("writing {} blocks", num_blocks));
    left = engine.FlushTiers();
  }
  std::string reason;
  const std::vector<TierStatus> after = engine.TierStatuses();
  for (size_t i = 0; i < after.size(); ++i) {
    const TierStatus& tier = after[i];
    // Taken, and then refused by the tier: beyond its cap or quota.
    const int64_t refused = tier.counters.stores_refused - before[i].counters.stores_refused;
    if (refused > 0) reason += fmt::format("; {}: no room for {}", tier.place, refused);
    left += refused;
    if (!tier.state.reason.empty()) {
      reason += fmt::format("; {}: {}", tier.place, tier.state.reason);
    }
  }
  if (left == 0) return 0;
  fmt::print(stderr, "quire: {} blocks of keys and values were not stored{}\n", left, reason);
  return left;
}

}  // namespace quire
