#include "engine/prefill_depth.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace quire {
namespace {

// Prompts in steps of 512 tokens on a machine that is made up: a token at position p costs
// token_ms + p * depth_ms, times what noise and `load` make of it.
class PrefillDepthTest : public ::testing::Test {
 protected:
  static constexpr double kTokenMs = 4;
  static constexpr double kDepthMs = .0005;  // twice as much at 8,000

  void Step(double first_position) {
    const double mean = first_position + 255.5;
    double token_ms = load_ * (kTokenMs + kDepthMs * mean);
    if (noise_ > 0) token_ms *= std::uniform_real_distribution(1 - noise_, 1 + noise_)(random_);
    if (std::bernoulli_distribution(wild_)(random_)) {
      token_ms *= std::uniform_real_distribution(1.5, 20.)(random_);
    }
    depth_.Observe(mean, token_ms);
  }
  void Prompt(int num_tokens) {
    for (int first = 0; first < num_tokens; first += 512) Step(first);
  }
  void ExpectNear(double share) {
    EXPECT_NEAR(depth_.cost().token_ms, load_ * kTokenMs, share * load_ * kTokenMs);
    EXPECT_NEAR(depth_.cost().depth_ms, load_ * kDepthMs, share * load_ * kDepthMs);
  }
  // Of a whole prompt, which is what decisions ask for.
  double Of(int num_tokens) const { return depth_.cost().Ms(0, num_tokens); }
  double TrueOf(int num_tokens) const {
    return load_ * PrefillCost{.token_ms = kTokenMs, .depth_ms = kDepthMs}.Ms(0, num_tokens);
  }

  PrefillDepth depth_;
  double noise_ = 0;  // of a step
  double wild_ = 0;   // the share of steps that take far too long
  double load_ = 1;   // times so long, all of them
  std::mt19937 random_{11};
};

TEST_F(PrefillDepthTest, IsExactWithoutNoise) {
  Prompt(4096);
  ExpectNear(1e-9);
}

TEST_F(PrefillDepthTest, StepsAtOneDepthSayNothingOfOthers) {
  for (int i = 0; i < 100; ++i) Step(1000 + i % 2 * 64);
  EXPECT_EQ(depth_.cost().depth_ms, 0);
  EXPECT_NEAR(depth_.cost().token_ms, kTokenMs + kDepthMs * 1287.5, .05);
}

TEST_F(PrefillDepthTest, ThreeStepsAreTooFewForDepth) {
  Prompt(3 * 512);
  EXPECT_EQ(depth_.cost().depth_ms, 0);
  Prompt(2048);
  ExpectNear(1e-9);
}

TEST_F(PrefillDepthTest, NoiseIsEvenedOut) {
  noise_ = .1;
  for (int i = 0; i < 8; ++i) Prompt(8192);
  ExpectNear(.1);
}

TEST_F(PrefillDepthTest, WildStepsAreLeftAside) {
  noise_ = .03;
  wild_ = .15;
  for (int i = 0; i < 8; ++i) Prompt(8192);
  ExpectNear(.15);
}

TEST_F(PrefillDepthTest, PromptsOfAllLengthsTellTheSame) {
  noise_ = .05;
  for (int i = 0; i < 60; ++i) {
    Prompt(std::uniform_int_distribution(1, 9000)(random_));
  }
  ExpectNear(.1);
}

TEST_F(PrefillDepthTest, OneSlowStepMovesNothing) {
  Prompt(8192);
  depth_.Observe(4000, 400);
  ExpectNear(1e-9);
  depth_.Observe(4000, .01);
  ExpectNear(1e-9);
}

TEST_F(PrefillDepthTest, ABusyMachineIsFollowedInAFewSteps) {
  for (int i = 0; i < 4; ++i) Prompt(8192);
  load_ = 3;
  for (int i = 0; i <= PrefillDepth::kLevelSteps / 2; ++i) Step(512 * i);
  ExpectNear(1e-9);
  load_ = 1;
  for (int i = 0; i <= PrefillDepth::kLevelSteps / 2; ++i) Step(512 * i);
  ExpectNear(1e-9);
}

TEST_F(PrefillDepthTest, AChangeInTheMiddleOfAPromptIsNotTakenForDepthForLong) {
  noise_ = .02;
  for (int i = 0; i < 4; ++i) Prompt(8192);
  Prompt(4096);
  load_ = 2;
  for (int first = 4096; first < 8192; first += 512) Step(first);
  for (const int num_tokens : {1000, 4000, 16'000}) {
    EXPECT_NEAR(Of(num_tokens), TrueOf(num_tokens), .2 * TrueOf(num_tokens));
  }
  for (int i = 0; i < 4; ++i) Prompt(8192);
  ExpectNear(.1);
}

TEST_F(PrefillDepthTest, AMachineThatIsChangedForGoodIsLearnedAnew) {
  for (int i = 0; i < 4; ++i) Prompt(8192);
  // Another ratio of depth to the rest.
  for (int i = 0; i < 64; ++i) depth_.Observe(i % 16 * 512, 1 + i % 16 * 512 * .01);
  EXPECT_NEAR(depth_.cost().token_ms, 1, 1e-9);
  EXPECT_NEAR(depth_.cost().depth_ms, .01, 1e-9);
}

TEST_F(PrefillDepthTest, CostsAreNeverBelowNothing) {
  for (int i = 0; i < 64; ++i) depth_.Observe(i % 16 * 512, 10 - i % 16 * .5);
  EXPECT_EQ(depth_.cost().depth_ms, 0);
  EXPECT_GT(depth_.cost().token_ms, 0);
  for (int i = 0; i < 64; ++i) depth_.Observe(i % 16 * 512, .001 + i % 16 * i % 16 * 1e6);
  EXPECT_GT(depth_.cost().token_ms, 0);
  EXPECT_TRUE(std::isfinite(depth_.cost().depth_ms));
}

}  // namespace
}  // namespace quire
