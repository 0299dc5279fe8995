#include "cli/bench/limits_run.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace quire {
namespace {

bool GoOn() { return true; }

std::unique_ptr<Engine> TinyEngine(int max_batched_tokens) {
  const std::string path = std::string(QUIRE_TESTS_DIR) + "/golden/models/tiny-llama.gguf";
  const EngineOptions options{
      .runner = {.num_threads = 1, .num_sequences = 4},
      .scheduler = {.max_sequences = 4, .max_batched_tokens = max_batched_tokens}};
  return Engine::Create(path, options).value();
}

TEST(MachineReport, ReadsEachWorkingSetInItsOrder) {
  const std::vector<size_t> sets = {size_t{1} << 20, kSmallestSet};
  const MachineReport report = MeasureMachine(2, "", sets, 2, GoOn).value();
  ASSERT_EQ(2u, report.reads.size());
  EXPECT_EQ(sets[0], report.reads[0].bytes);
  EXPECT_EQ(sets[1], report.reads[1].bytes);
  for (const SetRead& read : report.reads) {
    EXPECT_EQ(2, read.bytes_per_second.count);
    EXPECT_GT(read.bytes_per_second.lowest, 1e6);
  }
  EXPECT_GT(report.peaks.int8_ops_per_second, report.peaks.f32_ops_per_second);
  EXPECT_EQ(0u, report.left_out_bytes);
}

TEST(MachineReport, LeavesOutWhatFreeMemoryHasNoRoomFor) {
  const std::vector<size_t> sets = {kSmallestSet, size_t{1} << 60, size_t{1} << 59};
  const MachineReport report = MeasureMachine(1, "", sets, 1, GoOn).value();
  EXPECT_EQ(1u, report.reads.size());
  EXPECT_EQ(size_t{1} << 59, report.left_out_bytes);
}

TEST(MachineReport, FailsWhereNoSetFits) {
  const std::vector<size_t> sets = {size_t{1} << 60};
  const auto report = MeasureMachine(1, "", sets, 1, GoOn);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(ErrorCode::kResourceExhausted, report.error().code);
}

TEST(MachineReport, StopsWhenInterrupted) {
  const std::vector<size_t> sets = {kSmallestSet};
  const auto report = MeasureMachine(1, "", sets, 1, [] { return false; });
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(ErrorCode::kInterrupted, report.error().code);
}

TEST(DefaultWorkingSets, DoubleFromTheFirstLevelCacheToOneGibibyte) {
  const std::vector<size_t> sets = DefaultWorkingSets();
  EXPECT_EQ(size_t{32} << 10, sets.front());
  EXPECT_EQ(size_t{1} << 30, sets.back());
  EXPECT_EQ(16u, sets.size());
}

TEST(CostOfTest, ABatchReadsTheWeightsOnceAndComputesForEachSequence) {
  const auto engine = TinyEngine(512);
  const StepCost one = CostOfTest(*engine, {.num_generated = 8});
  const StepCost four = CostOfTest(*engine, {.num_generated = 8, .num_parallel = 4});
  EXPECT_EQ(one.weight_bytes, four.weight_bytes);
  EXPECT_EQ(4 * one.kv_bytes, four.kv_bytes);
  EXPECT_EQ(4 * one.int8_ops, four.int8_ops);
}

TEST(CostOfTest, EachChunkOfAPromptReadsTheWeightsAgain) {
  const SpeedTest test{.num_prompt = 64};
  const StepCost whole = CostOfTest(*TinyEngine(64), test);
  const StepCost halves = CostOfTest(*TinyEngine(32), test);
  EXPECT_EQ(whole.int8_ops, halves.int8_ops);
  // The output layer is read once either way.
  EXPECT_GT(halves.weight_bytes, 1.5 * whole.weight_bytes);
  EXPECT_LT(halves.weight_bytes, 2 * whole.weight_bytes);
}

TEST(CostOfTest, DepthCostsKeysAndValues) {
  const auto engine = TinyEngine(512);
  const StepCost shallow = CostOfTest(*engine, {.num_generated = 8});
  const StepCost deep = CostOfTest(*engine, {.num_generated = 8, .depth = 100});
  EXPECT_EQ(shallow.weight_bytes, deep.weight_bytes);
  EXPECT_GT(deep.kv_bytes, 5 * shallow.kv_bytes);
}

TEST(LimitSample, SharesFollowFromTimeAndCost) {
  const auto engine = TinyEngine(512);
  const SpeedTest test{.num_generated = 8};
  const std::vector<int32_t> vocabulary = {5, 6, 7};
  const LimitSample sample = MeasureBesideLimits(*engine, test, vocabulary, 1, GoOn).value();
  const StepCost cost = CostOfTest(*engine, test);
  EXPECT_DOUBLE_EQ(8 / sample.speed.tokens_per_second, sample.seconds);
  EXPECT_DOUBLE_EQ(cost.bytes() / sample.seconds / sample.limits.bytes_per_second,
                   sample.share_of_read);
  EXPECT_GT(sample.share_of_limit(), 0);
}

}  // namespace
}  // namespace quire
