#include "engine/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "scenarios/fake_model.h"

namespace quire {
namespace {

std::vector<int32_t> Repeated(int32_t token, int count) { return std::vector(count, token); }

class BatchTest : public ::testing::Test {
 protected:
  void Start(int num_blocks, SchedulerOptions options = {}, std::vector<int> windows = {0}) {
    cache_ = std::move(KvCache::Create(FakeModel::Layout(windows), num_blocks)).value();
    model_ = std::make_unique<FakeModel>(*cache_);
    batch_ = std::make_unique<Batch>(*cache_, options);
  }

  // Everything of a step but the sampling.
  std::vector<StepItem> Step() {
    plan_ = batch_->Plan(now_ms_++);
    std::vector<StepItem> items = batch_->Begin(plan_);
    EXPECT_EQ(model_->Forward(items), "");
    batch_->Commit(items);
    batch_->CheckInvariants();
    cache_->CheckInvariants();
    return items;
  }

  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<FakeModel> model_;
  std::unique_ptr<Batch> batch_;
  StepPlan plan_;
  double now_ms_ = 0;
};

TEST_F(BatchTest, ASequenceIsComputedUpToItsLastToken) {
  Start(8);
  const SequenceId id = batch_->Add({.tokens = Repeated(1, 20)});
  EXPECT_FALSE(batch_->is_running(id));
  EXPECT_EQ(batch_->admitted_ms(id), -1);
  const std::vector<StepItem> items = Step();
  ASSERT_EQ(items.size(), 1u);
  EXPECT_EQ(items[0].num_tokens, 20);
  EXPECT_TRUE(items[0].reaches_end);
  EXPECT_EQ(batch_->num_computed(id), 20);
  EXPECT_EQ(batch_->admitted_ms(id), 0);
  EXPECT_FALSE(batch_->Plan(now_ms_).computes());
}

TEST_F(BatchTest, OnlyTheLastChunkReachesTheEnd) {
  Start(8, {.max_batched_tokens = 16});
  batch_->Add({.tokens = Repeated(1, 40)});
  EXPECT_FALSE(Step()[0].reaches_end);
  EXPECT_FALSE(Step()[0].reaches_end);
  EXPECT_TRUE(Step()[0].reaches_end);
}

TEST_F(BatchTest, ATokenThatWasAppendedIsFedInTheNextStep) {
  Start(8);
  const SequenceId id = batch_->Add({.tokens = Repeated(1, 20)});
  Step();
  batch_->Append(id, 7);
  const std::vector<StepItem> items = Step();
  EXPECT_THAT(items[0].tokens, ::testing::ElementsAre(7));
  EXPECT_EQ(items[0].first_position, 20);
}

TEST_F(BatchTest, CachedTokensAreThoseOfTheFirstAdmission) {
  Start(8);
  batch_->Remove(batch_->Add({.tokens = Repeated(1, 40)}));
  const SequenceId first = batch_->Add({.tokens = Repeated(1, 40)});
  Step();
  batch_->Remove(first);
  const SequenceId second = batch_->Add({.tokens = Repeated(1, 40)});
  Step();
  EXPECT_EQ(batch_->cached_tokens(second), 39);
}

TEST_F(BatchTest, ASequenceThatDoesNotReadTheCacheComputesAllAndIsFound) {
  Start(8);
  const SequenceId first = batch_->Add({.tokens = Repeated(1, 40), .reads_cache = false});
  Step();
  batch_->Remove(first);
  const SequenceId second = batch_->Add({.tokens = Repeated(1, 40), .reads_cache = false});
  Step();
  EXPECT_EQ(batch_->cached_tokens(second), 0);
  const SequenceId third = batch_->Add({.tokens = Repeated(1, 40)});
  Step();
  EXPECT_EQ(batch_->cached_tokens(third), 39);
}

TEST_F(BatchTest, APrivateSequenceLeavesNothing) {
  Start(8);
  const SequenceId id = batch_->Add({.tokens = Repeated(1, 40), .keeps_cache = false});
  Step();
  batch_->Remove(id);
  EXPECT_EQ(cache_->usage().free_blocks, 8);
}

TEST_F(BatchTest, AForkOfARunningSequenceHasItsEntries) {
  Start(8);
  const SequenceId parent = batch_->Add({.tokens = Repeated(1, 20)});
  Step();
  const SequenceId child = batch_->Fork(parent);
  EXPECT_TRUE(batch_->is_running(child));
  EXPECT_EQ(batch_->num_computed(child), 20);
  EXPECT_EQ(cache_->usage().used_blocks, 2);
  batch_->Remove(parent);
  batch_->Append(child, 9);
  EXPECT_EQ(Step().size(), 1u);
}

TEST_F(BatchTest, AForkOfAQueuedSequenceQueues) {
  Start(8);
  const SequenceId child = batch_->Fork(batch_->Add({.tokens = Repeated(1, 20)}));
  EXPECT_FALSE(batch_->is_running(child));
  EXPECT_EQ(batch_->num_queued(), 2);
}

TEST_F(BatchTest, ForgettingKeepsTheTokensAndDropsTheEntries) {
  Start(8);
  const SequenceId id = batch_->Add({.tokens = Repeated(1, 20)});
  Step();
  batch_->Forget(id);
  EXPECT_TRUE(batch_->is_running(id));
  EXPECT_EQ(batch_->num_computed(id), 0);
  EXPECT_EQ(cache_->usage().used_blocks, 0);
  EXPECT_EQ(Step()[0].num_tokens, 20);
}

TEST_F(BatchTest, ASequenceMayBeRemovedWhileItsStepRuns) {
  Start(8);
  const SequenceId id = batch_->Add({.tokens = Repeated(1, 20)});
  batch_->Add({.tokens = Repeated(2, 20)});
  const std::vector<StepItem> items = batch_->Begin(batch_->Plan(0));
  batch_->Remove(id);
  batch_->Commit(items);
  batch_->CheckInvariants();
  EXPECT_EQ(batch_->num_computed(2), 20);
}

TEST_F(BatchTest, PlanningChangesNothing) {
  Start(4);
  batch_->Add({.tokens = Repeated(1, 20)});
  batch_->Add({.tokens = Repeated(2, 60)});
  EXPECT_EQ(ToString(batch_->Plan(0)), ToString(batch_->Plan(0)));
  EXPECT_EQ(batch_->num_queued(), 2);
  EXPECT_EQ(cache_->usage().free_blocks, 4);
}

TEST_F(BatchTest, OfALongQueueOnlyTheHeadIsLookedAt) {
  Start(64, {.max_sequences = 2});
  for (int i = 0; i < 5000; ++i) batch_->Add({.tokens = Repeated(i, 40)});
  EXPECT_LT(batch_->Plan(0).lines.size(), 100u);
}

TEST_F(BatchTest, ADeadlineIsSeenHoweverFarBackInTheQueue) {
  Start(64, {.max_sequences = 1});
  for (int i = 0; i < 1000; ++i) batch_->Add({.tokens = Repeated(1, 4)});
  const SequenceId id = batch_->Add({.tokens = Repeated(1, 4), .deadline_ms = 5});
  EXPECT_EQ(batch_->Plan(4).lines.back().action, PlanAction::kWait);
  EXPECT_EQ(batch_->Plan(5).lines.back().sequence, id);
  EXPECT_EQ(batch_->Plan(5).lines.back().action, PlanAction::kExpire);
}

TEST_F(BatchTest, StepsTeachTheBudget) {
  Start(64);
  const SequenceId id = batch_->Add({.tokens = Repeated(1, 100)});
  Step();
  batch_->ObserveStep(plan_, 100);  // a millisecond a token
  batch_->Append(id, 1);
  Step();
  batch_->ObserveStep(plan_, 40);
  batch_->Append(id, 1);
  batch_->Add({.tokens = Repeated(2, 400)});
  EXPECT_EQ(batch_->Plan(now_ms_).token_budget, 39);  // 40 in whole tiles
}

// Sixteen answers of different lengths; whoever ends early leaves the others alone.
TEST_F(BatchTest, WhoEndsEarlyDoesNotDisturbTheOthers) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  Start(200);
  std::map<SequenceId, size_t> num_tokens;
  for (int k = 0; k < 16; ++k) {
    const SequenceId id = batch_->Add({.tokens = Repeated(k, 20 + 7 * k)});
    num_tokens[id] = 20 + 7 * k + 1 + random() % 40;
  }
  while (!batch_->empty()) {
    for (const StepItem& item : Step()) {
      batch_->Append(item.sequence, FakeModel::Sample(batch_->tokens(item.sequence)));
      const std::span<const int32_t> tokens = batch_->tokens(item.sequence);
      if (tokens.size() < num_tokens[item.sequence]) continue;
      const auto k = static_cast<int>(item.sequence - 1);
      EXPECT_THAT(tokens, ::testing::ElementsAreArray(
                              FakeModel::Alone(Repeated(k, 20 + 7 * k), tokens.size())));
      batch_->Remove(item.sequence);
    }
  }
}

TEST_F(BatchTest, PreemptedAnswersAreWhatTheyWouldHaveBeen) {
  for (const int num_blocks : {7, 20}) {
    Start(num_blocks);
    for (const int token : {1, 2}) batch_->Add({.tokens = Repeated(token, 34)});
    while (!batch_->empty()) {
      for (const StepItem& item : Step()) {
        batch_->Append(item.sequence, FakeModel::Sample(batch_->tokens(item.sequence)));
        const std::span<const int32_t> tokens = batch_->tokens(item.sequence);
        if (tokens.size() < 34 + 35) continue;
        EXPECT_THAT(tokens, ::testing::ElementsAreArray(
                                FakeModel::Alone(Repeated(tokens[0], 34), 34 + 35)));
        batch_->Remove(item.sequence);
      }
    }
    EXPECT_EQ(batch_->counters().preemptions > 0, num_blocks == 7);
    EXPECT_EQ(cache_->usage().used_blocks, 0);
    batch_.reset();
  }
}

TEST_F(BatchTest, AfterManyAbortsABigRequestFindsRoom) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  Start(40, {.max_sequences = 8, .max_batched_tokens = 48});
  std::map<SequenceId, int> aborted_at;  // step
  for (int i = 0; i < 500 || !aborted_at.empty(); ++i) {
    if (i < 500) {
      const int num_tokens = 1 + static_cast<int>(random() % 300);
      const SequenceId id = batch_->Add({.tokens = Repeated(i % 5, num_tokens)});
      aborted_at[id] = i + static_cast<int>(random() % 12);
    }
    for (const StepItem& item : Step()) {
      if (item.reaches_end) batch_->Append(item.sequence, 7);
    }
    std::erase_if(aborted_at, [&](const auto& sequence) {
      if (sequence.second > i) return false;
      batch_->Remove(sequence.first);
      return true;
    });
  }
  EXPECT_EQ(cache_->usage().used_blocks, 0);
  batch_->Add({.tokens = Repeated(99, 36 * kBlockSlots)});
  while (batch_->num_computed(501) < 36 * kBlockSlots) ASSERT_FALSE(Step().empty());
}

}  // namespace
}  // namespace quire
