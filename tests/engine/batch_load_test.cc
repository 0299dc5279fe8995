// Random loads on pools that run dry all the time: everybody ends, with entries of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "engine/batch.h"
#include "scenarios/fake_model.h"

namespace quire {
namespace {

std::vector<int32_t> Repeated(int32_t token, int count) { return std::vector(count, token); }

// Requests with common beginnings, forks and aborts at any time, pools that run dry all the time.
class RandomLoad {
 public:
  RandomLoad(uint32_t seed, const std::vector<int>& windows) : random_(seed) {
    const KvLayout layout = FakeModel::Layout(windows);
    const SchedulerOptions options{.max_sequences = Draw(1, 8),
                                   .max_batched_tokens = Draw(8, 120),
                                   .admission_reserve = Draw(0, 2) == 0 ? Draw(0, 3) : -1};
    longest_ = Draw(20, 120);
    const auto num_blocks =
        static_cast<int>(layout.PeakBlocks(longest_, options.max_batched_tokens)) + Draw(0, 6);
    cache_ = std::move(KvCache::Create(layout, num_blocks)).value();
    model_ = std::make_unique<FakeModel>(*cache_);
    batch_ = std::make_unique<Batch>(*cache_, options);
    to_come_ = Draw(3, 25);
  }

  void Run() {
    for (int step = 0; to_come_ > 0 || !batch_->empty(); ++step) {
      ASSERT_LT(step, 6000) << ToString(batch_->Plan(step));
      while (to_come_ > 0 && Draw(0, 3) == 0) Arrive(step);
      if (!wanted_.empty() && Draw(0, 60) == 0) Abort();
      const StepPlan plan = batch_->Plan(step);
      SCOPED_TRACE(ToString(plan));
      const std::vector<StepItem> items = batch_->Begin(plan);
      ASSERT_EQ(model_->Forward(items), "");
      CheckCarriedOut(plan, items);
      batch_->Commit(items);
      for (const StepItem& item : items) {
        if (item.reaches_end) Sample(item.sequence);
      }
      batch_->CheckInvariants();
      cache_->CheckInvariants();
      if (::testing::Test::HasFatalFailure()) return;
    }
    EXPECT_EQ(cache_->usage().used_blocks, 0);
  }

  const Batch& batch() const { return *batch_; }
  int missed() const { return missed_; }
  int computed() const { return computed_; }

 private:
  int Draw(int low, int high) { return std::uniform_int_distribution(low, high)(random_); }

  void Arrive(int now) {
    --to_come_;
    const int num_tokens = Draw(1, longest_ - 1);
    std::vector<int32_t> tokens = Repeated(Draw(1, 2), num_tokens);
    const int common = Draw(0, num_tokens);
    for (int i = common; i < num_tokens; ++i) tokens[i] = Draw(1, 50);
    const SequenceId id = batch_->Add({.tokens = tokens,
                                       .root = RootOf({}, Draw(0, 5) == 0 ? "other" : ""),
                                       .priority = Draw(0, 5) == 0 ? Draw(-1, 1) : 0,
                                       .arrival_ms = 1. * now,
                                       .reads_cache = Draw(0, 9) > 0,
                                       .keeps_cache = Draw(0, 9) > 0,
                                       .max_chunk = Draw(0, 9) == 0 ? Draw(1, 30) : 0});
    wanted_[id] = Draw(num_tokens + 1, longest_);
  }

  void Abort() {
    const auto victim = std::next(wanted_.begin(), Draw(0, static_cast<int>(wanted_.size()) - 1));
    batch_->Remove(victim->first);
    wanted_.erase(victim);
  }

  void CheckCarriedOut(const StepPlan& plan, const std::vector<StepItem>& items) {
    const auto computing =
        std::ranges::count_if(plan.lines, [](const PlanLine& line) { return line.num_tokens > 0; });
    computed_ += static_cast<int>(computing);
    missed_ += static_cast<int>(computing - std::ssize(items));
  }

  void Sample(SequenceId id) {
    const std::span<const int32_t> tokens = batch_->tokens(id);
    const int32_t token = FakeModel::Sample(tokens);
    if (static_cast<int>(tokens.size()) + 1 >= wanted_.at(id)) {
      batch_->Remove(id);
      wanted_.erase(id);
      return;
    }
    const bool forks = Draw(0, 25) == 0;
    if (forks) {
      const SequenceId child = batch_->Fork(id);
      wanted_[child] = wanted_.at(id);
      batch_->Append(child, token + 1);
    }
    batch_->Append(id, token);
    if (!forks && Draw(0, 200) == 0) batch_->Forget(id);
  }

