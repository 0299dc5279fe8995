// Tells the log what tiers there are, and once each time that one goes down or comes back.
//
// Used by one thread at a time.
#pragma once

#include <chrono>
#include <span>
#include <vector>

#include "kv/tiers/tier.h"
#include "server/server_log.h"

namespace quire {

// Whether the tier answers, as far as is known. A remote one whose rest is over counts as down
// until a trial has come out well; a disk that only rests from writing is up.
inline bool Answers(const TierStatus& tier) {
  return tier.state.is_up && (tier.kind == TierKind::kDisk || tier.state.down_for_ms == 0);
}

class TierWatch {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kInterval{1000};

  // A line "tier" for each.
  TierWatch(ServerLog& log, std::span<const TierStatus> tiers);

  // Whether the last look was long enough ago; costs nothing to ask after every step. False where
  // there are no tiers.
  bool IsDue(Clock::time_point now) const;
  // "tier_down", with the reason, or "tier_up" where a tier has changed since the last look. Tiers
  // come in the same order each time.
  void Look(std::span<const TierStatus> tiers, Clock::time_point now);

 private:
  void TellChange(const TierStatus& tier, double was_down_for_ms);

  ServerLog& log_;
  std::vector<TierState> states_;  // as last told
  Clock::time_point looked_at_;
};

}  // namespace quire
