// What one step of the engine does: plain data that can be printed, tested, recorded and explained.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

using SequenceId = int64_t;

enum class PlanAction : uint8_t {
  kDecode,   // computes one token that was sampled
  kPrefill,  // computes tokens whose successors are known, all or a chunk of them
  kPreempt,  // gives its blocks back and waits
  kWait,     // stays in the queue
  kExpire,   // its deadline has passed: it ends
};

enum class PlanReason : uint8_t {
  kNone,
  kWholeGap,      // all that it lacks
  kTokenBudget,   // as much as the step's tokens allow
  kTimeBudget,    // as much as the step's time allows
  kRowLimit,      // as many as its logits rows may be at once
  kNoBlocks,      // wait, preempt: blocks needed, blocks available
  kTenantQuota,   // wait, preempt: as kNoBlocks, of what its tenant's sequences may hold together
  kNoSlot,        // as many sequences run as may
  kSharedPrefix,  // another sequence is computing the same prefix
  kTierLoad,      // its prefix is being loaded: it waits, or computes a little at a time
  kPriority,      // a more urgent sequence takes its place
  kBehind,        // one before it in the queue waits
  kDeadline,
};

// "decode", "prefill", "preempt", "wait", "expire"
std::string_view NameOf(PlanAction action);
// "none", "whole_gap", "token_budget", "time_budget", "row_limit", "no_blocks", "tenant_quota",
// "no_slot", "shared_prefix", "tier_load", "priority", "behind", "deadline"
std::string_view NameOf(PlanReason reason);

// One sequence's part in the step, or why it has none.
struct PlanLine {
  SequenceId sequence = 0;
  PlanAction action = PlanAction::kWait;
  PlanReason reason = PlanReason::kNone;
  bool is_admission = false;  // it leaves the queue with this step
  int cached_tokens = 0;      // of an admission: entries found
  int first_position = 0;     // of the tokens computed
  int num_tokens = 0;         // 0 unless it computes; without drafts
  // Of a decode: tokens that may follow, computed behind it in the same step (docs/speculation.md).
  std::vector<int32_t> drafts{};
  int sequence_tokens = 0;  // that it has, computed or not
  int common_tokens = 0;    // where it waits for another's prefix: the length of that
  // Taken by this line out of those available; where it waits or yields: what finds no room. An
  // admission looks for room for all its tokens and the reserve.
  int64_t blocks_needed = 0;
  int64_t blocks_available = 0;  // when the line was planned
  SequenceId other = 0;          // that it waits for or yields to; 0 = none
};

struct StepPlan {
  double now_ms = 0;
  std::vector<PlanLine> lines;  // those that compute first, in the order of their rows
  int num_tokens = 0;           // sum over the lines
  int num_drafts = 0;           // sum over the lines
  int token_budget = 0;         // that prefill was held to

  bool computes() const { return num_tokens > 0; }
  // Whether it computes tokens that were sampled by sequences that ran before, and changes nothing
  // else.
  bool only_decodes() const;
};

// "s3 prefill 512..767 (256 of 1900 tokens, time budget), 16 blocks of 120": one line, for logs,
// scenarios and `quire explain`.
std::string ToString(const PlanLine& line);
std::string ToString(const StepPlan& plan);  // a line each, joined by newlines

}  // namespace quire
