// A tier made slower: a latency before each verb's first answer, and a bandwidth after it.
//
// It sleeps until the wrapped tier's answer may be there, never past the deadline, and looks at
// `cancelled` between blocks. All threads share one wire: bytes go over it one after another. The
// throttle may be changed at any time. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>

#include "kv/tiers/tier.h"

namespace quire::testing {

// Time, real or made up.
struct TierClock {
  std::function<TierDeadline()> now{};
  std::function<void(TierDeadline until)> sleep_until{};
};

TierClock RealTierClock();

// A clock that stands still until somebody sleeps, who wakes at once, later. It is far ahead of the
// real one, for which its deadlines never come. Thread-safe.
class FakeTierClock {
 public:
  TierDeadline now() const;
  void Advance(double ms);
  TierClock clock();

 private:
  mutable std::mutex mutex_;
  TierDeadline now_ = std::chrono::steady_clock::now() + std::chrono::hours(1000);
};

class Throttle {
 public:
  explicit Throttle(TierSpeed speed, TierClock clock = RealTierClock());

  void Set(TierSpeed speed);
  TierSpeed speed() const;

 private:
  friend class ThrottledTier;
  // When `num_bytes` that are asked for now are there; takes the wire until then.
  TierDeadline Send(TierDeadline from, size_t num_bytes);

  const TierClock clock_;
  mutable std::mutex mutex_;
  TierSpeed speed_;
  TierDeadline free_at_{};
};

// Measure tells the throttle's speed.
std::unique_ptr<Tier> ThrottleTier(std::unique_ptr<Tier> tier, std::shared_ptr<Throttle> throttle);

}  // namespace quire::testing
