// Drafts in a batch: accepted or refused, they leave every sequence the entries of its own tokens,
// and take nothing from anybody.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>

#include "engine/batch.h"
#include "scenarios/fake_model.h"

namespace quire {
namespace {

using ::testing::ElementsAre;

// Runs steps whose decodes have drafts.
class DraftedBatch {
 public:
  DraftedBatch(int num_blocks, const SchedulerOptions& options, const std::vector<int>& windows)
      : cache_(std::move(KvCache::Create(FakeModel::Layout(windows), num_blocks)).value()),
        model_(*cache_),
        batch_(*cache_, options) {}

  Batch& operator*() { return batch_; }
  Batch* operator->() { return &batch_; }
  KvCache& cache() { return *cache_; }

  // Plans a step with these drafts, begins and computes it.
  std::vector<StepItem> Compute(const std::vector<SequenceDrafts>& drafts, double now_ms) {
    plan = batch_.Plan(now_ms);
    if (!drafts.empty()) batch_.AddDrafts(plan, drafts);
    std::vector<StepItem> items = batch_.Begin(plan);
    // The model looks at the whole sequence.
    std::vector<std::vector<int32_t>> wholes;
    std::vector<StepItem> fed = items;
    wholes.reserve(items.size());
    for (StepItem& item : fed) {
      const auto before = batch_.tokens(item.sequence).first(item.first_position);
      std::vector<int32_t>& whole = wholes.emplace_back(before.begin(), before.end());
      whole.insert(whole.end(), item.tokens.begin(), item.tokens.end());
      item.tokens = std::span(whole).subspan(item.first_position);
    }
    EXPECT_EQ(model_.Forward(fed), "");
    batch_.Commit(items);
    Check();
    return items;
  }

  void Check() {
    batch_.CheckInvariants();
    cache_->CheckInvariants();
  }

  StepPlan plan;

