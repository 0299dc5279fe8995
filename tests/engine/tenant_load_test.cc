// Tenants with quotas that run dry all the time: nobody holds more than its own, nobody pays for
// another, and everybody ends with what it says alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "engine/batch.h"
#include "scenarios/fake_model.h"

namespace quire {
namespace {

constexpr int kLongest = 90;

class TenantLoad {
 public:
  TenantLoad(uint32_t seed, const std::vector<int>& windows) : random_(seed) {
    const KvLayout layout = FakeModel::Layout(windows);
    const SchedulerOptions options{.max_sequences = Draw(1, 8),
                                   .max_batched_tokens = Draw(8, 120),
                                   .admission_reserve = Draw(0, 2) == 0 ? Draw(0, 3) : -1};
    const auto alone = static_cast<int>(layout.PeakBlocks(kLongest, options.max_batched_tokens));
    const int num_tenants = Draw(1, 3);
    int sum = 0;
    for (int i = 0; i < num_tenants; ++i) {
      quotas_.push_back(Draw(0, 4) == 0 ? 0 : alone + Draw(0, 6));
      sum += quotas_.back();
    }
    cache_ =
        std::move(KvCache::Create(layout, alone + Draw(0, std::max(8, sum + 8 - alone)))).value();
    model_ = std::make_unique<FakeModel>(*cache_);
    batch_ = std::make_unique<Batch>(*cache_, options);
    to_come_ = Draw(5, 25);
  }

