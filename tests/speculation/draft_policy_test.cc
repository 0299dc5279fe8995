#include "speculation/draft_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <vector>

namespace quire {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;

// Chances of drafts that come true one by one with the same rate.
std::vector<double> Chances(double rate, int count) {
  std::vector<double> chances;
  double chance = 1;
  for (int i = 0; i < count; ++i) chances.push_back(chance *= rate);
  return chances;
}

// Steps of so many decodes whose time is a function of their rows, all of them seen.
DraftPolicy Measured(int num_decodes, const std::function<double(int)>& ms_of_rows) {
  DraftPolicy policy;
  for (int rows = num_decodes; rows <= StepTimes::kMostRows; ++rows) {
    for (int i = 0; i < 3; ++i) policy.Observe(num_decodes, rows, ms_of_rows(rows));
  }
  return policy;
}

std::vector<int> Choose(const DraftPolicy& policy,
                        const std::vector<std::vector<double>>& chances) {
  return policy.Choose(chances, 512);
}

TEST(DraftPolicy, DraftsNothingBeforeAPlainStepWasSeen) {
  const DraftPolicy policy;
  EXPECT_THAT(Choose(policy, {Chances(1, 15)}), ElementsAre(0));
}

TEST(DraftPolicy, TriesRowsThatWereNotSeenWhereDraftsAreSure) {
  DraftPolicy policy;
  for (int i = 0; i < 3; ++i) policy.Observe(1, 1, 50);
  EXPECT_THAT(Choose(policy, {Chances(.95, 15)}), ElementsAre(15));
  EXPECT_THAT(Choose(policy, {Chances(.01, 15)}), ElementsAre(0));
}

TEST(DraftPolicy, DraftsAllWhereRowsAreFreeAndDraftsAreSure) {
  const DraftPolicy policy = Measured(1, [](int) { return 50.0; });
  EXPECT_THAT(Choose(policy, {Chances(.99, 15)}), ElementsAre(15));
}

TEST(DraftPolicy, DraftsNothingWhereARowCostsAsMuchAsAStep) {
  const DraftPolicy policy = Measured(1, [](int rows) { return 50.0 * rows; });
  EXPECT_THAT(Choose(policy, {Chances(.9, 15)}), ElementsAre(0));
}

TEST(DraftPolicy, DraftsNothingThatGainsLessThanTheMargin) {
  const DraftPolicy policy = Measured(1, [](int rows) { return rows == 1 ? 50.0 : 51.0; });
  EXPECT_THAT(Choose(policy, {{.06}}), ElementsAre(0));
  EXPECT_THAT(Choose(policy, {{.08}}), ElementsAre(1));
}

TEST(DraftPolicy, StopsAtTheStepOfTheStair) {
  // Eight rows cost as much as two, nine cost twice as much.
  const DraftPolicy policy = Measured(1, [](int rows) {
    return rows == 1 ? 50.0 : rows <= 8 ? 60.0 : 120.0;
  });
  EXPECT_THAT(Choose(policy, {Chances(.9, 15)}), ElementsAre(7));
}

TEST(DraftPolicy, GivesTheRowsToTheLikeliestDrafts) {
  const DraftPolicy policy = Measured(3, [](int rows) { return rows <= 8 ? 50.0 : 500.0; });
  const std::vector<int> counts = Choose(policy, {Chances(.3, 7), Chances(.95, 7), {}});
  EXPECT_EQ(counts[2], 0);
  EXPECT_GT(counts[1], counts[0]);
  EXPECT_EQ(counts[0] + counts[1], 5);
}

TEST(DraftPolicy, DraftsNothingInFullBatches) {
  for (const int num_decodes : {24, StepTimes::kMostRows}) {
    const DraftPolicy policy = Measured(num_decodes, [](int rows) { return 5.0 * rows; });
    const std::vector<std::vector<double>> many(num_decodes, Chances(.99, 15));
    EXPECT_THAT(Choose(policy, many), Each(0)) << num_decodes;
  }
  const DraftPolicy policy = Measured(1, [](int) { return 50.0; });
  const std::vector<std::vector<double>> more(200, Chances(.99, 15));
  EXPECT_THAT(Choose(policy, more), Each(0));
}

TEST(DraftPolicy, KeepsToTheRowsThatAreLeft) {
  const DraftPolicy policy = Measured(1, [](int) { return 50.0; });
  const std::vector<std::vector<double>> chances{Chances(.99, 15)};
  EXPECT_THAT(policy.Choose(chances, 3), ElementsAre(3));
  EXPECT_THAT(policy.Choose(chances, 0), ElementsAre(0));
}

// Eight decode; a further row costs 8 % of their step.
double OfEightDecodes(int rows) { return rows <= 8 ? 50.0 : 50.0 + 4 * (rows - 8); }

TEST(DraftPolicy, LetsNobodyWithoutDraftsWaitMuchLonger) {
  const DraftPolicy policy = Measured(8, OfEightDecodes);
  // More tokens in all with every further draft of the first; the others would pay for them.
  std::vector<std::vector<double>> chances(8);
  chances[0] = Chances(1, 15);
  EXPECT_THAT(Choose(policy, chances), ElementsAre(2, 0, 0, 0, 0, 0, 0, 0));
  // Nor does a draft that is worth next to nothing stand for consent.
  for (int i = 1; i < 8; ++i) chances[i] = {.02};
  EXPECT_LE(Choose(policy, chances)[0], 2);
  // Where all gain alike, nobody pays.
  for (int i = 1; i < 8; ++i) chances[i] = Chances(1, 15);
  EXPECT_THAT(Choose(policy, chances), Each(Ge(2)));
}

TEST(DraftPolicy, LetsAStepTakeTheSchedulersTargetWhereThereIsOne) {
  const DraftPolicy policy = Measured(8, OfEightDecodes);
  std::vector<std::vector<double>> chances(8);
  chances[0] = Chances(1, 15);
  EXPECT_EQ(policy.Choose(chances, 512, 81)[0], 6);
  EXPECT_EQ(policy.Choose(chances, 512, 61)[0], 2);
  EXPECT_EQ(policy.Choose(chances, 512, 54)[0], 0);
  EXPECT_EQ(policy.Choose(chances, 512, 40)[0], 2);  // less than without drafts: no target to keep
}

// One sequence whose drafts come true with a rate each, on a machine where a step takes plain_ms,
// and row_ms more for each draft.
struct Machine {
  double plain_ms = 50;
  double row_ms = 20;
  double rate = .3;

