#include "plan/roofline.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace quire::testing {
namespace {

constexpr MachineLimits kLimits{
    .bytes_per_second = 10e9, .int8_ops_per_second = 1000e9, .f32_ops_per_second = 100e9};

TEST(Roofline, TellsWhatBoundsAPointAndHowNearItIs) {
  // 1 GB at 10 GB/s takes 100 ms; 200 G int8 operations would take 200 ms.
  const RooflinePoint slow{.cost = {.int8_ops = 1e9, .weight_bytes = 1e9}, .ms = 200};
  EXPECT_DOUBLE_EQ(slow.fraction(kLimits), .5);
  EXPECT_DOUBLE_EQ(RoofOver(slow.cost, kLimits), 10e9);
  const RooflinePoint busy{.cost = {.int8_ops = 200e9, .weight_bytes = 1e9}, .ms = 250};
  EXPECT_DOUBLE_EQ(busy.fraction(kLimits), .8);
  EXPECT_DOUBLE_EQ(RoofOver(busy.cost, kLimits), 1000e9);
  EXPECT_EQ(RooflinePoint{}.fraction(kLimits), 0);
}

TEST(Roofline, HasAPointForEachOperatorAndOneForAll) {
  OperatorSample sample{.phase = "decode", .depth = 16, .num_tokens = 2, .num_steps = 2};
  sample.costs[2] = {.int8_ops = 3, .weight_bytes = 4};
  sample.costs[4] = {.f32_ops = 5, .kv_bytes = 6};
  sample.times.ms = {1, 1, 1, 1, 1, 1, 1};
  sample.forward_ms = 7.5;
  const std::vector<RooflinePoint> points = PointsOf({sample});
  ASSERT_EQ(points.size(), 8u);
  EXPECT_EQ(points[0].operators, "all");
  EXPECT_EQ(points[0].ms, 7.5);
  EXPECT_EQ(points[0].cost.ops(), 8);
  EXPECT_EQ(points[0].cost.bytes(), 10);
  EXPECT_EQ(points[3].operators, "project");
  EXPECT_EQ(points[5].operators, "attend");
  EXPECT_EQ(points[5].cost.ops(), 5);
}

Roofline SmallRoofline() {
  Roofline roofline{.model = "m"};
  roofline.ceilings.memory = {{.name = "L1", .bytes_per_second = 100e9},
                              {.name = "weights", .bytes_per_second = 10e9}};
  roofline.ceilings.peaks = {.int8_ops_per_second = 1000e9, .f32_ops_per_second = 100e9};
  roofline.points.push_back({.phase = "prefill",
                             .operators = "project",
                             .cost = {.int8_ops = 100e9, .weight_bytes = 1e9},
                             .ms = 200});
  roofline.points.push_back({.phase = "decode",
                             .operators = "attend",
                             .cost = {.f32_ops = 1e9, .kv_bytes = 1e9},
                             .ms = 200});
  return roofline;
}

TEST(Roofline, IsDrawnWithItsRoofsAndPoints) {
  const Roofline roofline = SmallRoofline();
  EXPECT_DOUBLE_EQ(roofline.int8_ridge(), 100);
  EXPECT_DOUBLE_EQ(roofline.f32_ridge(), 10);
  const std::string plot = RooflinePlot(roofline, 0);
  for (const char mark : {'P', 'a', '/', '-', '.'}) {
    EXPECT_NE(plot.find(mark), std::string::npos) << mark << "\n" << plot;
  }
  EXPECT_EQ(RooflinePlot(roofline, 512).find('P'), std::string::npos);
  EXPECT_EQ(RooflinePlot(Roofline{}, 0), "");
}

TEST(MachineCeilings, ADisturbedMachineIsSaidToBeOne) {
  const auto said = [](double l3, double memory, double weights) {
    MachineCeilings ceilings;
    ceilings.memory = {{.name = "L3", .set_bytes = 16 << 20, .bytes_per_second = l3},
                       {.name = "memory", .set_bytes = 128 << 20, .bytes_per_second = memory},
                       {.name = "weights", .set_bytes = 80 << 20, .bytes_per_second = weights}};
    return DisturbanceOf(ceilings);
  };
  EXPECT_EQ(said(50e9, 10e9, 12e9), "") << "some of the weights stay in a cache";
  EXPECT_EQ(said(50e9, 10e9, 8e9), "");
  EXPECT_EQ(said(9.9e9, 10e9, 10e9), "") << "as fast, within what measurements differ by";
  EXPECT_NE(said(9e9, 10e9, 8e9).find("L3 was read more slowly than memory"), std::string::npos);
  EXPECT_NE(said(9e9, 8e9, 10e9).find("L3 was read more slowly than the weights"),
            std::string::npos);
  EXPECT_EQ(DisturbanceOf({}), "");
}

TEST(MachineCeilings, TellTheLevelsApartByTheBytesRead) {
  const CacheSizes caches{.l1_bytes = 32 << 10, .l2_bytes = 1 << 20, .l3_bytes = 32 << 20};
  const auto names = [](const std::vector<MemoryCeiling>& levels) {
    std::string text;
    for (const MemoryCeiling& level : levels) {
      text += std::string(level.name) + " " + std::to_string(level.set_bytes >> 10) + "; ";
    }
    return text;
  };
  EXPECT_EQ(names(LevelsToMeasure(caches, 2, uint64_t{1} << 27)),
            "L1 32; L2 1024; L3 16384; memory 131072; ");
  EXPECT_EQ(names(LevelsToMeasure(caches, 2, 20 << 20)), "L1 32; L2 1024; L3 16384; ");
  // So many cores that their own caches are as large as the shared one.
  EXPECT_EQ(names(LevelsToMeasure(caches, 16, 40 << 20)), "L1 256; L2 8192; ");
  EXPECT_EQ(names(LevelsToMeasure({}, 2, 20 << 20)), "");
}

TEST(MachineCeilings, AreBoundedByTheRateOfTheWeights) {
  ThreadPool threads(1);
  const std::vector<std::byte> weights(1 << 20);
  const auto ceilings =
      MeasureCeilings(threads, "", weights, {.most_bytes = 4 << 20, .repetitions = 1});
  ASSERT_TRUE(ceilings.ok()) << ceilings.error().message;
  ASSERT_FALSE(ceilings->memory.empty());
  EXPECT_EQ(ceilings->memory.back().name, "weights");
  EXPECT_EQ(ceilings->memory.back().set_bytes, weights.size());
  EXPECT_EQ(ceilings->limits().bytes_per_second, ceilings->memory.back().bytes_per_second);
  for (const MemoryCeiling& level : ceilings->memory) EXPECT_GT(level.bytes_per_second, 0);
  EXPECT_GT(ceilings->limits().int8_ops_per_second, 0);
}

}  // namespace
}  // namespace quire::testing