  void Run() {
    for (int step = 0; to_come_ > 0 || !batch_->empty(); ++step) {
      ASSERT_LT(step, 6000) << ToString(batch_->Plan(step));
      while (to_come_ > 0 && Draw(0, 3) == 0) Arrive(step);
      if (!jobs_.empty() && Draw(0, 60) == 0) End(std::next(jobs_.begin(), Draw(0, Count() - 1)));
      const StepPlan plan = batch_->Plan(step);
      SCOPED_TRACE(ToString(plan));
      CheckWhoPays(plan);
      const std::vector<StepItem> items = batch_->Begin(plan);
      batch_->CheckInvariants();
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

  int quota_preemptions() const { return quota_preemptions_; }
  int quota_waits() const { return quota_waits_; }
  int passed() const { return passed_; }
  int missed() const { return missed_; }

 private:
  struct Job {
    int tenant = 0;
    size_t num_wanted = 0;  // tokens in the end
    bool is_fork = false;
    std::vector<int32_t> prompt{};
  };

  int Draw(int low, int high) { return std::uniform_int_distribution(low, high)(random_); }
  int Count() const { return static_cast<int>(jobs_.size()); }

  void Arrive(int now) {
    --to_come_;
    const int num_tokens = Draw(1, kLongest - 1);
    std::vector<int32_t> tokens(static_cast<size_t>(num_tokens), Draw(1, 2));
    for (int i = Draw(0, num_tokens); i < num_tokens; ++i) tokens[i] = Draw(1, 50);
    Job job{.tenant = Draw(0, static_cast<int>(quotas_.size()) - 1), .prompt = tokens};
    job.num_wanted = static_cast<size_t>(Draw(num_tokens + 1, kLongest));
    const SequenceId id = batch_->Add({.tokens = tokens,
                                       // Two tenants may share prefixes.
                                       .root = RootOf({}, job.tenant == 0 ? "first" : "others"),
                                       .priority = Draw(0, 5) == 0 ? Draw(-1, 1) : 0,
                                       .arrival_ms = 1. * now,
                                       .reads_cache = Draw(0, 9) > 0,
                                       .keeps_cache = Draw(0, 9) > 0,
                                       .max_chunk = Draw(0, 9) == 0 ? Draw(1, 30) : 0,
                                       .tenant = std::to_string(job.tenant),
                                       .tenant_max_blocks = quotas_[job.tenant]});
    jobs_[id] = std::move(job);
  }

  void End(std::map<SequenceId, Job>::iterator job) {
    batch_->Remove(job->first);
    jobs_.erase(job);
  }

  void CheckWhoPays(const StepPlan& plan) {
    std::set<int> waiting_tenants;
    for (const PlanLine& line : plan.lines) {
      const int tenant = jobs_.at(line.sequence).tenant;
      if (line.reason == PlanReason::kTenantQuota) {
        ASSERT_GT(quotas_[tenant], 0);
        if (line.action == PlanAction::kPreempt) {
          ++quota_preemptions_;
          ASSERT_TRUE(line.other == 0 || jobs_.at(line.other).tenant == tenant);
        }
        if (line.action == PlanAction::kWait) {
          ++quota_waits_;
          waiting_tenants.insert(tenant);
        }
      }
    }
    for (const PlanLine& line : plan.lines) {
      // Another's admission beside one that waits for its quota.
      passed_ += line.is_admission && !waiting_tenants.empty() &&
                 !waiting_tenants.contains(jobs_.at(line.sequence).tenant);
    }
  }

  void CheckCarriedOut(const StepPlan& plan, const std::vector<StepItem>& items) {
    const auto computing =
        std::ranges::count_if(plan.lines, [](const PlanLine& line) { return line.num_tokens > 0; });
    missed_ += static_cast<int>(computing - std::ssize(items));
  }

  void Sample(SequenceId id) {
    const std::span<const int32_t> tokens = batch_->tokens(id);
    const int32_t token = FakeModel::Sample(tokens);
    const auto job = jobs_.find(id);
    if (tokens.size() + 1 >= job->second.num_wanted) {
      const std::vector<int32_t> all(tokens.begin(), tokens.end());
      if (!job->second.is_fork) {
        EXPECT_EQ(all, FakeModel::Alone(job->second.prompt, all.size()));
      }
      End(job);
      return;
    }
    const bool forks = Draw(0, 25) == 0;
    if (forks) {
      const SequenceId child = batch_->Fork(id);
      jobs_[child] = job->second;
      jobs_[child].is_fork = true;
      batch_->Append(child, token + 1);
    }
    batch_->Append(id, token);
    if (!forks && Draw(0, 200) == 0) batch_->Forget(id);
  }

  std::mt19937 random_;
  std::vector<int64_t> quotas_;  // [tenants]
  int to_come_ = 0;
  int quota_preemptions_ = 0;
  int quota_waits_ = 0;
  int passed_ = 0;
  int missed_ = 0;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<FakeModel> model_;
  std::unique_ptr<Batch> batch_;
  std::map<SequenceId, Job> jobs_;
};

void RunLoads(const std::vector<int>& windows) {
  int preemptions = 0;
  int waits = 0;
  int passed = 0;
  int missed = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    TenantLoad load(seed, windows);
    load.Run();
    if (::testing::Test::HasFatalFailure()) return;
    preemptions += load.quota_preemptions();
    waits += load.quota_waits();
    passed += load.passed();
    missed += load.missed();
  }
  EXPECT_GT(preemptions, 100);
  EXPECT_GT(waits, 100);
  EXPECT_GT(passed, 20);
  EXPECT_EQ(missed, 0);
}

TEST(TenantLoad, EverySequenceEndsWithinItsTenantsQuota) { RunLoads({0}); }
TEST(TenantLoad, EverySequenceEndsWithinItsTenantsQuotaUnderWindows) { RunLoads({0, 32, 20}); }

// Sequences of a tenant that get their next tokens together, beside another tenant that always has
// something to compute.
TEST(TenantLoad, BeamsThatWaitForEachOtherEndBesideAnotherTenant) {
  int64_t preemptions = 0;
  for (uint32_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto draw = [&](int low, int high) {
      return std::uniform_int_distribution(low, high)(random);
    };
    const KvLayout layout = FakeModel::Layout(std::vector<int>{0});
    const SchedulerOptions options{.max_sequences = 8, .max_batched_tokens = draw(8, 80)};
    const auto alone = static_cast<int>(layout.PeakBlocks(70, options.max_batched_tokens));
    auto cache = std::move(KvCache::Create(layout, 60)).value();
    FakeModel model(*cache);
    Batch batch(*cache, options);
    SequenceId busy = batch.Add({.tokens = {5}, .root = RootOf({}, "busy"), .tenant = "busy"});
    std::vector<SequenceId> ready;
    std::set<SequenceId> waiting = {batch.Add({.tokens = std::vector<int32_t>(draw(1, 40), 1),
                                               .tenant = "beams",
                                               .tenant_max_blocks = alone + draw(0, 3)})};
    for (int step = 0; !waiting.empty(); ++step) {
      ASSERT_LT(step, 4000) << ToString(batch.Plan(step));
      const StepPlan plan = batch.Plan(step);
      SCOPED_TRACE(ToString(plan));
      const std::vector<StepItem> items = batch.Begin(plan);
      ASSERT_EQ(model.Forward(items), "");
      batch.Commit(items);
      for (const StepItem& item : items) {
        if (!item.reaches_end) continue;
        if (waiting.erase(item.sequence) > 0) {
          ready.push_back(item.sequence);
        } else {
          batch.Append(busy, 5);
        }
      }
      if (waiting.empty() && batch.tokens(ready[0]).size() < 69) {
        while (ready.size() < 4) ready.push_back(batch.Fork(ready[0]));
        for (const SequenceId id : ready) {
          batch.Append(id, draw(1, 1000));
          waiting.insert(id);
        }
        ready.clear();
      }
      batch.CheckInvariants();
      if (batch.tokens(busy).size() > 60) {
        batch.Remove(busy);
        busy = batch.Add({.tokens = {5}, .root = RootOf({}, "busy"), .tenant = "busy"});
      }
    }
    preemptions += batch.counters().preemptions;
  }
  EXPECT_GT(preemptions, 50);
}

}  // namespace
}  // namespace quire