  std::mt19937 random_;
  int longest_ = 0;
  int to_come_ = 0;
  int missed_ = 0;
  int computed_ = 0;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<FakeModel> model_;
  std::unique_ptr<Batch> batch_;
  std::map<SequenceId, int> wanted_;  // tokens in the end
};

void RunLoads(const std::vector<int>& windows) {
  BatchCounters sum;
  KvCounters cache;
  int missed = 0;
  int computed = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    RandomLoad load(seed, windows);
    load.Run();
    if (::testing::Test::HasFatalFailure()) return;
    const BatchCounters& counters = load.batch().counters();
    sum.preemptions += counters.preemptions;
    sum.forks += counters.forks;
    sum.shared_waits += counters.shared_waits;
    cache.partial_hits += load.batch().cache().counters().partial_hits;
    cache.blocks_evicted += load.batch().cache().counters().blocks_evicted;
    cache.blocks_shared += load.batch().cache().counters().blocks_shared;
    missed += load.missed();
    computed += load.computed();
  }
  EXPECT_GT(sum.preemptions, 100);
  EXPECT_GT(sum.forks, 100);
  EXPECT_GT(sum.shared_waits, 100);
  EXPECT_GT(cache.partial_hits, 100);
  EXPECT_GT(cache.blocks_evicted, 100);
  EXPECT_GT(cache.blocks_shared, 100);
  EXPECT_EQ(missed, 0) << "lines of " << computed << " whose blocks were not there";
}

TEST(BatchLoad, EverySequenceEndsWithItsOwnEntries) { RunLoads({0}); }
TEST(BatchLoad, EverySequenceEndsWithItsOwnEntriesUnderWindows) { RunLoads({0, 32, 20}); }

// Beams: sequences that get their next tokens together, when the last of them has computed. Then
// some end and others take their place as forks.
class RandomBeams {
 public:
  explicit RandomBeams(uint32_t seed) : random_(seed) {
    const KvLayout layout = FakeModel::Layout(std::vector<int>{0});
    const SchedulerOptions options{.max_sequences = Draw(1, 5), .max_batched_tokens = Draw(8, 80)};
    const auto alone = static_cast<int>(layout.PeakBlocks(kLongest, options.max_batched_tokens));
    cache_ = std::move(KvCache::Create(layout, alone + Draw(0, 6))).value();
    model_ = std::make_unique<FakeModel>(*cache_);
    batch_ = std::make_unique<Batch>(*cache_, options);
    for (int i = Draw(1, 4); i > 0; --i) {
      const SequenceId id = batch_->Add({.tokens = Repeated(Draw(1, 2), Draw(1, 40))});
      searches_.push_back({.width = Draw(2, 4), .waiting = {id}});
    }
  }

  void Run() {
    for (int step = 0; !batch_->empty(); ++step) {
      ASSERT_LT(step, 5000) << ToString(batch_->Plan(step));
      const StepPlan plan = batch_->Plan(step);
      SCOPED_TRACE(ToString(plan));
      const std::vector<StepItem> items = batch_->Begin(plan);
      ASSERT_EQ(model_->Forward(items), "");
      batch_->Commit(items);
      for (const StepItem& item : items) {
        if (!item.reaches_end) continue;
        for (Search& search : searches_) {
          if (search.waiting.erase(item.sequence) > 0) search.ready.push_back(item.sequence);
        }
      }
      for (Search& search : searches_) GoOn(search);
      batch_->CheckInvariants();
      cache_->CheckInvariants();
    }
    EXPECT_EQ(cache_->usage().used_blocks, 0);
  }

  int64_t preemptions() const { return batch_->counters().preemptions; }

 private:
  static constexpr size_t kLongest = 70;

  struct Search {
    int width = 1;
    std::set<SequenceId> waiting{};  // whose logits are not there yet
    std::vector<SequenceId> ready{};
  };

  int Draw(int low, int high) { return std::uniform_int_distribution(low, high)(random_); }

  void GoOn(Search& search) {
    if (!search.waiting.empty() || search.ready.empty()) return;
    const bool ends = batch_->tokens(search.ready[0]).size() + 1 >= kLongest;
    while (!search.ready.empty() && (ends || (search.ready.size() > 1 && Draw(0, 2) == 0))) {
      batch_->Remove(search.ready.back());
      search.ready.pop_back();
    }
    if (ends) return;
    while (static_cast<int>(search.ready.size()) < search.width) {
      search.ready.push_back(batch_->Fork(search.ready[0]));
    }
    for (const SequenceId id : search.ready) {
      batch_->Append(id, Draw(1, 1000));
      search.waiting.insert(id);
    }
    search.ready.clear();
  }

  std::mt19937 random_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<FakeModel> model_;
  std::unique_ptr<Batch> batch_;
  std::vector<Search> searches_;
};

TEST(BatchLoad, BeamsThatWaitForEachOtherAllEnd) {
  int64_t preemptions = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    RandomBeams beams(seed);
    beams.Run();
    if (::testing::Test::HasFatalFailure()) return;
    preemptions += beams.preemptions();
  }
  EXPECT_GT(preemptions, 100);
}

}  // namespace
}  // namespace quire
