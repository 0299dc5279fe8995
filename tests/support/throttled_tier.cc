#include "support/throttled_tier.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

namespace quire::testing {

namespace {

std::chrono::steady_clock::duration Duration(double ms) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double, std::milli>(ms));
}

}  // namespace

TierClock RealTierClock() {
  return {.now = [] { return std::chrono::steady_clock::now(); },
          .sleep_until = [](TierDeadline until) { std::this_thread::sleep_until(until); }};
}

TierDeadline FakeTierClock::now() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

void FakeTierClock::Advance(double ms) {
  const std::lock_guard lock(mutex_);
  now_ += Duration(ms);
}

TierClock FakeTierClock::clock() {
  return {.now = [this] { return now(); },
          .sleep_until =
              [this](TierDeadline until) {
                const std::lock_guard lock(mutex_);
                now_ = std::max(now_, until);
              }};
}

Throttle::Throttle(TierSpeed speed, TierClock clock) : clock_(std::move(clock)), speed_(speed) {}

void Throttle::Set(TierSpeed speed) {
  const std::lock_guard lock(mutex_);
  speed_ = speed;
  free_at_ = {};
}

TierSpeed Throttle::speed() const {
  const std::lock_guard lock(mutex_);
  return speed_;
}

TierDeadline Throttle::Send(TierDeadline from, size_t num_bytes) {
  const std::lock_guard lock(mutex_);
  const double ms =
      speed_.bytes_per_ms > 0 ? static_cast<double>(num_bytes) / speed_.bytes_per_ms : 0;
  free_at_ = std::max(free_at_, from) + Duration(ms);
  return free_at_;
}

class ThrottledTier : public Tier {
 public:
  ThrottledTier(std::unique_ptr<Tier> tier, std::shared_ptr<Throttle> throttle)
      : tier_(std::move(tier)), throttle_(std::move(throttle)) {}

  TierKind kind() const override { return tier_->kind(); }
  TierStatus status() const override {
    TierStatus status = tier_->status();
    const std::lock_guard lock(mutex_);
    status.counters.faults[static_cast<size_t>(RecordFault::kTimeout)] += num_timeouts_;
    return status;
  }
  TierState state() const override { return tier_->state(); }
  bool MayHold(const BlockKey& key) const override { return tier_->MayHold(key); }
  bool KnowsAll() const override { return tier_->KnowsAll(); }
  void Touch(std::span<const BlockKey> keys) override { tier_->Touch(keys); }
  Status Flush(TierDeadline deadline) override { return tier_->Flush(deadline); }
  std::optional<std::string_view> OtherModel(std::string_view salt,
                                             std::span<const int32_t> tokens) const override {
    return tier_->OtherModel(salt, tokens);
  }

  Status Find(std::span<const BlockKey> keys, TierDeadline deadline,
              std::vector<bool>& found) override {
    const TierDeadline answer = Now() + Duration(throttle_->speed().latency_ms);
    if (!Sleep(answer, deadline)) {
      found.assign(keys.size(), false);
      return MakeError(ErrorCode::kIo, "the throttled tier does not answer in time");
    }
    return tier_->Find(keys, deadline, found);
  }

  void Load(std::span<const BlockLoad> loads, TierDeadline deadline,
            const std::function<bool()>& cancelled,
            const std::function<void(size_t idx, RecordFault fault)>& done) override {
    const TierDeadline first = Now() + Duration(throttle_->speed().latency_ms);
    for (size_t i = 0; i < loads.size(); ++i) {
      if (cancelled()) {
        done(i, RecordFault::kCancelled);
        continue;
      }
      const TierDeadline arrival = throttle_->Send(std::max(first, Now()), loads[i].payload.size());
      if (!Sleep(arrival, deadline)) {
        done(i, RecordFault::kTimeout);
        continue;
      }
      tier_->Load(loads.subspan(i, 1), deadline, cancelled,
                  [&](size_t, RecordFault fault) { done(i, fault); });
    }
  }

  StoreOutcome Store(const StoredBlock& block, std::span<const std::byte> payload,
                     TierDeadline deadline) override {
    const TierDeadline begin = Now() + Duration(throttle_->speed().latency_ms);
    if (!Sleep(throttle_->Send(begin, payload.size()), deadline)) return StoreOutcome::kFailed;
    return tier_->Store(block, payload, deadline);
  }

  std::optional<TierSpeed> Measure(TierDeadline) override { return throttle_->speed(); }

 private:
  TierDeadline Now() const { return throttle_->clock_.now(); }

  // False, at the deadline, where that comes first.
  bool Sleep(TierDeadline until, TierDeadline deadline) {
    throttle_->clock_.sleep_until(std::min(until, deadline));
    if (until <= deadline) return true;
    const std::lock_guard lock(mutex_);
    ++num_timeouts_;
    return false;
  }

  std::unique_ptr<Tier> tier_;
  std::shared_ptr<Throttle> throttle_;
  mutable std::mutex mutex_;
  int64_t num_timeouts_ = 0;
};

std::unique_ptr<Tier> ThrottleTier(std::unique_ptr<Tier> tier, std::shared_ptr<Throttle> throttle) {
  return std::make_unique<ThrottledTier>(std::move(tier), std::move(throttle));
}

}  // namespace quire::testing
