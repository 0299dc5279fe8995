#include "engine/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <numeric>
#include <vector>

namespace quire {
namespace {

using ::testing::ElementsAre;

// A state written down sequence by sequence, and its plan as printed lines.
class SchedulerTest : public ::testing::Test {
 protected:
  SchedulerTest() { Layout({0}); }

  void Layout(const std::vector<int>& windows) {
    std::vector<KvLayerShape> shapes;
    for (const int window : windows) shapes.push_back({1, 4, 4, window});
    layout_ = std::move(KvLayout::Make(shapes, KvType::kF16)).value();
  }

  // Tokens that no other sequence begins with.
  std::span<const int32_t> Tokens(int count) {
    tokens_.emplace_back(count);
    std::iota(tokens_.back().begin(), tokens_.back().end(), 1000 * std::ssize(tokens_));
    return tokens_.back();
  }

  SequenceState& Running(int num_tokens, int num_computed) {
    const int64_t held = layout_.BlocksHeld(num_computed, num_computed);
    running_.push_back({.id = next_id_++,
                        .is_running = true,
                        .tokens = Tokens(num_tokens),
                        .num_computed = num_computed,
                        .blocks_held = held,
                        .blocks_alone = held});
    return running_.back();
  }
  SequenceState& Decoding(int num_tokens) { return Running(num_tokens, num_tokens - 1); }
  SequenceState& Queued(int num_tokens) {
    queue_.push_back({.id = next_id_,
                      .tokens = Tokens(num_tokens),
                      .arrival_ms = static_cast<double>(next_id_)});
    ++next_id_;
    return queue_.back();
  }

  StepPlan Plan() {
    return PlanStep({.now_ms = now_ms_,
                     .costs = costs_,
                     .blocks_available = available_,
                     .layout = &layout_,
                     .running = running_,
                     .queue = queue_},
                    options_);
  }
  std::vector<std::string> Lines() {
    std::vector<std::string> lines;
    for (const PlanLine& line : Plan().lines) lines.push_back(ToString(line));
    return lines;
  }

