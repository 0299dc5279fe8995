// Random loads on tiny pools, carried out with counts alone: whoever fits alone always ends.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "engine/scheduler.h"

namespace quire {
namespace {

struct Job {
  std::vector<int32_t> tokens{};
  int num_wanted = 0;  // tokens in the end
  int num_computed = 0;
  int64_t blocks_held = 0;
  bool is_running = false;
  SequenceState spec{};  // what does not change
};

class Load {
 public:
  Load(uint32_t seed, std::vector<int> windows) : random_(seed) {
    std::vector<KvLayerShape> shapes;
    for (const int window : windows) shapes.push_back({1, 4, 4, window});
    layout_ = std::move(KvLayout::Make(shapes, KvType::kF16)).value();
    options_.max_sequences = Draw(1, 6);
    options_.max_batched_tokens = Draw(1, 2) == 1 ? Draw(1, 64) : Draw(40, 200);
    if (Draw(0, 3) == 0) options_.admission_reserve = Draw(0, 4);
    costs_ = {.decode_step_ms = 1. * Draw(0, 3), .prefill_token_ms = .1 * Draw(0, 3)};
    const int longest = Draw(2, 150);
    num_blocks_ = layout_.PeakBlocks(longest, options_.max_batched_tokens) + Draw(0, 3);
    available_ = num_blocks_;
    const int num_jobs = Draw(2, 16);
    for (int i = 0; i < num_jobs; ++i) {
      Job job{.num_wanted = Draw(2, longest)};
      const int prompt = Draw(1, job.num_wanted - 1);
      for (int k = 0; k < prompt; ++k) job.tokens.push_back(Draw(0, 1));
      job.spec.id = i + 1;
      job.spec.priority = Draw(0, 4) == 0 ? Draw(0, 2) : 0;
      job.spec.arrival_ms = Draw(0, 60);
      job.spec.max_chunk = Draw(0, 4) == 0 ? Draw(1, 20) : 0;
      jobs_.push_back(std::move(job));
    }
  }

  // Steps until all have ended, or more than any progress allows.
  void Run() {
    int most_steps = 0;  // each token alone, each in a step of its own, and those that preempt
    for (const Job& job : jobs_) most_steps += 40 * job.num_wanted + 300;
    for (now_ms_ = 0; !jobs_.empty(); ++now_ms_) {
      ASSERT_LT(now_ms_, most_steps);
      Step();
      if (::testing::Test::HasFatalFailure()) return;
    }
    EXPECT_EQ(available_, num_blocks_);
  }

  int preemptions() const { return preemptions_; }

 private:
  int Draw(int low, int high) { return std::uniform_int_distribution(low, high)(random_); }

  void Step() {
    std::vector<SequenceState> running, queue;
    for (const SequenceId id : order_) running.push_back(StateOf(At(id)));
    for (const Job& job : jobs_) {
      if (!job.is_running && job.spec.arrival_ms <= now_ms_) queue.push_back(StateOf(job));
    }
    const StepPlan plan = PlanStep({.now_ms = 1. * now_ms_,
                                    .costs = costs_,
                                    .blocks_available = available_,
                                    .layout = &layout_,
                                    .running = running,
                                    .queue = queue},
                                   options_);
    SCOPED_TRACE(ToString(plan));
    ASSERT_LE(plan.num_tokens, options_.max_batched_tokens);
    // Somebody computes, or somebody went so that the next step can.
    idle_steps_ = plan.computes() || running.empty() + queue.empty() == 2 ? 0 : idle_steps_ + 1;
    ASSERT_LT(idle_steps_, 2);
    std::vector<SequenceId> seen;
    for (const PlanLine& line : plan.lines) {
      ASSERT_EQ(std::ranges::count(seen, line.sequence), 0);
      seen.push_back(line.sequence);
      if (line.action == PlanAction::kPreempt) Release(At(line.sequence));
    }
    for (const PlanLine& line : plan.lines) {
      if (line.num_tokens > 0) Compute(line);
      if (::testing::Test::HasFatalFailure()) return;
    }
    std::erase_if(jobs_, [](const Job& job) { return job.num_wanted == 0; });
  }

  Job& At(SequenceId id) {
    return *std::ranges::find(jobs_, id, [](const Job& job) { return job.spec.id; });
  }

  SequenceState StateOf(const Job& job) const {
    SequenceState state = job.spec;
    state.is_running = job.is_running;
    state.tokens = job.tokens;
    state.num_computed = job.num_computed;
    state.sharing_group = -1;
    state.blocks_held = state.blocks_alone = job.blocks_held;
    return state;
  }

  void Release(Job& job) {
    ++preemptions_;
    ASSERT_TRUE(job.is_running);
    Drop(job);
  }
  void Drop(Job& job) {
    available_ += job.blocks_held;
    job.blocks_held = 0;
    job.num_computed = 0;
    job.is_running = false;
    std::erase(order_, job.spec.id);
  }

  void Compute(const PlanLine& line) {
    Job& job = At(line.sequence);
    ASSERT_EQ(job.is_running, !line.is_admission);
    if (line.is_admission) {
      job.is_running = true;
      order_.push_back(job.spec.id);
      ASSERT_LE(std::ssize(order_), options_.max_sequences);
    }
    ASSERT_EQ(line.first_position, job.num_computed);
    const int end = job.num_computed + line.num_tokens;
    ASSERT_LE(end, std::ssize(job.tokens));
    const int64_t held = std::max(job.blocks_held, layout_.BlocksHeld(job.num_computed, end));
    ASSERT_EQ(held - job.blocks_held, line.blocks_needed);
    available_ -= held - job.blocks_held;
    ASSERT_GE(available_, 0);
    job.num_computed = end;
    const int64_t kept = layout_.BlocksHeld(end, end);
    available_ += held - kept;
    job.blocks_held = kept;
    if (end < std::ssize(job.tokens)) return;
    job.tokens.push_back(7);
    if (std::ssize(job.tokens) < job.num_wanted) return;
    Drop(job);
    job.num_wanted = 0;
  }

  std::mt19937 random_;
  KvLayout layout_;
  SchedulerOptions options_;
  StepCostEstimate costs_;
  int64_t num_blocks_ = 0;
  int64_t available_ = 0;
  std::vector<Job> jobs_;
  std::vector<SequenceId> order_;
  int now_ms_ = 0;
  int idle_steps_ = 0;
  int preemptions_ = 0;
};

void RunLoads(const std::vector<int>& windows) {
  int preemptions = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    Load load(seed, windows);
    load.Run();
    if (::testing::Test::HasFatalFailure()) return;
    preemptions += load.preemptions();
  }
  EXPECT_GT(preemptions, 300);  // or the pools were not tiny
}

TEST(SchedulerLoad, EverySequenceThatFitsAloneEnds) { RunLoads({0}); }
TEST(SchedulerLoad, EverySequenceThatFitsAloneEndsWhereWindowsGiveBlocksBack) {
  RunLoads({0, 20, 20});
}

}  // namespace
}  // namespace quire
