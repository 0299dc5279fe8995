// Four hours of conversations at capacities where an LRU finds about 5, 20 and 35 %.

#include <gtest/gtest.h>

#include "kv/tiers/fast_motion/fast_motion_facts.h"

namespace quire::testing {
namespace {

class FastMotionHours : public ::testing::TestWithParam<uint64_t> {
 protected:
  Trace trace_ = MakeTrace({.seed = GetParam()});
};

TEST_P(FastMotionHours, FindsWhatAnLruFindsOfFivePercent) { ExpectAsGoodAsLru(trace_, 900); }
TEST_P(FastMotionHours, FindsWhatAnLruFindsOfTwentyPercent) { ExpectAsGoodAsLru(trace_, 6'500); }
TEST_P(FastMotionHours, FindsWhatAnLruFindsOfThirtyFivePercent) {
  ExpectAsGoodAsLru(trace_, 28'000);
}

INSTANTIATE_TEST_SUITE_P(Seeds, FastMotionHours, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace quire::testing