  KvLayout layout_;
  SchedulerOptions options_;
  StepCostEstimate costs_;
  double now_ms_ = 0;
  int64_t available_ = 100;
  SequenceId next_id_ = 1;
  std::vector<SequenceState> running_, queue_;
  std::deque<std::vector<int32_t>> tokens_;
};

TEST_F(SchedulerTest, AnEmptyStatePlansNothing) {
  const StepPlan plan = Plan();
  EXPECT_TRUE(plan.lines.empty());
  EXPECT_FALSE(plan.computes());
}

TEST_F(SchedulerTest, ALonePromptIsComputedAtOnce) {
  Queued(40);
  EXPECT_THAT(Lines(), ElementsAre("s1 admitted, 0 cached, prefill 0..39 (40 of 40 tokens), "
                                   "3 blocks of 100 available"));
}

TEST_F(SchedulerTest, DecodesComeBeforePrefillWhateverTheirPriority) {
  Running(100, 20);
  Decoding(40).priority = 5;
  EXPECT_THAT(Lines(),
              ElementsAre("s2 decode 39",
                          "s1 prefill 20..50 (31 of 100 tokens, time budget), 2 blocks of 100 "
                          "available"));
}

TEST_F(SchedulerTest, PrefillGoesByPriorityThenAdmission) {
  options_.max_batched_tokens = 48;
  Running(33, 0);
  Running(33, 0);
  Running(33, 0).priority = -1;
  EXPECT_THAT(Lines(),
              ElementsAre("s3 prefill 0..32 (33 of 33 tokens), 3 blocks of 100 available",
                          "s1 prefill 0..14 (15 of 33 tokens, token budget), 1 block of 97 "
                          "available",
                          "s2 waits: token budget used up"));
}

TEST_F(SchedulerTest, AStepNeverTakesMoreTokensThanMayBeBatched) {
  options_.max_batched_tokens = 2;
  Decoding(5);
  Decoding(6);
  Decoding(7);
  Queued(9);
  EXPECT_THAT(Lines(), ElementsAre("s1 decode 4", "s2 decode 5", "s3 waits: token budget used up",
                                   "s4 waits: token budget used up"));
}

TEST_F(SchedulerTest, BesideDecodesPrefillIsHeldToTheTimeOfTheStep) {
  Decoding(10);
  Queued(500);
  costs_ = {.decode_step_ms = 20, .prefill_token_ms = 1};
  options_.target_step_ms = 73;  // leaves 53 tokens; with the decode 54 rows, 48 in whole tiles
  EXPECT_EQ(Plan().token_budget, 47);
  EXPECT_EQ(Plan().num_tokens, 48);
}

TEST_F(SchedulerTest, TheTimeOfAStepFollowsThatOfItsDecodes) {
  Decoding(10);
  Queued(500);
  costs_ = {.decode_step_ms = 40, .prefill_token_ms = 1};
  // 40 ms are left: 40 tokens, 41 rows, 40 in whole tiles.
  EXPECT_EQ(Plan().token_budget, 39);
}

TEST_F(SchedulerTest, PrefillMovesHoweverLittleTimeIsLeft) {
  Decoding(10);
  Queued(500);
  costs_ = {.decode_step_ms = 50, .prefill_token_ms = 3};
  options_.target_step_ms = 10;
  EXPECT_EQ(Plan().token_budget, 3);  // four rows with the decode
  for (int i = 0; i < 5; ++i) Decoding(10);
  EXPECT_EQ(Plan().token_budget, 4);  // a whole tile would leave two beside six
}

TEST_F(SchedulerTest, PrefillIsCautiousWhileCostsAreNotKnown) {
  Decoding(10);
  Queued(500);
  EXPECT_EQ(Plan().token_budget, 31);
  EXPECT_EQ(Plan().num_tokens, 32);
}

TEST_F(SchedulerTest, WithoutDecodesTimeIsNoLimit) {
  costs_ = {.decode_step_ms = 50, .prefill_token_ms = 3};
  Queued(500);
  EXPECT_EQ(Plan().num_tokens, 500);
}

TEST_F(SchedulerTest, ASequenceKeepsToItsOwnRowLimit) {
  Queued(100).max_chunk = 10;
  EXPECT_THAT(Lines(), ElementsAre("s1 admitted, 0 cached, prefill 0..9 (10 of 100 tokens, row "
                                   "limit), 1 block of 100 available"));
}

TEST_F(SchedulerTest, ASequenceWithoutAGapHasNoLine) {
  Running(20, 20);
  EXPECT_TRUE(Lines().empty());
}

TEST_F(SchedulerTest, APrefillShrinksToTheBlocksThereAre) {
  available_ = 2;
  Running(100, 0);
  EXPECT_THAT(Lines(), ElementsAre("s1 prefill 0..31 (32 of 100 tokens, blocks), 2 blocks of 2 "
                                   "available"));
}

TEST_F(SchedulerTest, TheCheapestToComputeAgainGivesItsBlocks) {
  available_ = 0;
  Decoding(65);  // 4 blocks, wants a fifth
  Decoding(35);
  Decoding(60);
  EXPECT_THAT(Lines(), ElementsAre("s1 decode 64, 1 block of 3 available", "s3 decode 59",
                                   "s2 preempted: 1 block needed for s1, 0 available"));
}

TEST_F(SchedulerTest, OfEqualsTheLatestGivesItsBlocks) {
  available_ = 0;
  Decoding(33);
  Decoding(32);
  Decoding(32);
  EXPECT_THAT(Lines(), ElementsAre("s1 decode 32, 1 block of 2 available", "s2 decode 31",
                                   "s3 preempted: 1 block needed for s1, 0 available"));
}

TEST_F(SchedulerTest, TheLeastUrgentGivesItsBlocksFirst) {
  available_ = 0;
  Decoding(65).priority = 1;
  Decoding(33);
  EXPECT_THAT(Lines(), ElementsAre("s2 decode 32, 1 block of 4 available",
                                   "s1 preempted: 1 block needed for s2, 0 available"));
}

TEST_F(SchedulerTest, OneThatAsksMayBeTheOneThatGoes) {
  available_ = 0;
  Decoding(60);
  Decoding(33);
  EXPECT_THAT(Lines(), ElementsAre("s1 decode 59", "s2 preempted: 1 block needed, 0 available"));
}

TEST_F(SchedulerTest, AVictimLosesTheLineItHad) {
  available_ = 1;
  Decoding(17);  // takes the block
  Decoding(49);
  EXPECT_THAT(Lines(), ElementsAre("s2 decode 48, 1 block of 2 available",
                                   "s1 preempted: 1 block needed for s2, 0 available"));
}

TEST_F(SchedulerTest, IdleSequencesAreVictimsToo) {
  available_ = 0;
  Decoding(33);
  Running(16, 16);
  EXPECT_THAT(Lines(), ElementsAre("s1 decode 32, 1 block of 1 available",
                                   "s2 preempted: 1 block needed for s1, 0 available"));
}

TEST_F(SchedulerTest, ASharedTailIsCopiedIntoABlock) {
  available_ = 1;
  Decoding(20).shared_tail_copies = 1;
  EXPECT_THAT(Lines(), ElementsAre("s1 decode 19, 1 block of 1 available"));
}

TEST_F(SchedulerTest, BlocksThatTwoVictimsShareCountOnlyInTheNextStep) {
  available_ = 0;
  Decoding(33);
  running_.back().blocks_alone = 0;
  Decoding(20).blocks_alone = 0;
  EXPECT_THAT(Lines(), ElementsAre("s2 preempted: 1 block needed for s1, 0 available",
                                   "s1 waits: 1 block needed, 0 available"));
}

TEST_F(SchedulerTest, AdmissionLeavesABlockForEachThatRuns) {
  available_ = 4;
  Decoding(10);
  Decoding(10);
  Queued(40);
  EXPECT_THAT(Lines(),
              ElementsAre("s1 decode 9", "s2 decode 9", "s3 waits: 5 blocks needed, 4 available"));
  available_ = 5;
  EXPECT_EQ(Lines()[2].substr(0, 11), "s3 admitted");
}

TEST_F(SchedulerTest, TheReserveMayBeSet) {
  available_ = 9;
  options_.admission_reserve = 7;
  Decoding(10);
  Queued(40);
  EXPECT_EQ(Lines()[1], "s2 waits: 10 blocks needed, 9 available");
  options_.admission_reserve = 6;
  EXPECT_EQ(Lines()[1].substr(0, 11), "s2 admitted");
}

TEST_F(SchedulerTest, WithNothingRunningNothingIsReserved) {
  available_ = 3;
  options_.admission_reserve = 7;
  Queued(48);
  EXPECT_EQ(Lines()[0].substr(0, 11), "s1 admitted");
}

TEST_F(SchedulerTest, AdmissionLeavesWhatRunningPrefillStillLacks) {
  available_ = 8;
  options_.max_batched_tokens = 32;
  Running(16 * 6, 16);  // lacks 5 blocks, takes 2 of them in this step
  Queued(48);
  EXPECT_THAT(Lines()[1], "s2 waits: token budget used up");
  options_.max_batched_tokens = 512;
  EXPECT_THAT(Lines()[1], "s2 waits: 4 blocks needed, 3 available");
}

TEST_F(SchedulerTest, BlocksThatOthersHoldAreFreeForAnAdmission) {
  available_ = 3;
  Decoding(100);
  Queued(100).match = {.num_tokens = 80, .blocks_used = 5};
  EXPECT_EQ(Lines()[1],
            "s2 admitted, 80 cached, prefill 80..99 (20 of 100 tokens), 2 blocks of 3 available");
}

TEST_F(SchedulerTest, BlocksThatNobodyHoldsAreTakenFromThoseAvailable) {
  available_ = 7;
  Decoding(10);
  Queued(100).match = {.num_tokens = 80, .blocks_cached = 5};
  EXPECT_EQ(Lines()[1], "s2 waits: 8 blocks needed, 7 available");
}

TEST_F(SchedulerTest, ThePartlySharedBlockIsOneOfItsOwn) {
  Queued(40).match = {.num_tokens = 37, .copied_tokens = 5, .blocks_cached = 2};
  available_ = 3;
  EXPECT_EQ(Lines()[0],
            "s1 admitted, 37 cached, prefill 37..39 (3 of 40 tokens), 3 blocks of 3 available");
}

TEST_F(SchedulerTest, TheQueueIsServedInOrderOfPriorityThenArrival) {
  options_.max_batched_tokens = 30;
  Queued(10).arrival_ms = 9;
  Queued(10).arrival_ms = 5;
  Queued(10).priority = -1;
  Queued(10).arrival_ms = 9;
  const StepPlan plan = Plan();
  std::vector<SequenceId> order;
  for (const PlanLine& line : plan.lines) order.push_back(line.sequence);
  EXPECT_THAT(order, ElementsAre(3, 2, 1, 4));
  EXPECT_EQ(ToString(plan.lines[3]), "s4 waits: token budget used up");
}

TEST_F(SchedulerTest, NobodyPassesOneThatWaitsForBlocks) {
  available_ = 3;
  Queued(64);
  Queued(10);
  EXPECT_THAT(Lines(), ElementsAre("s1 waits: 4 blocks needed, 3 available", "s2 waits behind s1"));
}

TEST_F(SchedulerTest, NoMoreRunThanMay) {
  options_.max_sequences = 1;
  Decoding(10);
  Queued(10);
  Queued(10);
  EXPECT_THAT(Lines(),
              ElementsAre("s1 decode 9", "s2 waits: all places are taken", "s3 waits behind s2"));
}

TEST_F(SchedulerTest, NothingIsAdmittedInAStepThatPreemptsForBlocks) {
  available_ = 0;
  Decoding(17);
  Decoding(100);  // 7 blocks
  Queued(10);
  EXPECT_THAT(Lines(), ElementsAre("s2 decode 99", "s1 preempted: 1 block needed, 0 available",
                                   "s3 waits behind s1"));
}

TEST_F(SchedulerTest, OneOfTwoThatArriveTogetherComputesWhatTheyShare) {
  const auto tokens = Queued(100).tokens;
  Queued(100).tokens = tokens;
  Queued(10);
  EXPECT_THAT(
      Lines(),
      ElementsAre("s1 admitted, 0 cached, prefill 0..99 (100 of 100 tokens), 7 blocks of 100 "
                  "available",
                  "s3 admitted, 0 cached, prefill 0..9 (10 of 10 tokens), 1 block of 93 "
                  "available",
                  "s2 waits for s1: 99 tokens in common"));
}

TEST_F(SchedulerTest, ASharedPrefixOfLessThanABlockIsNotWaitedFor) {
  const auto tokens = Tokens(100);
  Running(100, 48).tokens = tokens;
  Queued(100).tokens = tokens.first(64);
  queue_[0].match.num_tokens = 48;
  EXPECT_EQ(Plan().lines[1].action, PlanAction::kPrefill);
  queue_[0].tokens = tokens.first(65);
  EXPECT_EQ(ToString(Plan().lines[1]), "s2 waits for s1: 64 tokens in common");
}

TEST_F(SchedulerTest, NobodyWaitsForAnotherGroupOrForOneThatSharesNothing) {
  const auto tokens = Tokens(100);
  Running(100, 0).tokens = tokens;
  Queued(100).tokens = tokens;
  for (const auto& [running, waiting] : {std::pair{0, 1}, {-1, 0}, {0, -1}, {-1, -1}}) {
    running_[0].sharing_group = running;
    queue_[0].sharing_group = waiting;
    EXPECT_EQ(Plan().lines[1].action, PlanAction::kPrefill) << running << ' ' << waiting;
  }
}

TEST_F(SchedulerTest, AnUrgentOneTakesThePlaceOfOneThatIsLess) {
  options_.max_sequences = 2;
  Decoding(40).priority = 1;
  Decoding(40).priority = 2;
  Queued(10);
  EXPECT_THAT(Lines(),
              ElementsAre("s1 decode 39",
                          "s3 admitted, 0 cached, prefill 0..9 (10 of 10 tokens), 1 block of 103 "
                          "available",
                          "s2 preempted: s3 is more urgent"));
}

TEST_F(SchedulerTest, AnUrgentOneTakesBlocksOfThoseThatAreLess) {
  available_ = 1;
  Decoding(40).priority = 1;
  Decoding(40);
  Queued(40);
  EXPECT_THAT(Lines(),
              ElementsAre("s2 decode 39",
                          "s3 admitted, 0 cached, prefill 0..29 (30 of 40 tokens, time budget), "
                          "2 blocks of 4 available",
                          "s1 preempted: s3 is more urgent"));
}

TEST_F(SchedulerTest, NobodyIsPreemptedForAnUrgentOneThatFindsNoRoomAllTheSame) {
  available_ = 1;
  Decoding(40).priority = 1;
  Decoding(40);
  Queued(80);
  EXPECT_THAT(Lines(), ElementsAre("s2 decode 39", "s1 decode 39",
                                   "s3 waits: 7 blocks needed, 1 available"));
}

TEST_F(SchedulerTest, WhereOnlyIdleOnesRunTheyGiveWayToTheirFellow) {
  options_.max_sequences = 2;
  Running(40, 40);
  Running(40, 40);
  Queued(40);
  EXPECT_THAT(Lines(),
              ElementsAre("s3 admitted, 0 cached, prefill 0..39 (40 of 40 tokens), 3 blocks of 103 "
                          "available",
                          "s2 preempted: s3 needs its place"));
}

TEST_F(SchedulerTest, IdleOnesGiveWayThoughTheyShareAllTheirBlocks) {
  available_ = 1;
  Running(40, 40).blocks_alone = 0;
  Running(40, 40).blocks_alone = 0;
  Queued(40);
  const StepPlan plan = Plan();
  EXPECT_EQ(plan.lines[0].sequence, 3);
  EXPECT_TRUE(plan.lines[0].is_admission);
  EXPECT_EQ(ToString(plan.lines[1]), "s2 preempted: 3 blocks needed for s3, 1 available");
  EXPECT_EQ(ToString(plan.lines[2]), "s1 preempted: 3 blocks needed for s3, 1 available");
}

TEST_F(SchedulerTest, ThoseWhoseDeadlineHasPassedExpireAndTakeNoPart) {
  now_ms_ = 100;
  Decoding(10).deadline_ms = 100;
  Decoding(10).deadline_ms = 101;
  Queued(10).deadline_ms = 50;
  EXPECT_THAT(Lines(), ElementsAre("s2 decode 9", "s1 expires: its deadline has passed",
                                   "s3 expires: its deadline has passed"));
}

TEST_F(SchedulerTest, AWindowedGroupTakesNoMoreBlocksThanItsWindow) {
  Layout({0, 32});
  Decoding(1009);  // 63 full blocks, opens the next; the window opens one as well
  EXPECT_EQ(Plan().lines[0].blocks_needed, 2);
  running_.clear();
  available_ = 66;  // 62 full ones; the window's 31 + 16 slots touch 4
  options_.max_batched_tokens = 16;
  Queued(992);
  EXPECT_EQ(Plan().lines[0].action, PlanAction::kPrefill);
  available_ = 65;
  EXPECT_EQ(Plan().lines[0].action, PlanAction::kWait);
}

TEST_F(SchedulerTest, TheSameStateGivesTheSamePlan) {
  available_ = 3;
  Decoding(33);
  Running(90, 10);
  Queued(50);
  EXPECT_EQ(ToString(Plan()), ToString(Plan()));
}

}  // namespace
}  // namespace quire
