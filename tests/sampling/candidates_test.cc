// Selections against their obvious twins: a full sort and a running sum.
#include "sampling/candidates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "sampling/weights.h"

namespace quire {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<int32_t> SortedTokens(const std::vector<float>& logits) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > -kInfinity) tokens.push_back(static_cast<int32_t>(i));
  }
  std::stable_sort(tokens.begin(), tokens.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  return tokens;
}

// Few distinct values, so that ties abound; some masked.
std::vector<float> RandomLogits(std::mt19937* random, size_t count) {
  std::vector<float> logits(count);
  const int num_values = 1 + static_cast<int>((*random)() % 40);
  for (float& logit : logits) {
    const int value = static_cast<int>((*random)() % static_cast<unsigned>(num_values)) - 20;
    logit = value == -20 ? -kInfinity : 0.5f * static_cast<float>(value);
  }
  logits[(*random)() % count] = 1.0f;
  return logits;
}

TEST(RankKey, OrdersByLogitThenByLowerId) {
  EXPECT_GT(RankKey(2.0f, 9), RankKey(1.0f, 0));
  EXPECT_GT(RankKey(1.0f, 0), RankKey(-1.0f, 0));
  EXPECT_GT(RankKey(-1.0f, 0), RankKey(-2.0f, 0));
  EXPECT_GT(RankKey(-2.0f, 0), RankKey(-kInfinity, 0));
  EXPECT_GT(RankKey(1.0f, 3), RankKey(1.0f, 4));
  EXPECT_GT(RankKey(-0.0f, 3), RankKey(0.0f, 4));
  EXPECT_EQ(TokenOf(RankKey(-3.5f, 151935)), 151935);
}

TEST(SelectBest, EqualsTheHeadOfAFullSort) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    const std::vector<float> logits = RandomLogits(&random, 1 + random() % 300);
    const size_t count = random() % 40;
    std::vector<int32_t> expected = SortedTokens(logits);
    expected.resize(std::min(count, expected.size()));
    std::vector<uint64_t> keys;
    SelectBest(logits, count, &keys);
    std::vector<int32_t> tokens;
    for (const uint64_t key : keys) tokens.push_back(TokenOf(key));
    ASSERT_EQ(tokens, expected) << "round " << round << ", " << count << " of " << logits.size();
  }
}

TEST(SelectNucleus, EqualsARunningSumOverAFullSort) {
  std::mt19937 random(8);
  std::vector<uint64_t> scratch;
  for (int round = 0; round < 400; ++round) {
    const std::vector<float> logits = RandomLogits(&random, 1 + random() % 300);
    const std::vector<int32_t> sorted = SortedTokens(logits);
    std::vector<uint64_t> weights(logits.size());
    ComputeWeights(logits, logits[static_cast<size_t>(sorted[0])], 1.0, weights);
    const uint64_t target =
        NucleusTarget(static_cast<float>(random() % 1001) / 1000.0f, SumWeights(weights));
    uint64_t sum = 0;
    size_t last = 0;
    for (; sum < target; ++last) sum += weights[static_cast<size_t>(sorted[last])];
    const uint64_t lowest_key = SelectNucleus(logits, weights, target, &scratch);
    ASSERT_EQ(TokenOf(lowest_key), sorted[last - 1]) << "round " << round;
  }
}

TEST(NucleusTarget, RoundsUpAndIsNeverZero) {
  EXPECT_EQ(NucleusTarget(0.0f, 1000), 1u);
  EXPECT_EQ(NucleusTarget(1e-9f, 1000), 1u);
  EXPECT_EQ(NucleusTarget(0.5f, 1000), 500u);
  EXPECT_EQ(NucleusTarget(0.5f, 1001), 501u);
  EXPECT_EQ(NucleusTarget(1.0f, uint64_t{1} << 63), uint64_t{1} << 63);
}

}  // namespace
}  // namespace quire
