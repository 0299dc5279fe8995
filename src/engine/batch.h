// The sequences that are under way, and the transitions that a plan makes: everything of a step
// but the arithmetic.
//
//   Add -> queue -> (admitted) running -> Remove        preempted: running -> queue
//
//   const StepPlan plan = batch.Plan(now);   decides
//   auto items = batch.Begin(plan);          preempts, admits, reserves
//   (the forward pass over items)
//   batch.Commit(items);                     the entries are in their slots
//   (sampling; Append, AcceptDraft, Fork, Remove)
//
// Drafts (docs/speculation.md) are rows behind a decode whose tokens the sequence does not have.
// What their slots hold counts for nothing until the token is drawn and its draft accepted: so a
// refused one leaves no trace, and the next step writes over it.
//
// Invariants (CheckInvariants):
//   1. A running sequence holds tables; one in the queue holds none.
//   2. num_computed <= tokens: the cache holds entries for exactly the first num_computed tokens.
//      A sampled token has no entry until it is fed.
//   3. The cache's used blocks are those that the running sequences' tables name, and those of
//   others
//      that hold some of it for good (engine/pins.h): they leave room for a sequence of any length.
//   4. A tenant's running sequences together hold no more blocks than its quota.
// Used by one thread at a time. The cache outlives it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/cached_tokens.h"
#include "engine/scheduler.h"
#include "engine/step_costs.h"
#include "engine/step_plan.h"
#include "engine/tier_loads.h"
#include "kv/kv_cache.h"

namespace quire {

struct SequenceSpec {
  std::vector<int32_t> tokens{};  // at least one
  Digest root{};                  // prefixes are shared within it
  std::string salt{};             // that made the root
  int priority = 0;               // lower is more urgent
  double arrival_ms = 0;
  std::optional<double> deadline_ms{};
  bool reads_cache = true;  // off: every entry is computed (prompt log-probabilities need that)
  bool keeps_cache = true;  // off: its blocks are private and gone with it
  int max_chunk = 0;        // 0 = no limit of its own
  // Who it belongs to, and the blocks that all of them may hold together (0 = no limit of their
  // own): at least those that it takes alone. Sequences of the same name and quota are one
  // tenant's.
  std::string tenant{};
  int64_t tenant_max_blocks = 0;
};

// A sequence's rows in a step.
struct StepItem {
  SequenceId sequence = 0;
  int first_position = 0;
  int num_tokens = 0;
  int num_drafts = 0;                 // of them, at the end: tokens that it does not have yet
  std::span<const int32_t> tokens{};  // [num_tokens] the ids to feed
  bool reaches_end = false;           // the logits behind its last token say what follows
  std::span<const std::span<const int32_t>> block_tables{};  // [num_groups]
};

// Tokens that may follow those of a sequence.
struct SequenceDrafts {
  SequenceId sequence = 0;
  std::vector<int32_t> tokens{};
};

struct BatchCounters {
  int64_t admissions = 0;
  int64_t preemptions = 0;
  int64_t forks = 0;
  int64_t expired = 0;
  int64_t shared_waits = 0;  // steps that a sequence waited for another to compute its prefix
  // Of prompts and of what was preempted: tokens that came from each kind of tier.
  std::array<int64_t, kNumTierKinds> tier_tokens{};
  int64_t blocks_spilled = 0;  // of preempted sequences, given to tiers
  int64_t takeovers = 0;       // of what came while their sequence ran
};

class Batch {
 public:
  Batch(KvCache& cache, const SchedulerOptions& options);
  ~Batch();

  // Prefixes come from tiers too; outlives the batch.
  void SetLoads(TierLoads* loads) { loads_ = loads; }
  // With tiers, before each plan: asks them for what those that wait lack, takes in what has come,
  // and lets those that run take it over.
  void PumpLoads(double now_ms, TierDeadline now);

  // Into the queue.
  SequenceId Add(SequenceSpec spec);
  // A second sequence with the same tokens and the same entries. It runs when its parent does and a
  // place is free, and queues otherwise: what it shares is found again by content.
  SequenceId Fork(SequenceId parent);
  // A token that was sampled, or forced.
  void Append(SequenceId id, int32_t token);
  // Ends it in any state; filled blocks stay findable.
  void Remove(SequenceId id);
  // A second hold of what a running sequence has computed, findable for as long as the tables live.
  BlockTables Keep(SequenceId id);
  // Drops a running sequence's entries; the tokens are computed again.
  void Forget(SequenceId id);