 private:
  std::unique_ptr<KvCache> cache_;
  FakeModel model_;
  Batch batch_;
};

SequenceDrafts Of(SequenceId id, int count) {
  return {.sequence = id, .tokens = std::vector<int32_t>(count, 1)};
}

TEST(BatchDrafts, AreRowsBehindTheDecodeThatTheSequenceDoesNotHave) {
  DraftedBatch batch(8, {}, {0});
  const SequenceId id = batch->Add({.tokens = std::vector<int32_t>(20, 1)});
  batch.Compute({}, 0);
  batch->Append(id, 7);
  const std::vector<StepItem> items = batch.Compute({{.sequence = id, .tokens = {8, 9, 10}}}, 1);
  ASSERT_EQ(items.size(), 1u);
  EXPECT_THAT(items[0].tokens, ElementsAre(7, 8, 9, 10));
  EXPECT_EQ(items[0].num_drafts, 3);
  EXPECT_TRUE(items[0].reaches_end);
  EXPECT_EQ(ToString(batch.plan), "s1 decode 20 + 3 drafts");
  EXPECT_EQ(batch.plan.num_tokens, 1);
  EXPECT_EQ(batch.plan.num_drafts, 3);
  EXPECT_EQ(batch->num_computed(id), 21);
  batch->Append(id, 8);
  batch->AcceptDraft(id);
  EXPECT_EQ(batch->num_computed(id), 22);
  batch->Append(id, 11);  // not the draft: what was computed for 9 is written over
  EXPECT_THAT(batch.Compute({}, 2)[0].tokens, ElementsAre(11));
  EXPECT_EQ(batch->num_computed(id), 23);
}

TEST(BatchDrafts, OfARefusedTokenAreNeverFound) {
  DraftedBatch batch(8, {}, {0});
  const std::vector<int32_t> prompt(15, 1);
  const SequenceId id = batch->Add({.tokens = prompt});
  batch.Compute({}, 0);
  batch->Append(id, 7);
  batch.Compute({{.sequence = id, .tokens = {8, 9, 10, 11, 12}}}, 1);
  batch->Append(id, 30);
  batch->Remove(id);
  // Whoever comes with the drafted tokens finds what was drawn alone.
  std::vector<int32_t> drafted = prompt;
  for (const int32_t token : {7, 8, 9, 10, 11, 12, 13}) drafted.push_back(token);
  const SequenceId other = batch->Add({.tokens = drafted});
  batch.Compute({}, 2);
  EXPECT_EQ(batch->cached_tokens(other), 16);
}

TEST(BatchDrafts, KeepToTheStepsTokens) {
  DraftedBatch batch(20, {.max_sequences = 4, .max_batched_tokens = 24}, {0});
  const SequenceId one = batch->Add({.tokens = std::vector<int32_t>(8, 1)});
  const SequenceId two = batch->Add({.tokens = std::vector<int32_t>(8, 2)});
  batch.Compute({}, 0);
  batch->Append(one, 1);
  batch->Append(two, 1);
  batch.Compute({Of(one, 15), Of(two, 15)}, 1);
  EXPECT_EQ(batch.plan.num_tokens + batch.plan.num_drafts, 24);
}

TEST(BatchDrafts, TakeNoBlockThatThoseThatRunMayNeedNext) {
  // Two sequences of a block each: with three further blocks one may draft into its next.
  for (const int num_blocks : {2, 3, 4, 5, 6}) {
    DraftedBatch batch(num_blocks, {.admission_reserve = 0}, {0});
    const SequenceId one = batch->Add({.tokens = std::vector<int32_t>(10, 1)});
    const SequenceId two = batch->Add({.tokens = std::vector<int32_t>(10, 2)});
    batch.Compute({}, 0);
    ASSERT_EQ(batch->num_running(), 2);
    batch->Append(one, 1);
    batch->Append(two, 1);
    batch.Compute({Of(one, 15), Of(two, 15)}, 1);
    const size_t room = 5;  // of the block behind the 11th token
    EXPECT_EQ(batch.plan.lines[0].drafts.size(), num_blocks >= 5 ? 15 : room) << num_blocks;
    EXPECT_EQ(batch.plan.lines[1].drafts.size(), num_blocks >= 6 ? 15 : room) << num_blocks;
    EXPECT_EQ(batch->counters().preemptions, 0);
  }
}

TEST(BatchDrafts, KeepToTheTenantsQuota) {
  for (const int quota : {1, 2, 3}) {
    DraftedBatch batch(20, {}, {0});
    const SequenceId id = batch->Add(
        {.tokens = std::vector<int32_t>(10, 1), .tenant = "a", .tenant_max_blocks = quota});
    batch.Compute({}, 0);
    batch->Append(id, 1);
    batch.Compute({Of(id, 15)}, 1);
    EXPECT_EQ(batch.plan.lines[0].drafts.size(), quota >= 3 ? 15u : 5u) << quota;
  }
}

TEST(BatchDrafts, AreNoneWhileASequenceWaitsForATier) {
  for (const PlanReason reason : {PlanReason::kTierLoad, PlanReason::kBehind}) {
    DraftedBatch batch(20, {}, {0});
    const SequenceId id = batch->Add({.tokens = std::vector<int32_t>(10, 1)});
    batch.Compute({}, 0);
    batch->Append(id, 1);
    StepPlan plan = batch->Plan(1);
    plan.lines.push_back({.sequence = 2, .action = PlanAction::kWait, .reason = reason});
    batch->AddDrafts(plan, std::vector{Of(id, 3)});
    EXPECT_EQ(plan.num_drafts, reason == PlanReason::kTierLoad ? 0 : 3);
    EXPECT_EQ(plan.lines[0].drafts.size(), static_cast<size_t>(plan.num_drafts));
  }
}

// The scheduler weighs prefill against what the decodes take alone, drafts or not.
TEST(BatchDrafts, TellTheSchedulerWhatTheirStepTakesWithout) {
  struct Case {
    double drafts_factor = 0;
    int expected_budget = 0;
  };
  // A prefill token is a millisecond, a decode step 40; the drafted ones take 120.
  for (const Case& c : {Case{0, 39}, Case{3, 39}, Case{1.5, 79}}) {
    DraftedBatch batch(64, {}, {0});
    const SequenceId id = batch->Add({.tokens = std::vector<int32_t>(100, 1)});
    batch.Compute({}, 0);
    batch->ObserveStep(batch.plan, 100);
    batch->Append(id, 1);
    batch.Compute({}, 1);
    batch->ObserveStep(batch.plan, 40);
    for (int i = 0; i < 5; ++i) {
      batch->Append(id, 1);
      batch.Compute({Of(id, 3)}, 2 + i);
      batch->ObserveStep(batch.plan, 120, c.drafts_factor);
    }
    batch->Append(id, 1);
    batch->Add({.tokens = std::vector<int32_t>(400, 2)});
    EXPECT_EQ(batch->Plan(9).token_budget, c.expected_budget) << c.drafts_factor;
  }
}

TEST(BatchDrafts, ContinueWithWhatOthersOfTheSameRootSaid) {
  DraftedBatch batch(20, {}, {0});
  std::vector<int32_t> said;
  for (int i = 0; i < 40; ++i) said.push_back(100 + i);
  const SequenceId first = batch->Add({.tokens = said, .root = RootOf({}, "")});
  batch.Compute({}, 0);
  batch->Remove(first);
  for (const int length : {1, 15, 16, 17, 31, 32, 38}) {
    const std::vector<int32_t> begun(said.begin(), said.begin() + length);
    const SequenceId same = batch->Add({.tokens = begun, .root = RootOf({}, "")});
    const SequenceId other = batch->Add({.tokens = begun, .root = RootOf({}, "salt")});
    const std::vector<int32_t> rest(said.begin() + length, said.end());
    const size_t most = std::min<size_t>(rest.size(), 9);
    EXPECT_THAT(batch->Continuation(same, 9),
                ::testing::ElementsAreArray(rest.begin(), rest.begin() + most))
        << length;
    EXPECT_THAT(batch->Continuation(other, 9), ::testing::IsEmpty());
    batch->Remove(same);
    batch->Remove(other);
  }
}

// Random requests on pools that run dry, whose decodes have drafts that are right for a while.
class RandomDrafts {
 public:
  RandomDrafts(uint32_t seed, const std::vector<int>& windows) : random_(seed) {
    const KvLayout layout = FakeModel::Layout(windows);
    const SchedulerOptions options{.max_sequences = Draw(1, 6), .max_batched_tokens = Draw(16, 80)};
    longest_ = Draw(30, 120);
    peak_ = layout.PeakBlocks(longest_, options.max_batched_tokens);
    batch_ = std::make_unique<DraftedBatch>(static_cast<int>(peak_) + Draw(0, 8), options, windows);
    to_come_ = Draw(3, 15);
  }

