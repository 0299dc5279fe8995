#include "engine/scheduler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "base/check.h"
#include "engine/step_planner.h"

// Why every sequence that fits alone ends.
//
//   1. A decode is never undone: its token stays with the sequence when its blocks go. So steps
//   with
//      decodes are at most as many as tokens to be sampled.
//   2. Between two of them only finitely many steps compute prefill alone. Such a step moves
//   prefill
//      on, and whoever is admitted finds room for all its tokens beside all that those running
//      still lack, so that prefill does not run dry by itself; what upsets that (forks, arrivals,
//      entries forgotten) is spent when it happens.
//   3. A step that computes nothing is followed by one that does. Memory is taken from the last in
//      the order of victims; the first in that order keeps its blocks and, with everybody else
//      gone, has the pool to itself. Counts here may be too low by blocks that victims share, so
//      that it waits a step; the next one sees exact numbers.
//   4. What was preempted returns by admission only, which leaves those that run a reserve, and
//      nothing is admitted in a step that preempts for the memory of those that run. Sequences that
//      wait for a fellow (idle) and hold what it needs give way when nothing else computes.
//   5. Inside a tenant's quota the same holds, with its quota for the pool: its victims stand in
//   the
//      same order, and the last of its sequences that run is not held to it.

namespace quire {
namespace {

// Tokens of a chunk beside decodes while costs are not known.
constexpr int kCautiousTokens = 32;
// Rows that the kernels take at once.
constexpr int kRowTile = 8;
// A step's prefill while somebody waits for a tier.
constexpr double kStepBesideWaitMs = 50;
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

}  // namespace

StepPlanner::StepPlanner(const SchedulerState& state, const SchedulerOptions& options)
    : state_(state),
      options_(options),
      layout_(*state.layout),
      blocks_available_(state.blocks_available),
      tokens_left_(options.max_batched_tokens),
      plan_{.now_ms = state.now_ms, .lines = {}} {
  running_.reserve(state.running.size());
  for (const auto sequences : {state.running, state.queue}) {
    for (const SequenceState& sequence : sequences) {
      const auto tenant = static_cast<size_t>(sequence.tenant);
      if (tenants_.size() <= tenant) tenants_.resize(tenant + 1);
    }
  }
  for (size_t i = 0; i < std::min(tenants_.size(), state.tenants.size()); ++i) {
    tenants_[i].quota = state.tenants[i];
  }
  for (const SequenceState& sequence : state.running) {
    running_.push_back({.state = &sequence});
    ++tenants_[sequence.tenant].num_running;
  }
}

StepPlan StepPlanner::Make() {
  for (Runner& runner : running_) {
    runner.is_expired = runner.state->deadline_ms && *runner.state->deadline_ms <= state_.now_ms;
    if (!runner.is_expired) continue;
    expiries_.push_back(LineOf(*runner.state, PlanAction::kExpire, PlanReason::kDeadline));
  }
  SetBudget();
  std::vector<Runner*> order;
  for (Runner& runner : running_) order.push_back(&runner);
  std::ranges::stable_sort(order, {}, [&](const Runner* runner) {
    return std::tuple(runner->is_prefill(), runner->state->priority);
  });
  for (Runner* runner : order) PlanRunning(*runner);
  Admit();

  for (const bool prefill : {false, true}) {
    for (const Runner* runner : order) {
      if (runner->line.num_tokens > 0 && runner->is_prefill() == prefill) {
        plan_.lines.push_back(runner->line);
      }
    }
  }
  for (const Admission& admission : admissions_) plan_.lines.push_back(admission.line);
  for (const PlanLine& line : plan_.lines) plan_.num_tokens += line.num_tokens;
  for (const auto* lines : {&preempts_, &waits_, &expiries_}) {
    plan_.lines.insert(plan_.lines.end(), lines->begin(), lines->end());
  }
  return std::move(plan_);
}

void StepPlanner::SetBudget() {
  int num_decodes = 0;
  for (const Runner& runner : running_) num_decodes += runner.takes_part() && runner.gap() == 1;
  num_decodes = std::min(num_decodes, tokens_left_);
  prefill_left_ = tokens_left_ - num_decodes;
  if (num_decodes > 0) {
    const int time_budget = TimeBudget(num_decodes);
    if (time_budget < prefill_left_) {
      prefill_left_ = time_budget;
      prefill_limit_ = PlanReason::kTimeBudget;
    }
  }
  // Whoever waits for a tier is looked after between steps: these are short meanwhile.
  const bool someone_awaits =
      std::ranges::any_of(state_.queue, [](const SequenceState& s) { return s.awaits_tier; });
  if (someone_awaits && state_.costs.prefill_token_ms > 0) {
    const double tokens = kStepBesideWaitMs / state_.costs.prefill_token_ms;
    const int most = static_cast<int>(std::clamp<double>(tokens, 2 * kRowTile, 1 << 30));
    if (most < prefill_left_) {
      prefill_left_ = most;
      prefill_limit_ = PlanReason::kTimeBudget;
    }
  }
  plan_.token_budget = prefill_left_;
}

// Rows, decodes and prefill together, fill whole tiles where that leaves prefill half a tile; fewer
// are an even number. Never so few that prefill stands still.
int StepPlanner::TimeBudget(int num_decodes) const {
  const StepCostEstimate& costs = state_.costs;
  double tokens = costs.decode_step_ms > 0 ? kRowTile : kCautiousTokens;
  if (costs.decode_step_ms > 0 && costs.prefill_token_ms > 0) {
    const double target_ms = options_.target_step_ms > 0
                                 ? options_.target_step_ms
                                 : kDefaultStepFactor * costs.decode_step_ms;
    tokens = std::floor((target_ms - costs.decode_step_ms) / costs.prefill_token_ms);
  }
  constexpr double kMostTokens = 1 << 30;
  constexpr int kLeast = kRowTile / 2;
  const int rows = num_decodes + static_cast<int>(std::clamp<double>(tokens, kLeast, kMostTokens));
  const int whole_tiles = rows / kRowTile * kRowTile;
  return (whole_tiles >= num_decodes + kLeast ? whole_tiles : rows / 2 * 2) - num_decodes;
}

int StepPlanner::MaxChunk(const SequenceState& sequence) const {
  return sequence.max_chunk > 0 ? std::min(sequence.max_chunk, options_.max_batched_tokens)
                                : options_.max_batched_tokens;
}

std::pair<int, PlanReason> StepPlanner::ChunkOf(const SequenceState& sequence, int gap) const {
  int num_tokens = std::min(gap, std::min(prefill_left_, tokens_left_));
  PlanReason reason = num_tokens == gap ? PlanReason::kWholeGap : prefill_limit_;
  if (sequence.max_chunk > 0 && sequence.max_chunk < num_tokens) {
    num_tokens = sequence.max_chunk;
    reason = PlanReason::kRowLimit;
  }
  if (sequence.is_loading && kChunkBesideLoad < num_tokens) {
    num_tokens = kChunkBesideLoad;
    reason = PlanReason::kTierLoad;
  }
  return {num_tokens, reason};
}

void StepPlanner::PlanRunning(Runner& runner) {
  if (!runner.takes_part() || runner.gap() == 0) return;
  if (!runner.is_prefill()) {
    if (tokens_left_ == 0) return Wait(*runner.state, PlanReason::kTokenBudget);
    return PlanTokens(runner, 1, PlanReason::kWholeGap);
  }
  const auto [num_tokens, reason] = ChunkOf(*runner.state, runner.gap());
  if (num_tokens == 0) return Wait(*runner.state, prefill_limit_);
  PlanTokens(runner, num_tokens, reason);
}

void StepPlanner::PlanTokens(Runner& runner, int num_tokens, PlanReason reason) {
  const SequenceState& sequence = *runner.state;
  Tenant& tenant = tenants_[sequence.tenant];
  int64_t needed = LineBlocks(runner, num_tokens);
  while (true) {
    const int64_t quota_room = QuotaRoom(sequence);
    const int64_t room = std::min(blocks_available_, quota_room);
    if (needed <= room) break;
    const PlanReason lack = needed > quota_room ? PlanReason::kTenantQuota : PlanReason::kNoBlocks;
    if (const int fit = LargestFit(runner, num_tokens, room); fit >= kBlockSlots) {
      num_tokens = fit;
      reason = lack;
      needed = LineBlocks(runner, num_tokens);
      break;
    }
    if (lack == PlanReason::kTenantQuota) {
      Runner* victim = Victim(nullptr, &sequence);
      Preempt(*victim, lack, sequence, needed);
      tenant.ahead = victim->state->id;
      if (victim == &runner) return;
      continue;
    }
    Runner* victim = Victim(nullptr, nullptr);
    if (victim == &runner && NumRunning() == 1) {
      Wait(sequence, PlanReason::kNoBlocks);
      waits_.back().blocks_needed = needed;
      waits_.back().blocks_available = blocks_available_;
      return;
    }
    Preempt(*victim, PlanReason::kNoBlocks, sequence, needed);
    preempted_for_blocks_ = victim->state->id;
    if (victim == &runner) return;
  }
  runner.line =
      LineOf(sequence, runner.is_prefill() ? PlanAction::kPrefill : PlanAction::kDecode, reason);
  runner.line.first_position = sequence.num_computed;
  runner.line.num_tokens = num_tokens;
  runner.line.blocks_needed = needed;
  runner.line.blocks_available = blocks_available_;
  blocks_available_ -= needed;
  tenant.quota.blocks_held += needed;
  tokens_left_ -= num_tokens;
  if (runner.is_prefill()) prefill_left_ -= num_tokens;
}

// That a line of so many tokens takes out of those available.
int64_t StepPlanner::LineBlocks(const Runner& runner, int num_tokens) const {
  const SequenceState& sequence = *runner.state;
  const int64_t held =
      layout_.BlocksHeld(sequence.num_computed, sequence.num_computed + num_tokens);
  return std::max<int64_t>(0, held - sequence.blocks_held) + sequence.shared_tail_copies;
}

// Blocks that it may still take of its tenant's quota.
int64_t StepPlanner::QuotaRoom(const SequenceState& sequence) const {
  const Tenant& tenant = tenants_[sequence.tenant];
  if (tenant.quota.max_blocks == 0 || tenant.num_running <= 1) return kNoLimit;
  return std::max<int64_t>(0, tenant.quota.max_blocks - tenant.quota.blocks_held);
}

int StepPlanner::LargestFit(const Runner& runner, int num_tokens, int64_t room) const {
  int fits = 0;
  while (fits < num_tokens) {
    const int middle = fits + (num_tokens - fits + 1) / 2;
    if (LineBlocks(runner, middle) <= room) {
      fits = middle;
    } else {
      num_tokens = middle - 1;
    }
  }
  return fits;
}

// The victim's line and its blocks return to the budgets.
void StepPlanner::Preempt(Runner& victim, PlanReason reason, const SequenceState& for_whom,
                          int64_t needed) {
  PlanLine line = LineOf(*victim.state, PlanAction::kPreempt, reason);
  line.other = victim.state == &for_whom ? 0 : for_whom.id;
  Tenant& tenant = tenants_[victim.state->tenant];
  line.blocks_needed = needed;
  line.blocks_available =
      reason == PlanReason::kTenantQuota ? QuotaRoom(*victim.state) : blocks_available_;
  preempts_.push_back(line);
  // A wait that was planned for it earlier is over.
  std::erase_if(waits_, [&](const PlanLine& wait) { return wait.sequence == victim.state->id; });
  blocks_available_ += victim.blocks_left();
  tenant.quota.blocks_held -= victim.blocks_left();
  --tenant.num_running;
  tokens_left_ += victim.line.num_tokens;
  if (victim.is_prefill()) prefill_left_ += victim.line.num_tokens;
  victim.line = {};
  victim.is_preempted = true;
}

// The last in priority; of those the cheapest to compute again, by what only it holds; of those the
// latest admitted. For a waiting one only those that give way to it; where a fellow is given only
// those of its tenant.
StepPlanner::Runner* StepPlanner::Victim(const SequenceState* waiting,
                                         const SequenceState* fellow) {
  Runner* victim = nullptr;
  for (Runner& runner : running_) {
    if (!runner.takes_part()) continue;
    if (fellow != nullptr && runner.state->tenant != fellow->tenant) continue;
    if (waiting != nullptr && !GivesWay(runner, *waiting, fellow != nullptr)) continue;
    const auto rank = [](const Runner& r) {
      return std::tuple(-int64_t{r.state->priority}, r.state->blocks_alone);
    };
    if (victim == nullptr || rank(runner) <= rank(*victim)) victim = &runner;
  }
  return victim;
}

void StepPlanner::Wait(const SequenceState& sequence, PlanReason reason, SequenceId other) {
  waits_.push_back(LineOf(sequence, PlanAction::kWait, reason));
  waits_.back().other = other;
}

bool StepPlanner::Computes() const {
  return !admissions_.empty() || std::ranges::any_of(running_, [](const Runner& runner) {
    return runner.line.num_tokens > 0;
  });
}

// Whether a sequence of the tenant computes, or would if the step's tokens went round.
bool StepPlanner::Computes(int tenant) const {
  return std::ranges::any_of(
             admissions_,
             [&](const Admission& admission) { return admission.state->tenant == tenant; }) ||
         std::ranges::any_of(running_, [&](const Runner& runner) {
           return runner.state->tenant == tenant && runner.takes_part() && runner.gap() > 0;
         });
}

int StepPlanner::NumRunning() const {
  const auto stays = [](const Runner& runner) { return !runner.is_preempted; };
  return static_cast<int>(std::ranges::count_if(running_, stays) + std::ssize(admissions_));
}

StepPlan PlanStep(const SchedulerState& state, const SchedulerOptions& options) {
  QUIRE_CHECK(options.max_sequences >= 1 && options.max_batched_tokens >= 1,
              "{} sequences, {} tokens", options.max_sequences, options.max_batched_tokens);
  return StepPlanner(state, options).Make();
}

}  // namespace quire
