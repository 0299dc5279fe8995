#include "engine/step_costs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace quire {
namespace {

TEST(StepCosts, NothingIsKnownBeforeTheFirstStep) {
  const StepCostEstimate estimate = StepCosts().Estimate(4);
  EXPECT_EQ(estimate.decode_step_ms, 0);
  EXPECT_EQ(estimate.prefill_token_ms, 0);
}

TEST(StepCosts, OnePrefillStepTellsTheCostOfAToken) {
  StepCosts costs;
  costs.Observe(0, 100, 250);
  EXPECT_DOUBLE_EQ(costs.Estimate(1).prefill_token_ms, 2.5);
  EXPECT_EQ(costs.Estimate(1).decode_step_ms, 0);
}

TEST(StepCosts, OneDecodeStepTellsWhatSuchAStepCosts) {
  StepCosts costs;
  costs.Observe(1, 0, 20);
  EXPECT_DOUBLE_EQ(costs.Estimate(1).decode_step_ms, 20);
}

TEST(StepCosts, AStepOfMoreDecodesIsTakenToCostMoreButNotInProportion) {
  StepCosts costs;
  costs.Observe(1, 0, 20);
  EXPECT_GT(costs.Estimate(4).decode_step_ms, 20);
  EXPECT_LT(costs.Estimate(4).decode_step_ms, 80);
}

TEST(StepCosts, NumbersOfDecodesThatWereSeenKeepTheirOwnFigures) {
  StepCosts costs;
  costs.Observe(1, 0, 20);
  costs.Observe(16, 0, 33);
  EXPECT_NEAR(costs.Estimate(1).decode_step_ms, 20, 1e-9);
  EXPECT_NEAR(costs.Estimate(16).decode_step_ms, 33, 1e-9);
}

TEST(StepCosts, AMixedStepTellsTheTokenCostThatDecodesLeave) {
  StepCosts costs;
  costs.Observe(2, 0, 30);
  costs.Observe(2, 32, 94);
  EXPECT_NEAR(costs.Estimate(2).prefill_token_ms, 2, 1e-9);
}

TEST(StepCosts, AMixedStepTellsTheDecodeCostThatPrefillLeaves) {
  StepCosts costs;
  costs.Observe(0, 100, 200);
  costs.Observe(3, 32, 94);
  EXPECT_NEAR(costs.Estimate(3).decode_step_ms, 30, 1e-9);
}

TEST(StepCosts, OneSlowStepChangesNothing) {
  StepCosts costs;
  for (int i = 0; i < 5; ++i) {
    costs.Observe(1, 0, 20);
    costs.Observe(0, 100, 200);
  }
  costs.Observe(1, 0, 5000);
  costs.Observe(0, 100, 90000);
  EXPECT_DOUBLE_EQ(costs.Estimate(1).decode_step_ms, 20);
  EXPECT_DOUBLE_EQ(costs.Estimate(1).prefill_token_ms, 2);
}

TEST(StepCosts, AnOutlierAmongTheFirstStepsIsForgottenAtOnce) {
  StepCosts costs;
  costs.Observe(1, 0, 5000);
  costs.Observe(1, 0, 20);
  EXPECT_DOUBLE_EQ(costs.Estimate(1).decode_step_ms, 20);
}

TEST(StepCosts, ALastingChangeIsFollowed) {
  StepCosts costs;
  for (int i = 0; i < 100; ++i) costs.Observe(1, 0, 20);
  for (int i = 0; i <= StepCosts::kSamples / 2; ++i) costs.Observe(1, 0, 60);
  EXPECT_DOUBLE_EQ(costs.Estimate(1).decode_step_ms, 60);
}

TEST(StepCosts, MixedStepsFollowATokenThatCostsMoreAtDepth) {
  StepCosts costs;
  costs.Observe(1, 0, 20);
  costs.Observe(0, 100, 100);
  for (int i = 0; i < 20; ++i) costs.Observe(1, 5, 45);
  EXPECT_NEAR(costs.Estimate(1).decode_step_ms, 20, 1e-9);
  EXPECT_NEAR(costs.Estimate(1).prefill_token_ms, 5, 1e-9);
}

TEST(StepCosts, APromptOfOneTokenIsNotTheMeasureOfOthers) {
  StepCosts costs;
  costs.Observe(0, 1, 30);
  EXPECT_EQ(costs.Estimate(1).prefill_token_ms, 0);
  EXPECT_DOUBLE_EQ(costs.Estimate(1).decode_step_ms, 30);
  costs.Observe(1, 7, 51);
  EXPECT_NEAR(costs.Estimate(1).prefill_token_ms, 3, 1e-9);
}

TEST(StepCosts, WithoutStepsOfDecodesAloneTheirCostIsStillFollowed) {
  StepCosts costs;
  costs.Observe(0, 100, 100);
  for (int i = 0; i < 20; ++i) costs.Observe(4, 50, 90);
  EXPECT_NEAR(costs.Estimate(4).decode_step_ms, 40, 1e-9);
  for (int i = 0; i < 20; ++i) costs.Observe(4, 50, 110);
  EXPECT_NEAR(costs.Estimate(4).decode_step_ms, 60, 1e-9);
}

TEST(StepCosts, DurationsThatCannotBeArePassedOver) {
  StepCosts costs;
  costs.Observe(1, 0, 20);
  for (const double bad : {0., -5., std::nan(""), std::numeric_limits<double>::infinity()}) {
    costs.Observe(1, 0, bad);
    costs.Observe(0, 10, bad);
    costs.Observe(1, 10, bad);
  }
  EXPECT_DOUBLE_EQ(costs.Estimate(1).decode_step_ms, 20);
  EXPECT_EQ(costs.Estimate(1).prefill_token_ms, 0);
}

TEST(StepCosts, AFewTokensDoNotTellWhatATokenOfMany) {
  StepCosts costs;
  costs.Observe(0, 100, 200);
  for (int i = 0; i < 20; ++i) costs.Observe(0, 1, 20);
  EXPECT_DOUBLE_EQ(costs.Estimate(1).prefill_token_ms, 2);
}

// A token costs 2 ms and 1 ms more every 1,000 positions.
void Prefill(StepCosts& costs, int num_decodes, int num_tokens, int first, double decodes_ms) {
  const double mean = first + (num_tokens - 1) / 2.;
  costs.Observe(num_decodes, num_tokens, decodes_ms + num_tokens * (2 + mean / 1000), mean);
}

TEST(StepCosts, OnePrefillStepTellsWhatAPromptCosts) {
  StepCosts costs;
  EXPECT_FALSE(costs.prefill().is_known());
  costs.Observe(0, 256, 512, 127.5);
  EXPECT_DOUBLE_EQ(costs.prefill().token_ms, 2);
  EXPECT_EQ(costs.prefill().depth_ms, 0);
}

TEST(StepCosts, PromptsTellWhatDepthCosts) {
  StepCosts costs;
  for (int first = 0; first < 4096; first += 512) Prefill(costs, 0, 512, first, 0);
  EXPECT_NEAR(costs.prefill().token_ms, 2, 1e-9);
  EXPECT_NEAR(costs.prefill().depth_ms, .001, 1e-12);
}

TEST(StepCosts, ShortStepsAndThoseWithoutAPositionTellNothingOfDepth) {
  StepCosts costs;
  for (int first = 0; first < 4096; first += 63) Prefill(costs, 0, 63, first, 0);
  costs.Observe(0, 512, 100);
  EXPECT_FALSE(costs.prefill().is_known());
}

TEST(StepCosts, BesideDecodesWhatTheyLeaveTellsWhatDepthCosts) {
  StepCosts costs;
  Prefill(costs, 4, 512, 0, 100);  // what the decodes cost is not known
  EXPECT_FALSE(costs.prefill().is_known());
  costs.Observe(4, 0, 100);
  for (int first = 0; first < 4096; first += 512) Prefill(costs, 4, 512, first, 100);
  EXPECT_NEAR(costs.prefill().token_ms, 2, 1e-9);
  EXPECT_NEAR(costs.prefill().depth_ms, .001, 1e-12);
  // Mostly decodes.
  for (int i = 0; i < 20; ++i) costs.Observe(4, 64, 150, 0);
  EXPECT_NEAR(costs.prefill().token_ms, 2, 1e-9);
}

}  // namespace
}  // namespace quire
