#include "sampling/weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace quire {
namespace {

constexpr double kOne = 0x1p43;

TEST(Weights, TheBestTokenWeighsOneExactly) {
  std::vector<uint64_t> weights(2);
  ComputeWeights(std::vector<float>{7.5f, 7.5f}, 7.5f, 1.0 / 0.3, weights);
  EXPECT_EQ(weights[0], uint64_t{1} << kWeightBits);
  EXPECT_EQ(weights[1], uint64_t{1} << kWeightBits);
}

TEST(Weights, AreTheRoundedExponential) {
  std::vector<float> logits;
  for (int i = 0; i <= 4000; ++i) logits.push_back(-0.01f * static_cast<float>(i));
  std::vector<uint64_t> weights(logits.size());
  ComputeWeights(logits, 0.0f, 1.0, weights);
  for (size_t i = 0; i < logits.size(); ++i) {
    const double expected = std::exp(static_cast<double>(logits[i])) * kOne;
    EXPECT_NEAR(static_cast<double>(weights[i]), expected, 0.51 + expected * 4e-16) << logits[i];
  }
}

TEST(Weights, MaskedAndHopelessTokensWeighNothing) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<uint64_t> weights(3);
  ComputeWeights(std::vector<float>{-infinity, -31.0f, -3e38f}, 0.0f, 1e5, weights);
  EXPECT_EQ(weights, (std::vector<uint64_t>{0, 0, 0}));
}

TEST(Weights, EveryInstructionSetGivesTheSameBits) {
  std::mt19937 random(4);
  std::vector<float> logits(10007);
  for (float& logit : logits) logit = std::uniform_real_distribution<float>(-40, 0)(random);
  logits[17] = -std::numeric_limits<float>::infinity();
  logits[18] = -0.0f;
  for (const double inverse_temperature : {0.5, 1.0, 1.0 / 0.7, 1e5}) {
    std::vector<uint64_t> weights(logits.size());
    std::vector<uint64_t> portable(logits.size());
    ComputeWeights(logits, 0.0f, inverse_temperature, weights);
    ComputeWeightsPortably(logits, 0.0f, inverse_temperature, portable);
    EXPECT_EQ(weights, portable) << inverse_temperature;
  }
}

TEST(Weights, TheSumOfTheLargestVocabularyFits) {
  const std::vector<uint64_t> weights(kMaxVocabSize, uint64_t{1} << kWeightBits);
  EXPECT_EQ(SumWeights(weights), uint64_t{1} << 63);
}

}  // namespace
}  // namespace quire
