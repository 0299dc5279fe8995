// Who computes what in the next step: a function of a state that carries everything it needs.
//
// One rule makes prefill, decode, cache hits and resumption the same: `num_computed` chases the
// tokens a sequence has, and a step gives each sequence min(gap, budget). Running sequences come
// first (decodes always get their turn; prefill shares the rest of the budget), then the queue in
// order of priority; of equals that of the tenant with the fewest running, by arrival. Memory that
// runs out takes the blocks of the running sequence that is cheapest to compute again, the last in
// priority first, and of equals the latest; so the sequence that has come furthest always ends, and
// nothing can wait for ever.
//
// A tenant's quota is a smaller pool inside the pool: what runs out there is taken from the same
// tenant's sequences alone, and who waits for it holds back its own tenant's queue alone. A
// sequence that runs as its tenant's only one is not held to it: whoever submits it sees to it that
// it fits.
//
// Reads no clock, holds no model and changes nothing: time and measured costs are inputs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "engine/step_plan.h"
#include "kv/kv_cache.h"

namespace quire {

struct SchedulerOptions {
  int max_sequences = 64;        // that run at once; at least 1
  int max_batched_tokens = 512;  // tokens of one step; at least 1
  // The time that prefill may make a step last while others decode, in ms. 0 = kDefaultStepFactor
  // times what the same decodes take alone.
  double target_step_ms = 0;
  // Blocks that an admission leaves for those that run; -1 = one a group for each of them.
  int64_t admission_reserve = -1;
};

// Beside running decodes, a chunk may make a step so many times as long. The gap between two tokens
// of a running answer stays within it.
inline constexpr double kDefaultStepFactor = 2;

// A sequence whose prefix is being loaded computes so many tokens at a time, and then takes over
// what has come.
inline constexpr int kChunkBesideLoad = 32;

// Measured by the engine (engine/step_costs.h); 0 = not known yet.
struct StepCostEstimate {
  double decode_step_ms = 0;    // a step of the decodes that run
  double prefill_token_ms = 0;  // added by each prefill token
};

// A sequence as the scheduler sees it.
struct SequenceState {
  SequenceId id = 0;
  bool is_running = false;
  std::span<const int32_t> tokens;
  int num_computed = 0;  // 0 in the queue
  // Sequences of the same number may share prefixes; negative: it shares with none.
  int sharing_group = 0;
  int priority = 0;  // lower is more urgent
  double arrival_ms = 0;
  std::optional<double> deadline_ms{};
  int max_chunk = 0;               // of its tokens a step; 0 = no limit of its own
  bool awaits_tier = false;        // queue: its prefix is being loaded, and worth waiting for
  bool is_loading = false;         // its prefix is being loaded
  int64_t blocks_held = 0;         // running
  int64_t blocks_alone = 0;        // running: those that nobody else holds
  int64_t shared_tail_copies = 0;  // running: blocks that its next write copies first
  PrefixMatch match{};             // queue: what the cache holds of it
  int tenant = 0;                  // index into SchedulerState::tenants
  int64_t tenant_shares = 0;       // queue: of match.blocks_used, those that its tenant's hold
};

struct TenantState {
  int64_t max_blocks = 0;   // that its running sequences may hold together; 0 = no limit of its own
  int64_t blocks_held = 0;  // that they hold, each block once; told where there is a limit
};

struct SchedulerState {
  double now_ms = 0;
  StepCostEstimate costs{};
  int64_t blocks_available = 0;
  const KvLayout* layout = nullptr;
  std::span<const SequenceState> running;  // in order of admission
  std::span<const SequenceState> queue;    // any order; those without a gap are passed over
  std::span<const TenantState> tenants{};  // those further have no limit of their own
};

StepPlan PlanStep(const SchedulerState& state, const SchedulerOptions& options);

}  // namespace quire
