#include "kv/tiers/tier_set_fixture.h"
#include "support/throttled_tier.h"

namespace quire::testing {
namespace {

// Time is made up: it passes only where the throttled tier sleeps. One thread reads, so that no
// other one's sleep passes for its own.
class TierSetSpeed : public TierSetTest {
 protected:
  static constexpr int kNumBlocks = 64;

  void OpenThrottled(TierSpeed speed) {
    AddTier();
    throttle_ = std::make_shared<Throttle>(speed, clock_.clock());
    tiers_[0] = ThrottleTier(std::move(tiers_[0]), throttle_);
    Open({.read_threads = 1, .clock = [this] { return clock_.now(); }});
    for (int i = 0; i < kNumBlocks; ++i) Offer(i);
    ASSERT_TRUE(set_->Flush(Never()).ok());
  }
  std::vector<TierEvent> LoadAll(double deadline_ms) {
    set_->Load(0, Loads(0, kNumBlocks),
               clock_.now() + std::chrono::microseconds(static_cast<int64_t>(deadline_ms * 1000)));
    return Await(kNumBlocks);
  }
  double LoadAllMs() {
    const TierDeadline begin = clock_.now();
    EXPECT_EQ(NumWith(LoadAll(1e6), RecordFault::kNone), static_cast<size_t>(kNumBlocks));
    return std::chrono::duration<double, std::milli>(clock_.now() - begin).count();
  }
  static void ExpectWithin(double factor, double value, double expected) {
    EXPECT_GT(value, expected / factor);
    EXPECT_LT(value, expected * factor);
  }

  FakeTierClock clock_;
  std::shared_ptr<Throttle> throttle_;
};

TEST_F(TierSetSpeed, IsUnknownUntilSomethingWasLoaded) {
  OpenThrottled({.latency_ms = 1, .bytes_per_ms = 320});
  EXPECT_EQ(set_->speed(0).bytes_per_ms, 0);
  set_->Measure(Never());
  EXPECT_EQ(set_->speed(0).bytes_per_ms, 320);
  EXPECT_EQ(set_->status()[0].speed.latency_ms, 1);
}

TEST_F(TierSetSpeed, OfLoadsIsThatOfTheTier) {
  OpenThrottled({.latency_ms = 1, .bytes_per_ms = 320});  // a block a ms
  LoadAllMs();
  const TierSpeed speed = set_->speed(0);
  ExpectWithin(1.5, speed.bytes_per_ms, 320);
  ExpectWithin(1.5, speed.latency_ms, 1);
  ExpectWithin(1.5, speed.Ms(kNumBlocks * kGroupBytes[0]), LoadAllMs());
}

TEST_F(TierSetSpeed, FollowsATierThatSlowsDown) {
  OpenThrottled({.latency_ms = .05, .bytes_per_ms = 3200});
  for (int i = 0; i < TierSpeedMeter::kSamples; ++i) LoadAllMs();
  throttle_->Set({.latency_ms = .05, .bytes_per_ms = 32});
  LoadAllMs();
  ExpectWithin(1.5, set_->speed(0).bytes_per_ms, 3200);  // one slow load moves nothing
  for (int i = 0; i <= TierSpeedMeter::kSamples / 2; ++i) LoadAllMs();
  ExpectWithin(1.5, set_->speed(0).bytes_per_ms, 32);
}

TEST_F(TierSetSpeed, ATierThatLetsDeadlinesPassIsSlow) {
  OpenThrottled({.latency_ms = .05, .bytes_per_ms = 3200});
  for (int i = 0; i < TierSpeedMeter::kSamples; ++i) LoadAllMs();
  throttle_->Set({.latency_ms = 1e9, .bytes_per_ms = 3200});
  for (int i = 0; i <= TierSpeedMeter::kSamples / 2; ++i) {
    EXPECT_EQ(NumWith(LoadAll(250), RecordFault::kTimeout), static_cast<size_t>(kNumBlocks));
  }
  EXPECT_GT(set_->speed(0).latency_ms, 200);
}

}  // namespace
}  // namespace quire::testing
