// An hour of conversations; fast_motion_hours_test.cc has more of them.

#include "kv/tiers/fast_motion/fast_motion.h"

#include <gtest/gtest.h>

#include <iostream>

#include "kv/tiers/fast_motion/fast_motion_facts.h"
#include "kv/tiers/fast_motion/lru_oracle.h"

namespace quire::testing {
namespace {

Trace AnHour() { return MakeTrace({.seed = 7, .hours = 1}); }

// Hit rates of a plain LRU over Mooncake's conversation trace, with capacities as 1 : 10 : 50 and
// without limit: 4.5, 21.5, 36.2 and 37.4 %.
TEST(Trace, IsFoundByAnLruAsMooncakesConversationsAre) {
  const Trace trace = MakeTrace({});
  EXPECT_NEAR(BestLruHitRate(trace, 700), .045, .02);
  EXPECT_NEAR(BestLruHitRate(trace, 7'000), .215, .02);
  EXPECT_NEAR(BestLruHitRate(trace, 35'000), .362, .02);
  EXPECT_NEAR(BestLruHitRate(trace, 1'000'000), .374, .02);
}

TEST(FastMotion, ASmallDiskFindsWhatAnLruOfItsSizeFinds) { ExpectAsGoodAsLru(AnHour(), 1'000); }

TEST(FastMotion, ADiskOfMinutesFindsWhatAnLruOfItsSizeFinds) { ExpectAsGoodAsLru(AnHour(), 5'000); }

TEST(FastMotion, ADiskForAllFindsAllAndIsWrittenOnce) {
  const Trace trace = MakeTrace({.seed = 8, .hours = .25});
  const FastMotionResult result = MeasureFastMotion(trace, 12'000);
  std::cout << result.Describe() << "\n";
  EXPECT_EQ(result.hit_rate, BestLruHitRate(trace, 1'000'000));
  EXPECT_EQ(result.disk_evictions, 0);
  EXPECT_EQ(result.counters.max_stores, 1);
}

TEST(FastMotion, ASeedDecidesEverything) {
  const Trace trace = MakeTrace({.seed = 9, .hours = .25});
  EXPECT_EQ(MeasureFastMotion(trace, 1'000).counters, MeasureFastMotion(trace, 1'000).counters);
}

}  // namespace
}  // namespace quire::testing
