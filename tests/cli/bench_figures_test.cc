#include <gtest/gtest.h>

#include <map>
#include <string>

#include "cli/bench/figures.h"
#include "cli/bench/load_run.h"
#include "cli/bench/submission_gate.h"
#include "plan/step_cost.h"

namespace quire::testing {
namespace {

// The requests that may be submitted, in order.
std::vector<int> Drain(SubmissionGate& gate) {
  std::vector<int> submitted;
  while (const auto next = gate.Next()) submitted.push_back(*next);
  return submitted;
}

TEST(SubmissionGate, ContinuousBatchingFillsAPlaceAsItComesFree) {
  SubmissionGate gate(Batching::kContinuous, 2);
  for (const int request : {0, 1, 2, 3}) gate.Arrive(request);
  EXPECT_EQ(Drain(gate), (std::vector<int>{0, 1}));
  gate.End();
  EXPECT_EQ(Drain(gate), (std::vector<int>{2}));
  EXPECT_EQ(gate.num_waiting(), 1);
}

TEST(SubmissionGate, StaticBatchingWaitsForTheLastOfTheBatch) {
  SubmissionGate gate(Batching::kStatic, 2);
  for (const int request : {0, 1, 2}) gate.Arrive(request);
  EXPECT_EQ(Drain(gate), (std::vector<int>{0, 1}));
  gate.End();
  EXPECT_EQ(Drain(gate), (std::vector<int>{}));
  gate.End();
  EXPECT_EQ(Drain(gate), (std::vector<int>{2}));
}

TEST(SubmissionGate, AStaticBatchThatHasStartedTakesNoLateComer) {
  SubmissionGate gate(Batching::kStatic, 4);
  gate.Arrive(0);
  EXPECT_EQ(Drain(gate), (std::vector<int>{0}));
  gate.Arrive(1);
  EXPECT_EQ(Drain(gate), (std::vector<int>{}));
  gate.End();
  EXPECT_EQ(Drain(gate), (std::vector<int>{1}));
}

TEST(SubmissionGate, WithoutALimitAllThatArrivedGo) {
  SubmissionGate gate(Batching::kContinuous, 0);
  for (const int request : {0, 1, 2}) gate.Arrive(request);
  EXPECT_EQ(Drain(gate), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(gate.in_flight(), 3);
}

TEST(Summary, InterpolatesBetweenSamples) {
  const Summary summary = Summarize({40, 10, 30, 20, 50});
  EXPECT_EQ(summary.count, 5);
  EXPECT_DOUBLE_EQ(summary.mean, 30);
  EXPECT_DOUBLE_EQ(summary.median, 30);
  EXPECT_DOUBLE_EQ(summary.p90, 46);
  EXPECT_DOUBLE_EQ(summary.lowest, 10);
  EXPECT_DOUBLE_EQ(summary.highest, 50);
  EXPECT_EQ(Summarize({}).count, 0);
}

TEST(Figures, RepetitionsBecomeAMedianAndItsSpread) {
  const std::vector<std::vector<Figure>> runs = {
      {{"a", "A", "ms", 3, 1}}, {{"a", "A", "ms", 9, 1}}, {{"a", "A", "ms", 4, 1}}};
  const auto merged = MergeRuns(runs);
  ASSERT_EQ(merged.size(), 1u);
  EXPECT_DOUBLE_EQ(merged[0].figure.value, 4);
  EXPECT_EQ(FormatFigures(merged), "A           4.0 ms       (3.0 to 9.0)\n");
}

TEST(WasteMeter, CountsReservedSlotsWithoutAToken) {
  WasteMeter paged;
  paged.AddPaged({.used_blocks = 2, .filled_slots = 30});  // 2 of 32 slots are empty
  EXPECT_DOUBLE_EQ(paged.share(), 2.0 / 32);
  paged.AddPaged({.used_blocks = 6, .filled_slots = 92});  // 4 of 96
  EXPECT_DOUBLE_EQ(paged.share(), 6.0 / 128);
  WasteMeter reserved;
  reserved.AddReserved(2, 2048, 1024);
  EXPECT_DOUBLE_EQ(reserved.share(), 0.75);
  EXPECT_EQ(WasteMeter().share(), 0);
}

TEST(LoadRun, FiguresFollowTheRequests) {
  const LoadRun run{.requests = {{.first_token_ms = 100,
                                  .gaps_ms = {10, 30},
                                  .prompt_tokens = 8,
                                  .cached_tokens = 2,
                                  .output_tokens = 3},
                                 {.first_token_ms = 300,
                                  .gaps_ms = {},
                                  .prompt_tokens = 12,
                                  .cached_tokens = 3,
                                  .output_tokens = 1}},
                    .duration_ms = 2000,
                    .kv_waste = 0.03};
  std::map<std::string, double> figures;
  for (const Figure& figure : FiguresOf(run)) figures[figure.key] = figure.value;
  EXPECT_DOUBLE_EQ(figures.at("median_ttft_ms"), 200);
  EXPECT_DOUBLE_EQ(figures.at("mean_tpot_ms"), 20);  // one token has no gap
  EXPECT_DOUBLE_EQ(figures.at("max_itl_ms"), 30);
  EXPECT_DOUBLE_EQ(figures.at("output_throughput"), 2);
  EXPECT_DOUBLE_EQ(figures.at("total_token_throughput"), 12);
  EXPECT_DOUBLE_EQ(figures.at("cached_share"), 25);
  EXPECT_DOUBLE_EQ(figures.at("kv_waste"), 3);
}

// One layer of 64 x 64 matrices in Q8_0, 2 heads of 32 over 1 KV head, a vocabulary of 128.
struct TinyShape {
  TinyShape() {
    config.layers = {
        {.num_heads = 2, .num_kv_heads = 1, .key_dim = 32, .value_dim = 32, .ffn_dim = 64}};
    const PackedMatrix square{.dtype = DType::kQ8_0, .num_rows = 64, .num_cols = 64, .data = &byte};
    PackedMatrix half = square;
    half.num_rows = 32;
    weights.layers.resize(1);
    weights.layers[0].query = weights.layers[0].attention_output = square;
    weights.layers[0].ffn_gate = weights.layers[0].ffn_up = weights.layers[0].ffn_down = square;
    weights.layers[0].key = weights.layers[0].value = half;
    weights.output = {.dtype = DType::kF32, .num_rows = 128, .num_cols = 64, .data = &byte};
  }
  std::byte byte{};
  ModelConfig config;
  Weights weights;
};

TEST(PhaseCost, CountsMatricesAttentionAndBytes) {
  const TinyShape shape;
  const StepCost cost = CostOfStep(shape.config, shape.weights, KvType::kF16, 10, 2, 1);
  EXPECT_DOUBLE_EQ(cost.int8_ops, 2.0 * 64 * (5 * 64 + 2 * 32) * 2);
  // Positions 10 and 11 attend to 11 and 12 keys; 2 heads of 32 + 32 dimensions.
  EXPECT_DOUBLE_EQ(cost.f32_ops, 2.0 * 2 * 64 * (11 + 12) + 2.0 * 128 * 64);
  EXPECT_DOUBLE_EQ(cost.kv_bytes, 2.0 * 64 * (12 + 2));  // 12 entries read, 2 written
  // Q8_0, 16 rows at a time: 64 bytes of scales and 512 for each of two groups of 32 columns.
  EXPECT_DOUBLE_EQ(cost.weight_bytes, 1088.0 * (5 * 4 + 2 * 2) + 4.0 * 128 * 64);
}

TEST(PhaseCost, AWindowBoundsWhatIsReadAndAttended) {
  TinyShape shape;
  shape.config.layers[0].window = 4;
  const StepCost at_start = CostOfStep(shape.config, shape.weights, KvType::kF16, 0, 3, 0);
  EXPECT_DOUBLE_EQ(at_start.f32_ops, 2.0 * 2 * 64 * (1 + 2 + 3));
  const StepCost later = CostOfStep(shape.config, shape.weights, KvType::kF16, 100, 3, 0);
  EXPECT_DOUBLE_EQ(later.f32_ops, 2.0 * 2 * 64 * (4 + 4 + 4));
  EXPECT_DOUBLE_EQ(later.kv_bytes, 2.0 * 64 * (6 + 3));
}

TEST(PhaseCost, TheSlowerOfMemoryAndArithmeticBounds) {
  const MachineLimits limits{
      .bytes_per_second = 1000, .int8_ops_per_second = 1000, .f32_ops_per_second = 500};
  const Bound memory = BoundOf({.int8_ops = 10, .weight_bytes = 20}, limits);
  EXPECT_EQ(memory.bound_by(), "memory");
  EXPECT_DOUBLE_EQ(memory.limit_ms(), 20);
  const Bound compute = BoundOf({.int8_ops = 10, .f32_ops = 10, .weight_bytes = 20}, limits);
  EXPECT_EQ(compute.bound_by(), "compute");
  EXPECT_DOUBLE_EQ(compute.limit_ms(), 30);
}

}  // namespace
}  // namespace quire::testing