  // Looks at the heads of the tenants' queues only, as far as a step could admit and a little
  // beyond, and at those whose deadline has passed.
  StepPlan Plan(double now_ms) const;
  // Adds drafts to the decodes of such a plan (StepPlan::only_decodes), as many as the step's
  // tokens allow and there are blocks for: they take none that those that run may need next or
  // somebody waits for, and there are none while a sequence waits for a tier, which is looked
  // after once a step.
  void AddDrafts(StepPlan& plan, std::span<const SequenceDrafts> drafts) const;
  // Tokens that cached sequences of the same root said next: up to `most`, likely fewer.
  std::vector<int32_t> Continuation(SequenceId id, int most);
  // Carries out a plan of the present state, as far as the forward pass; also one that computes
  // nothing, because it may preempt. In the order of the plan's lines. Sequences that the plan
  // expires are only counted: who owns them removes them. The spans are valid until Commit.
  std::vector<StepItem> Begin(const StepPlan& plan);
  // Items of sequences that were removed since Begin are passed over. Drafts are not committed.
  void Commit(std::span<const StepItem> items);
  // The last token appended was the next draft of the step that was committed: its entry stands.
  void AcceptDraft(SequenceId id);

  // Feeds the scheduler's measure of time, which is that of steps without drafts. drafts_factor:
  // what a step with drafts takes over the same without; 0 = not known, then it tells nothing.
  void ObserveStep(const StepPlan& plan, double duration_ms, double drafts_factor = 0);
  // What a prompt's tokens cost, measured; what loads from tiers are weighed against.
  PrefillCost prefill_cost() const { return costs_.prefill(); }

  bool empty() const;
  int num_running() const;
  int num_queued() const;
  bool is_running(SequenceId id) const;
  std::span<const int32_t> tokens(SequenceId id) const;
  int num_computed(SequenceId id) const;
  // Blocks that a running sequence holds in a group.
  std::span<const BlockId> table(SequenceId id, int group) const;
  // Entries that were found rather than computed when it was first admitted.
  int cached_tokens(SequenceId id) const;
  // The same by where they came from, and those that came while it ran.
  const CachedTokens& cached_by_tier(SequenceId id) const;
  double tier_wait_ms(SequenceId id) const;
  // Why not more were, then.
  const PrefixMiss& miss(SequenceId id) const;
  int num_preemptions(SequenceId id) const;
  // When it was first admitted; negative before.
  double admitted_ms(SequenceId id) const;
  const BatchCounters& counters() const { return counters_; }
  const KvCache& cache() const { return cache_; }

  // others: tables that hold blocks of the cache beside its sequences.
  void CheckInvariants(std::span<const BlockTables* const> others = {}) const;

 private:
  struct Entry;
  using QueueKey = std::tuple<int, double, SequenceId>;  // priority, arrival, id

  Entry& At(SequenceId id);
  const Entry& At(SequenceId id) const;
  SequenceId Insert(std::unique_ptr<Entry> entry);
  int TenantOf(const SequenceSpec& spec);
  void Enqueue(SequenceId id);
  void Dequeue(SequenceId id);
  void Preempt(SequenceId id);
  bool Admit(const PlanLine& line, double now_ms);
  PrefixMiss MissOf(SequenceId id, int num_found);
  void TakeOver(SequenceId id);
  int64_t QuotaLeft(const StepPlan& plan, const Entry& entry) const;
  bool HasQuotaFor(const Entry& entry, int num_tokens) const;
  void CountSources(SequenceId id, int first_token, int end_token, bool is_first);
  void EndLoad(SequenceId id);
  bool MayAdmit() const;
  std::vector<SequenceId> QueueCandidates(double now_ms) const;
  std::map<int, std::vector<bool>> TenantBlocks() const;

  KvCache& cache_;
  TierLoads* loads_ = nullptr;  // none: keys and values stay in memory
  SchedulerOptions options_;
  StepCosts costs_;
  std::map<SequenceId, std::unique_ptr<Entry>> entries_;
  std::vector<SequenceId> running_;                            // in order of admission
  std::vector<std::set<QueueKey>> queues_;                     // [tenants]
  std::map<std::pair<std::string, int64_t>, int> tenant_ids_;  // by name and quota
  std::vector<int64_t> tenant_max_blocks_;                     // [tenants]
  std::set<std::pair<double, SequenceId>> queued_deadlines_;   // of those in the queue
  SequenceId next_id_ = 1;
  BatchCounters counters_;
};

}  // namespace quire