  void Run() {
    Batch& batch = **batch_;
    for (int step = 0; to_come_ > 0 || !batch.empty(); ++step) {
      ASSERT_LT(step, 4000);
      while (to_come_ > 0 && Draw(0, 2) == 0) Arrive(step);
      std::vector<SequenceDrafts> drafts;
      if (const StepPlan plan = batch.Plan(step); plan.only_decodes()) {
        for (const PlanLine& line : plan.lines) {
          if (line.num_tokens > 0 && Draw(0, 4) > 0) drafts.push_back(Drafts(line.sequence));
        }
      }
      std::erase_if(drafts, [](const SequenceDrafts& draft) { return draft.tokens.empty(); });
      const std::vector<StepItem> items = batch_->Compute(drafts, step);
      if (::testing::Test::HasFailure()) return;
      for (const StepItem& item : items) {
        drafted_ += item.num_drafts;
        if (item.reaches_end) Sample(item);
      }
      batch_->Check();
    }
    EXPECT_EQ(batch_->cache().usage().used_blocks, 0);
  }

  int64_t drafted() const { return drafted_; }
  int64_t accepted() const { return accepted_; }
  int64_t ends_within() const { return ends_within_; }
  int64_t preemptions() const { return (*batch_)->counters().preemptions; }
  int64_t window_releases() const { return batch_->cache().counters().window_releases; }

