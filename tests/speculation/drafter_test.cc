#include "speculation/drafter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(HitRates, ClassesFollowOneAnother) {
  EXPECT_EQ(HitRates::ClassOf(0), 0);
  for (int length = 1; length < 100; ++length) {
    EXPECT_GE(HitRates::ClassOf(length), HitRates::ClassOf(length - 1));
    EXPECT_LT(HitRates::ClassOf(length), HitRates::kCachedClass);
  }
}

TEST(HitRates, FollowWhatCameTrue) {
  HitRates rates;
  const double before = rates.Rate(3);
  for (int i = 0; i < 1000; ++i) rates.Add(3, true);
  EXPECT_GT(rates.Rate(3), .95);
  for (int i = 0; i < 1000; ++i) rates.Add(3, false);
  EXPECT_LT(rates.Rate(3), .05);
  EXPECT_LT(rates.Rate(3), before);
  EXPECT_EQ(rates.Rate(4), HitRates().Rate(4));
}

TEST(HitRates, OfASequenceBeginWithThoseOfAllAndFollowItsOwn) {
  HitRates all;
  for (int i = 0; i < 500; ++i) all.Add(2, true);
  HitRates own(all, 6, 48);
  EXPECT_DOUBLE_EQ(own.Rate(2), all.Rate(2));
  for (int i = 0; i < 20; ++i) own.Add(2, false);
  EXPECT_LT(own.Rate(2), .3);
}

class DrafterTest : public ::testing::Test {
 protected:
  void Say(Drafter& drafter, int32_t token) {
    tokens_.push_back(token);
    drafter.Push(tokens_, rates_);
  }

  std::vector<int32_t> tokens_{1, 2, 3, 4, 5, 6, 1, 2, 3};
  HitRates rates_;
};

TEST_F(DrafterTest, DraftsWhatItsTextSaidBefore) {
  const Drafter drafter(tokens_, rates_);
  EXPECT_THAT(drafter.Draft(tokens_, 4), ElementsAre(4, 5, 6, 1));
  const std::vector<double> chances = drafter.Chances(3);
  ASSERT_EQ(chances.size(), 3u);
  EXPECT_DOUBLE_EQ(chances[0], rates_.Rate(HitRates::ClassOf(3)));
  EXPECT_DOUBLE_EQ(chances[1], chances[0] * rates_.Rate(HitRates::ClassOf(4)));
}

TEST_F(DrafterTest, LearnsFromTokensThatNobodyDrafted) {
  Drafter drafter(tokens_, rates_);
  const double before = rates_.Rate(HitRates::ClassOf(3));
  Say(drafter, 4);
  EXPECT_GT(rates_.Rate(HitRates::ClassOf(3)), before);
  const double of_four = rates_.Rate(HitRates::ClassOf(4));
  Say(drafter, 9);
  EXPECT_LT(rates_.Rate(HitRates::ClassOf(4)), of_four);
}

TEST_F(DrafterTest, TakesAContinuationOnlyWhereItsOwnTextHasNone) {
  Drafter drafter(tokens_, rates_);
  EXPECT_FALSE(drafter.WantsContinuation());
  for (const int32_t token : {20, 21, 22, 23, 24, 25, 26, 27, 28, 29}) Say(drafter, token);
  EXPECT_TRUE(drafter.WantsContinuation());
  EXPECT_THAT(drafter.Chances(5), IsEmpty());
  drafter.SetContinuation({30, 31, 32});
  EXPECT_FALSE(drafter.WantsContinuation());
  EXPECT_EQ(drafter.Chances(5).size(), 3u);
  EXPECT_THAT(drafter.Draft(tokens_, 2), ElementsAre(30, 31));
  Say(drafter, 30);
  EXPECT_THAT(drafter.Draft(tokens_, 5), ElementsAre(31, 32));
  Say(drafter, 40);
  EXPECT_THAT(drafter.Chances(5), IsEmpty());
}

TEST_F(DrafterTest, RepeatsTheLastTokenWhereNothingIsPredicted) {
  tokens_ = {1, 2, 3};
  const Drafter drafter(tokens_, rates_);
  EXPECT_THAT(drafter.Draft(tokens_, 3), ElementsAre(3, 3, 3));
}

}  // namespace
}  // namespace quire
