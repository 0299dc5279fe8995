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
  if (left == 0) return 0;
  std::string reason;
  for (const TierStatus& tier : engine.TierStatuses()) {
    if (!tier.state.is_up) reason += fmt::format("; {}: {}", tier.place, tier.state.reason);
  }
  fmt::print(stderr, "quire: {} blocks of keys and values were not stored{}\n", left, reason);
  return left;
}

}  // namespace quire
