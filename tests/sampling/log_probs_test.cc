#include "sampling/log_probs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace quire {
namespace {

using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<int32_t> Tokens(const LogProbs& log_probs) {
  std::vector<int32_t> tokens;
  for (const TokenLogProb& entry : log_probs.top) tokens.push_back(entry.token);
  return tokens;
}

TEST(LogProbs, AreTheLogarithmOfTheSoftmax) {
  const LogProbs result = ComputeLogProbs(std::vector<float>{3, 2, 1}, 3, 1).value();
  ASSERT_EQ(Tokens(result), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_NEAR(result.top[0].log_prob, -0.40760596, 1e-7);
  EXPECT_NEAR(result.top[1].log_prob, -1.40760596, 1e-7);
  EXPECT_NEAR(result.top[2].log_prob, -2.40760596, 1e-7);
  EXPECT_EQ(result.chosen.token, 1);
  EXPECT_EQ(result.chosen.log_prob, result.top[1].log_prob);
}

TEST(LogProbs, AreSortedWithTiesByLowerId) {
  const LogProbs result = ComputeLogProbs(std::vector<float>{1, 5, 2, 5, 2}, 4, 1).value();
  EXPECT_EQ(Tokens(result), (std::vector<int32_t>{1, 3, 2, 4}));
}

TEST(LogProbs, TheChosenTokenFollowsTheBestWhereItIsNotAmongThem) {
  EXPECT_EQ(Tokens(ComputeLogProbs(std::vector<float>{3, 2, 1}, 1, 2).value()),
            (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(Tokens(ComputeLogProbs(std::vector<float>{3, 2, 1}, 0, 2).value()),
            (std::vector<int32_t>{2}));
}

TEST(LogProbs, MaskedTokensAreLeftOut) {
  const LogProbs result =
      ComputeLogProbs(std::vector<float>{-kInfinity, 2, -kInfinity}, 3, 1).value();
  EXPECT_EQ(Tokens(result), (std::vector<int32_t>{1}));
  EXPECT_EQ(result.top[0].log_prob, 0.0);
}

TEST(LogProbs, AFlatVocabularySharesOneEqually) {
  const std::vector<float> logits(262144, -4.25f);
  const LogProbs result = ComputeLogProbs(logits, 1, 0).value();
  EXPECT_NEAR(result.chosen.log_prob, -std::log(262144.0), 1e-12);
}

TEST(LogProbs, NotANumberIsAnErrorThatNamesTheToken) {
  const auto result = ComputeLogProbs(std::vector<float>{1, std::nanf("")}, 1, 0);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kNumeric);
  EXPECT_THAT(result.error().message, HasSubstr("token 1 is nan"));
}

TEST(LogProbs, TheBestAndTheFirstUnfitTokenAreFoundAtEveryPlaceOfARow) {
  for (size_t size = 1; size <= 70; ++size) {
    for (size_t at = 0; at < size; ++at) {
      std::vector<float> logits(size, -kInfinity);
      logits[at] = 1;
      if (at + 1 < size) logits[size - 1] = 1;  // a tie
      EXPECT_EQ(ComputeLogProbs(logits, 1, 0).value().top[0].token, static_cast<int>(at));
      logits[at] = at % 2 == 0 ? std::nanf("") : kInfinity;
      EXPECT_THAT(ComputeLogProbs(logits, 1, 0).error().message,
                  HasSubstr("the logit of token " + std::to_string(at) + " is "));
    }
  }
}

TEST(BestLogProbs, AreTheBestTokensThatAreNotBanned) {
  const std::vector<float> logits = {3, 2, 1, 2, -kInfinity};
  const LogProbs all = ComputeLogProbs(logits, 4, 0).value();
  const auto best = ComputeBestLogProbs(logits, 2, std::vector<int32_t>{0, 0, 99, -1}).value();
  ASSERT_EQ(best.size(), 2u);
  EXPECT_EQ(best[0].token, 1);
  EXPECT_EQ(best[1].token, 3);
  EXPECT_EQ(best[0].log_prob, all.top[1].log_prob);
  EXPECT_EQ(ComputeBestLogProbs(logits, 9, {}).value().size(), 4u);
  EXPECT_TRUE(ComputeBestLogProbs(logits, 3, std::vector<int32_t>{0, 1, 2, 3}).value().empty());
}

TEST(BestLogProbs, ARowThatCannotBeReadIsAnError) {
  EXPECT_EQ(ComputeBestLogProbs(std::vector<float>{1, std::nanf("")}, 1, {}).error().code,
            ErrorCode::kNumeric);
}

}  // namespace
}  // namespace quire
