#include "kv/tiers/tier_speed.h"

#include <gtest/gtest.h>

#include <limits>

namespace quire {
namespace {

TEST(TierSpeedMeter, PartsLatencyFromBandwidth) {
  TierSpeedMeter meter;
  EXPECT_EQ(meter.speed().bytes_per_ms, 0);
  EXPECT_EQ(meter.speed().Ms(1000), 0);
  meter.Observe(100, 7, 1100, 27);  // 5 ms, then 50 bytes a ms
  EXPECT_DOUBLE_EQ(meter.speed().bytes_per_ms, 50);
  EXPECT_DOUBLE_EQ(meter.speed().latency_ms, 5);
  EXPECT_DOUBLE_EQ(meter.speed().Ms(1100), 27);
}

TEST(TierSpeedMeter, CountsALoneBlockAsLatencyOnceTheBandwidthIsKnown) {
  TierSpeedMeter meter;
  meter.Observe(100, 4, 100, 4);
  EXPECT_DOUBLE_EQ(meter.speed().bytes_per_ms, 25);
  EXPECT_DOUBLE_EQ(meter.speed().latency_ms, 0);
  meter.Observe(100, 7, 1100, 27);
  EXPECT_DOUBLE_EQ(meter.speed().bytes_per_ms, 50);
  for (int i = 0; i < TierSpeedMeter::kSamples; ++i) meter.Observe(100, 12, 100, 12);
  EXPECT_DOUBLE_EQ(meter.speed().bytes_per_ms, 50);
  EXPECT_DOUBLE_EQ(meter.speed().latency_ms, 10);
}

TEST(TierSpeedMeter, OneSlowLoadMovesNothingAndALastingChangeIsFollowed) {
  TierSpeedMeter meter;
  for (int i = 0; i < 100; ++i) meter.Observe(100, 3, 1100, 13);
  meter.Observe(100, 500, 1100, 9000);
  EXPECT_DOUBLE_EQ(meter.speed().bytes_per_ms, 100);
  EXPECT_DOUBLE_EQ(meter.speed().latency_ms, 2);
  for (int i = 0; i <= TierSpeedMeter::kSamples / 2; ++i) meter.Observe(100, 30, 1100, 130);
  EXPECT_DOUBLE_EQ(meter.speed().bytes_per_ms, 10);
  EXPECT_DOUBLE_EQ(meter.speed().latency_ms, 20);
}

TEST(TierSpeedMeter, PassesOverTimesThatCannotBe) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  TierSpeedMeter meter;
  for (double ms : {0.0, -1.0, kNan, kInfinity}) {
    meter.Observe(100, ms, 1100, 27);
    meter.Observe(100, 7, 1100, ms);
    meter.Observe({.latency_ms = 1, .bytes_per_ms = ms});
    meter.Observe({.latency_ms = ms < 0 || ms == 0 ? kNan : ms, .bytes_per_ms = 5});
  }
  meter.Observe(0, 7, 1100, 27);
  EXPECT_EQ(meter.speed().bytes_per_ms, 0);
}

TEST(TierSpeedMeter, ATriedSpeedIsASample) {
  TierSpeedMeter meter;
  meter.Observe({.latency_ms = 2, .bytes_per_ms = 9});
  EXPECT_DOUBLE_EQ(meter.speed().bytes_per_ms, 9);
  EXPECT_DOUBLE_EQ(meter.speed().Ms(90), 12);
}

}  // namespace
}  // namespace quire
