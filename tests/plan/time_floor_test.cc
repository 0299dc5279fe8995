#include "plan/time_floor.h"

#include <gtest/gtest.h>

#include <cmath>

namespace quire {
namespace {

// One layer of 64 x 64 matrices in Q8_0, with one key head of 64 elements: seven matrices and the
// output layer. At f16 a token's keys and values take 256 bytes.
struct TinyShape {
  TinyShape() {
    config.d_model = 64;
    config.vocab_size = 64;
    config.layers.push_back(
        {.num_heads = 1, .num_kv_heads = 1, .key_dim = 64, .value_dim = 64, .ffn_dim = 64});
    const PackedMatrix square{.dtype = DType::kQ8_0, .num_rows = 64, .num_cols = 64, .data = &byte};
    LayerWeights layer;
    for (PackedMatrix* matrix : {&layer.query, &layer.key, &layer.value, &layer.attention_output,
                                 &layer.ffn_gate, &layer.ffn_up, &layer.ffn_down}) {
      *matrix = square;
    }
    weights.layers.push_back(layer);
    weights.output = square;
    weight_bytes = 8.0 * static_cast<double>(square.bytes());
  }

  FloorModel model(int chunk = 512) const {
    return {.config = &config, .weights = &weights, .prefill_chunk = chunk};
  }

  std::byte byte{};
  ModelConfig config{};
  Weights weights{};
  double weight_bytes = 0;
};

// A byte a microsecond: reading decides.
constexpr MachineLimits kSlowMemory{
    .bytes_per_second = 1e6, .int8_ops_per_second = 1e15, .f32_ops_per_second = 1e15};
constexpr MachineLimits kSlowArithmetic{
    .bytes_per_second = 1e15, .int8_ops_per_second = 1e6, .f32_ops_per_second = 1e6};

TEST(TimeFloor, ADecodeStepReadsTheWeightsAndEveryEntry) {
  const TinyShape shape;
  const TimeFloor floor = TpotFloor(shape.model(), kSlowMemory, 9);
  // Nine entries and its own, which is also written.
  EXPECT_DOUBLE_EQ(floor.ms, (shape.weight_bytes + 256.0 * (10 + 1)) / 1000);
  EXPECT_EQ(floor.bound_by(), "memory");
  EXPECT_LT(floor.compute_ms, 1e-6);
}

TEST(TimeFloor, ABatchReadsTheWeightsOnceAndEveryonesEntries) {
  const TinyShape shape;
  const double one = TpotFloor(shape.model(), kSlowMemory, 9).ms;
  const double four = TpotFloor(shape.model(), kSlowMemory, 9, 1, 4).ms;
  EXPECT_DOUBLE_EQ(four, one + 3 * 256.0 * 11 / 1000);
}

TEST(TimeFloor, OverSeveralTokensIsTheirMean) {
  const TinyShape shape;
  const double first = TpotFloor(shape.model(), kSlowMemory, 9).ms;
  EXPECT_DOUBLE_EQ(TpotFloor(shape.model(), kSlowMemory, 9, 3).ms, first + 256.0 / 1000);
}

TEST(TimeFloor, APromptReadsTheWeightsInEachOfItsSteps) {
  const TinyShape shape;
  // The output layer in the last step alone.
  const double body = shape.weight_bytes * 7 / 8;
  const TimeFloor floor = TtftFloor(shape.model(4), kSlowMemory, 0, 10);
  // Steps of 4, 4 and 2 tokens read 4, 8 and 10 entries and write 10.
  EXPECT_DOUBLE_EQ(floor.ms, (3 * body + shape.weight_bytes / 8 + 256.0 * (22 + 10)) / 1000);
  EXPECT_LT(TtftFloor(shape.model(16), kSlowMemory, 0, 10).ms, floor.ms);
  EXPECT_GT(TtftFloor(shape.model(4), kSlowMemory, 100, 10).ms, floor.ms);
}

TEST(TimeFloor, ArithmeticCountsEachTokenOfAPrompt) {
  const TinyShape shape;
  const TimeFloor floor = TtftFloor(shape.model(), kSlowArithmetic, 0, 2);
  // Two tokens through seven matrices, one through the output layer; 1 + 2 keys and values.
  const double matrices = 2.0 * 64 * 64 * (2 * 7 + 1);
  EXPECT_DOUBLE_EQ(floor.ms, (matrices + 2.0 * 128 * 3) / 1000);
  EXPECT_EQ(floor.bound_by(), "compute");
}

TEST(TimeFloor, TheRidgeIsOperationsAByte) {
  const Ridge ridge =
      RidgeOf({.bytes_per_second = 2e9, .int8_ops_per_second = 1e11, .f32_ops_per_second = 2e10});
  EXPECT_DOUBLE_EQ(ridge.int8_ops_per_byte, 50);
  EXPECT_DOUBLE_EQ(ridge.f32_ops_per_byte, 10);
}

TEST(TimeFloor, TheFormulaAndTheCountedStepsAgreeOnTheBatch) {
  const TinyShape shape;
  for (const double ops : {1e8, 3e8, 2e9, 9e9}) {
    for (const int depth : {0, 3, 200}) {
      const MachineLimits limits{
          .bytes_per_second = 1e8, .int8_ops_per_second = ops, .f32_ops_per_second = ops};
      const ComputeBoundBatch batch = ComputeBoundBatchOf(shape.model(), limits, depth);
      if (batch.formula > kMostFloorSequences || batch.formula == 0) {
        EXPECT_EQ(batch.counted, 0) << ops << " " << depth;
        continue;
      }
      EXPECT_EQ(batch.counted, static_cast<int>(std::ceil(batch.formula))) << ops << " " << depth;
      const TimeFloor at = TpotFloor(shape.model(), limits, depth, 1, batch.counted);
      EXPECT_EQ(at.bound_by(), "compute");
      if (batch.counted == 1) continue;
      const TimeFloor below = TpotFloor(shape.model(), limits, depth, 1, batch.counted - 1);
      EXPECT_EQ(below.bound_by(), "memory");
    }
  }
}

// A token's keys take more time to read than its arithmetic: more sequences never help.
TEST(TimeFloor, DeepContextsAreBoundByMemoryAtAnyBatch) {
  const TinyShape shape;
  const ComputeBoundBatch batch = ComputeBoundBatchOf(shape.model(), kSlowMemory, 1000);
  EXPECT_EQ(batch.formula, 0);
  EXPECT_EQ(batch.counted, 0);
}

}  // namespace
}  // namespace quire
