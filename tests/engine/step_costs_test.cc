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

}  // namespace
}  // namespace quire
