#include "plan/step_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "plan/loaded_tiny.h"

namespace quire::testing {
namespace {

void ExpectSame(const StepCost& a, const StepCost& b) {
  EXPECT_EQ(a.int8_ops, b.int8_ops);
  EXPECT_EQ(a.f32_ops, b.f32_ops);
  EXPECT_EQ(a.weight_bytes, b.weight_bytes);
  EXPECT_EQ(a.kv_bytes, b.kv_bytes);
}

StepCost Sum(const OperatorCosts& costs) {
  StepCost sum;
  for (const StepCost& cost : costs) sum += cost;
  return sum;
}

const StepCost& Of(const OperatorCosts& costs, DecoderOperator operators) {
  return costs[static_cast<size_t>(operators)];
}

TEST(StepCost, OfTheOperatorsAddsUpToThatOfTheStep) {
  const LoadedTiny tiny({.matrices = DType::kQ8_0});
  for (const auto& [first, tokens, logits] :
       {std::tuple{0, 1, 1}, std::tuple{0, 37, 0}, std::tuple{100, 5, 5}}) {
    ExpectSame(Sum(CostByOperator(tiny.config, tiny.weights, KvType::kF16, first, tokens, logits)),
               CostOfStep(tiny.config, tiny.weights, KvType::kF16, first, tokens, logits));
  }
}

TEST(StepCost, GivesEachOperatorItsOwn) {
  const LoadedTiny tiny({.matrices = DType::kQ8_0});
  const OperatorCosts costs = CostByOperator(tiny.config, tiny.weights, KvType::kF16, 9, 1, 1);
  EXPECT_EQ(Of(costs, DecoderOperator::kEmbed).ops(), 0);
  EXPECT_EQ(Of(costs, DecoderOperator::kNorm).ops(), 0);
  EXPECT_EQ(Of(costs, DecoderOperator::kProject).int8_ops, 2 * 2.0 * (2 * 64 * 64 + 2 * 32 * 64));
  EXPECT_EQ(Of(costs, DecoderOperator::kFeedForward).int8_ops, 2 * 2.0 * 3 * 64 * 64);
  EXPECT_EQ(Of(costs, DecoderOperator::kAttend).f32_ops, 2 * 2.0 * 4 * (16 + 16) * 10);
  EXPECT_EQ(Of(costs, DecoderOperator::kAttend).kv_bytes, 2 * 2.0 * 32 * 2 * 10);
  EXPECT_EQ(Of(costs, DecoderOperator::kStoreKv).kv_bytes, 2 * 2.0 * 32 * 2);
  EXPECT_EQ(Of(costs, DecoderOperator::kOutput).int8_ops, 2.0 * 64 * 64);
}

TEST(StepCost, OfWindowedAttentionIsThatOfItsQueriesOneByOne) {
  LayerConfig layer{.num_heads = 1, .num_kv_heads = 1, .key_dim = 1, .value_dim = 1};
  for (const int window : {0, 1, 7, 16, 1000}) {
    layer.window = window;
    for (const int first : {0, 3, 7, 40}) {
      for (const int tokens : {1, 5, 20}) {
        double keys = 0;
        for (int i = 0; i < tokens; ++i) {
          keys += window == 0 ? first + i + 1 : std::min(window, first + i + 1);
        }
        EXPECT_EQ(AttentionCostOf(layer, KvType::kF16, {first, tokens, 0}).keys_attended, keys)
            << window << " " << first << " " << tokens;
      }
    }
  }
}

TEST(StepCost, OfSeveralSequencesReadsTheWeightsOnce) {
  const LoadedTiny tiny({.matrices = DType::kQ8_0});
  const auto cost = [&](std::initializer_list<SequenceRows> rows) {
    return Sum(
        CostByOperator(tiny.config, tiny.weights, KvType::kF16, std::vector<SequenceRows>(rows)));
  };
  const StepCost one = cost({{20, 1, 1}});
  const StepCost two = cost({{20, 1, 1}, {20, 1, 1}});
  EXPECT_EQ(two.weight_bytes, one.weight_bytes);
  EXPECT_EQ(two.int8_ops, 2 * one.int8_ops);
  EXPECT_EQ(two.kv_bytes, 2 * one.kv_bytes);
}

}  // namespace
}  // namespace quire::testing