  // Tokens a second of so many steps that the policy chooses and learns from, over those of plain
  // steps.
  double Run(DraftPolicy& policy, int num_steps) const {
    double tokens = 0;
    double ms = 0;
    for (int step = 0; step < num_steps; ++step) {
      const std::vector<double> chances = Chances(rate, 15);
      const int count = Choose(policy, {chances})[0];
      const double step_ms = plain_ms + row_ms * count;
      policy.Observe(1, 1 + count, step_ms);
      tokens += 1 + std::accumulate(chances.begin(), chances.begin() + count, 0.0);
      ms += step_ms;
    }
    return tokens / ms * plain_ms;
  }
};

TEST(DraftPolicy, FindsOutThatPlainStepsTakeLessThanTheyDid) {
  for (const double row_ms : {3.0, 10.0, 20.0, 45.0, 60.0}) {
    SCOPED_TRACE(row_ms);
    DraftPolicy policy;
    for (int i = 0; i < 9; ++i) policy.Observe(1, 1, 100);
    const Machine machine{.row_ms = row_ms};
    machine.Run(policy, 150);
    EXPECT_GE(machine.Run(policy, 500), .97);
  }
}

TEST(DraftPolicy, DraftsAgainWhereSequencesBecameDeeper) {
  DraftPolicy policy;
  const Machine shallow{.row_ms = 3, .rate = .95};
  shallow.Run(policy, 300);
  const double best = shallow.Run(policy, 300);
  EXPECT_GT(best, 4);
  // Twice the time for plain steps and rows alike: drafts are worth what they were.
  const Machine deep{.plain_ms = 100, .row_ms = 6, .rate = .95};
  deep.Run(policy, 150);
  EXPECT_GT(deep.Run(policy, 300), .95 * best);
}

TEST(DraftPolicy, MakesFewPlainStepsWhereDraftsAlwaysPay) {
  DraftPolicy policy;
  const Machine machine{.row_ms = 1, .rate = .99};
  machine.Run(policy, 100);
  const double all_drafted = (1 + 15 * .93) / (50 + 15);
  EXPECT_GT(machine.Run(policy, 1000) / 50, .95 * all_drafted);
}

StepTimes WithPlain(double plain_ms, int num_decodes = 1) {
  StepTimes times;
  for (int i = 0; i < 3; ++i) times.Observe(num_decodes, num_decodes, plain_ms);
  return times;
}

TEST(StepTimes, AreMediansOfEachNumberOfRows) {
  StepTimes times = WithPlain(10);
  EXPECT_EQ(times.PlainMs(1), 10);
  for (const double ms : {12.0, 90.0, 15.0, 16.0, 12.0}) times.Observe(1, 4, ms);
  EXPECT_DOUBLE_EQ(times.Ratio(1, 4), 1.5);
  EXPECT_DOUBLE_EQ(times.MeasuredRatio(1, 4), 1.5);
  EXPECT_EQ(times.MeasuredRatio(1, 3), 0);
  EXPECT_EQ(times.MeasuredRatio(1, 33), 0);
}

TEST(StepTimes, OfARowCountNotSeenLieBetweenItsNeighbours) {
  StepTimes times = WithPlain(50);
  for (int i = 0; i < 3; ++i) times.Observe(1, 9, 90);
  EXPECT_DOUBLE_EQ(times.Ratio(1, 5), 1.4);
  EXPECT_GT(times.Ratio(1, 12), 1.8);
}

TEST(StepTimes, OfOtherNumbersOfDecodesTellNothing) {
  // Eight rows: seven deep sequences with a draft, and one shallow with seven.
  StepTimes times = WithPlain(200, 7);
  for (int i = 0; i < 3; ++i) times.Observe(7, 8, 210);
  for (int i = 0; i < 3; ++i) times.Observe(1, 1, 50);
  EXPECT_DOUBLE_EQ(times.Ratio(7, 8), 1.05);
  EXPECT_LT(times.Ratio(1, 8), 1.5);
  for (int i = 0; i < 3; ++i) times.Observe(1, 8, 60);
  EXPECT_DOUBLE_EQ(times.Ratio(7, 8), 1.05);
  EXPECT_DOUBLE_EQ(times.Ratio(1, 8), 1.2);
}

TEST(StepTimes, OfDraftsFollowTheDepthOfThePlainStep) {
  StepTimes times = WithPlain(50);
  for (int i = 0; i < 3; ++i) times.Observe(1, 8, 60);
  for (int i = 0; i < 5; ++i) times.Observe(1, 1, 55);
  EXPECT_DOUBLE_EQ(times.Ratio(1, 8), 1.2);
}

TEST(StepTimes, ForgetASlowMomentThatWasLongAgo) {
  StepTimes times = WithPlain(50);
  for (int i = 0; i < 3; ++i) times.Observe(1, 8, 1000);
  EXPECT_EQ(times.Ratio(1, 8), 20);
  for (int i = 0; i < StepTimes::kFreshSteps + 1; ++i) times.Observe(1, 1, 50);
  EXPECT_LT(times.Ratio(1, 8), 2);
}

TEST(StepTimes, ForgetWhatWasMeasuredBesideAnotherPlainStep) {
  StepTimes times = WithPlain(50);
  for (int i = 0; i < 3; ++i) times.Observe(1, 8, 150);
  EXPECT_EQ(times.Ratio(1, 8), 3);
  for (int i = 0; i < 5; ++i) times.Observe(1, 1, 120);
  EXPECT_LT(times.Ratio(1, 8), 2);
}

TEST(StepTimes, AskForAPlainStepAfterManyWithDrafts) {
  StepTimes times = WithPlain(50);
  for (int i = 0; i < StepTimes::kFreshPlainSteps; ++i) times.Observe(1, 8, 60);
  EXPECT_EQ(times.PlainMs(1), 50);
  times.Observe(1, 8, 60);
  EXPECT_EQ(times.PlainMs(1), 0);
  EXPECT_EQ(times.MeasuredRatio(1, 8), 0);
  // What the old ones said is gone with the first that comes.
  times.Observe(1, 1, 60);
  EXPECT_EQ(times.PlainMs(1), 0);
  times.Observe(1, 1, 60);
  EXPECT_EQ(times.PlainMs(1), 60);
}

TEST(StepTimes, DoubtAPlainStepThatStepsWithDraftsUndercut) {
  StepTimes times = WithPlain(100);
  times.Observe(1, 4, 60);
  times.Observe(1, 4, 60);
  times.Observe(1, 4, 110);  // so it was an accident
  times.Observe(1, 4, 60);
  times.Observe(1, 4, 60);
  EXPECT_EQ(times.PlainMs(1), 100);
  times.Observe(1, 4, 60);
  EXPECT_EQ(times.PlainMs(1), 0);
}

TEST(StepTimes, PassOverWhatIsNoTime) {
  StepTimes times;
  for (const double ms : {0.0, -1.0, 1.0 / 0.0, 0.0 / 0.0}) {
    times.Observe(1, 1, ms);
    times.Observe(1, 1, ms);
  }
  times.Observe(0, 1, 5);
  times.Observe(3, 2, 5);
  times.Observe(40, 40, 5);
  EXPECT_EQ(times.PlainMs(1), 0);
  EXPECT_EQ(times.PlainMs(0), 0);
  EXPECT_EQ(times.PlainMs(40), 0);
}

}  // namespace
}  // namespace quire
