// The plan of one step in the making: budgets that shrink as lines are planned. Inside the
// scheduler (engine/scheduler.h) only.
#pragma once

#include <utility>
#include <vector>

#include "engine/scheduler.h"

namespace quire {

class StepPlanner {
 public:
  StepPlanner(const SchedulerState& state, const SchedulerOptions& options);
  StepPlan Make();

 private:
  // A running sequence while the plan is made.
  struct Runner {
    const SequenceState* state = nullptr;
    bool is_expired = false;
    bool is_preempted = false;
    PlanLine line{};  // num_tokens = 0: none so far

    int gap() const { return static_cast<int>(state->tokens.size()) - state->num_computed; }
    bool is_prefill() const { return gap() > 1; }
    bool takes_part() const { return !is_expired && !is_preempted; }
    // That its line takes, and those that its going makes available.
    int64_t blocks_taken() const { return line.num_tokens > 0 ? line.blocks_needed : 0; }
    int64_t blocks_left() const { return blocks_taken() + state->blocks_alone; }
  };
  // One that leaves the queue with this plan.
  struct Admission {
    const SequenceState* state = nullptr;
    PlanLine line{};
    int64_t blocks_to_come = 0;  // that later steps take
    int64_t tenant_to_come = 0;  // of its tenant's quota
  };
  struct Tenant {
    TenantState quota{};   // blocks_held: with this plan's lines
    int num_running = 0;   // with this plan's admissions
    SequenceId ahead = 0;  // holds back those behind it in the tenant's queue; 0 = none
  };

  // Those that run (scheduler.cc).
  void SetBudget();
  int TimeBudget(int num_decodes) const;
  void PlanRunning(Runner& runner);
  void PlanTokens(Runner& runner, int num_tokens, PlanReason reason);
  int64_t LineBlocks(const Runner& runner, int num_tokens) const;
  int LargestFit(const Runner& runner, int num_tokens, int64_t room) const;
  int64_t QuotaRoom(const SequenceState& sequence) const;

  // Those that wait (admission.cc).
  void Admit();
  void AdmitNext(const SequenceState& waiting, SequenceId* ahead);
  bool AdmitOne(const SequenceState& waiting);
  const SequenceState* SharerOf(const SequenceState& waiting, int* common_tokens) const;
  bool GivesWay(const Runner& runner, const SequenceState& waiting, bool within_tenant) const;
  PlanReason MakeRoom(const SequenceState& waiting);
  int64_t SharedBlocks(const SequenceState& waiting) const;
  int64_t AdmissionBlocks(const SequenceState& waiting) const;
  int64_t AdmissionRoom() const;
  int64_t TenantShares(const SequenceState& waiting) const;
  int64_t TenantBlocks(const SequenceState& waiting) const;
  int64_t TenantRoom(int tenant) const;
  int64_t BlocksToCome(const Runner& runner) const;
  int64_t Reserve(int num_running) const;

  // Both.
  int MaxChunk(const SequenceState& sequence) const;
  std::pair<int, PlanReason> ChunkOf(const SequenceState& sequence, int gap) const;
  Runner* Victim(const SequenceState* waiting, const SequenceState* fellow);
  void Preempt(Runner& victim, PlanReason reason, const SequenceState& for_whom, int64_t needed);
  void Wait(const SequenceState& sequence, PlanReason reason, SequenceId other = 0);
  int NumRunning() const;
  bool Computes() const;
  bool Computes(int tenant) const;

  const SchedulerState& state_;
  const SchedulerOptions& options_;
  const KvLayout& layout_;
  int64_t blocks_available_;
  int tokens_left_;                                      // of the step
  int prefill_left_ = 0;                                 // of them, for prefill
  PlanReason prefill_limit_ = PlanReason::kTokenBudget;  // what set that
  std::vector<Runner> running_;
  std::vector<Admission> admissions_;
  std::vector<Tenant> tenants_;
  SequenceId preempted_for_blocks_ = 0;  // the last; 0 = none
  std::vector<PlanLine> preempts_, waits_, expiries_;
  StepPlan plan_;
};

// A line that says so much of a sequence.
inline PlanLine LineOf(const SequenceState& sequence, PlanAction action, PlanReason reason) {
  return {.sequence = sequence.id,
          .action = action,
          .reason = reason,
          .sequence_tokens = static_cast<int>(sequence.tokens.size())};
}

}  // namespace quire