 private:
  int Draw(int low, int high) { return std::uniform_int_distribution(low, high)(random_); }

  void Arrive(int now) {
    --to_come_;
    const int num_tokens = Draw(1, longest_ - 1);
    std::vector<int32_t> tokens(static_cast<size_t>(num_tokens), Draw(1, 2));
    for (int i = Draw(0, num_tokens); i < num_tokens; ++i) tokens[i] = Draw(1, 50);
    const bool has_quota = Draw(0, 2) == 0;
    const SequenceId id = (*batch_)->Add({.tokens = tokens,
                                          .arrival_ms = 1. * now,
                                          .keeps_cache = Draw(0, 9) > 0,
                                          .tenant = has_quota ? "limited" : "",
                                          .tenant_max_blocks = has_quota ? peak_ : 0});
    wanted_[id] = Draw(num_tokens + 1, longest_);
  }

  SequenceDrafts Drafts(SequenceId id) {
    const auto tokens = (*batch_)->tokens(id);
    const int left = wanted_.at(id) - static_cast<int>(tokens.size()) - 1;
    const int count = std::min(left, Draw(0, 20));
    const int num_right = Draw(0, 20);
    std::vector<int32_t> all(tokens.begin(), tokens.end());
    SequenceDrafts drafts{.sequence = id};
    for (int i = 0; i < count; ++i) {
      const int32_t next = FakeModel::Sample(all);
      all.push_back(i < num_right ? next : next + 1);
      drafts.tokens.push_back(all.back());
    }
    return drafts;
  }

  void Sample(const StepItem& item) {
    Batch& batch = **batch_;
    const SequenceId id = item.sequence;
    const std::vector<int32_t> fed(item.tokens.begin(), item.tokens.end());
    for (int row = item.num_tokens - item.num_drafts - 1; row < item.num_tokens; ++row) {
      const int32_t token = FakeModel::Sample(batch.tokens(id));
      if (static_cast<int>(batch.tokens(id).size()) + 1 >= wanted_.at(id) || Draw(0, 60) == 0) {
        ends_within_ += row + 1 < item.num_tokens;
        batch.Remove(id);
        return;
      }
      const bool is_last = row + 1 == item.num_tokens;
      if (!is_last || Draw(0, 25) > 0) {
        batch.Append(id, token);
      } else {
        const SequenceId child = batch.Fork(id);
        wanted_[child] = wanted_.at(id);
        batch.Append(child, token + 1);
        batch.Append(id, token);
      }
      if (is_last || token != fed[static_cast<size_t>(row) + 1]) return;
      batch.AcceptDraft(id);
      ++accepted_;
    }
  }

  std::mt19937 random_;
  int longest_ = 0;
  int64_t peak_ = 0;
  int to_come_ = 0;
  int64_t drafted_ = 0;
  int64_t accepted_ = 0;
  int64_t ends_within_ = 0;
  std::unique_ptr<DraftedBatch> batch_;
  std::map<SequenceId, int> wanted_;  // tokens in the end
};

void RunLoads(const std::vector<int>& windows) {
  int64_t drafted = 0;
  int64_t accepted = 0;
  int64_t ends_within = 0;
  int64_t preemptions = 0;
  int64_t window_releases = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    RandomDrafts load(seed, windows);
    load.Run();
    if (::testing::Test::HasFailure()) return;
    drafted += load.drafted();
    accepted += load.accepted();
    ends_within += load.ends_within();
    preemptions += load.preemptions();
    window_releases += load.window_releases();
  }
  EXPECT_GT(accepted, 500);
  EXPECT_GT(drafted - accepted, 500);
  EXPECT_GT(ends_within, 10);
  EXPECT_GT(preemptions, 30);
  EXPECT_EQ(window_releases > 100, windows.size() > 1);
}

TEST(BatchDrafts, LeaveEverySequenceItsOwnEntries) { RunLoads({0}); }
TEST(BatchDrafts, LeaveEverySequenceItsOwnEntriesUnderWindows) { RunLoads({0, 32, 20}); }

}  // namespace
}  // namespace quire
