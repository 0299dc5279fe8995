// How the queue is served (engine/scheduler.h).
#include <algorithm>
#include <tuple>

#include "engine/step_planner.h"

namespace quire {

void StepPlanner::Admit() {
  std::vector<const SequenceState*> queue;
  for (const SequenceState& waiting : state_.queue) {
    if (waiting.deadline_ms && *waiting.deadline_ms <= state_.now_ms) {
      expiries_.push_back(LineOf(waiting, PlanAction::kExpire, PlanReason::kDeadline));
    } else if (static_cast<int>(waiting.tokens.size()) > waiting.num_computed) {
      queue.push_back(&waiting);
    }
  }
  std::ranges::sort(queue, {}, [](const SequenceState* waiting) {
    return std::tuple(waiting->priority, waiting->tenant, waiting->arrival_ms, waiting->id);
  });
  SequenceId ahead = preempted_for_blocks_;
  // Of each tenant's part of a priority, the oldest is next; among tenants, that of the one which
  // has the fewest running.
  using Part = std::span<const SequenceState* const>;
  std::vector<Part> parts;
  for (size_t begin = 0, end = 0; begin < queue.size(); begin = end) {
    const int priority = queue[begin]->priority;
    parts.clear();
    while (end < queue.size() && queue[end]->priority == priority) {
      const size_t first = end;
      while (end < queue.size() && queue[end]->priority == priority &&
             queue[end]->tenant == queue[first]->tenant) {
        ++end;
      }
      parts.push_back(Part(queue).subspan(first, end - first));
    }
    while (!parts.empty()) {
      const auto next = std::ranges::min_element(parts, {}, [&](Part part) {
        return std::tuple(tenants_[part[0]->tenant].num_running, part[0]->arrival_ms, part[0]->id);
      });
      AdmitNext(*next->front(), &ahead);
      *next = next->subspan(1);
      if (next->empty()) parts.erase(next);
    }
  }
}

void StepPlanner::AdmitNext(const SequenceState& waiting, SequenceId* ahead) {
  const SequenceId fellow = tenants_[waiting.tenant].ahead;
  if (*ahead != 0 || fellow != 0) {
    Wait(waiting, PlanReason::kBehind, *ahead != 0 ? *ahead : fellow);
  } else if (!AdmitOne(waiting)) {
    *ahead = waiting.id;
  }
}

// False when nobody behind it may pass.
bool StepPlanner::AdmitOne(const SequenceState& waiting) {
  const bool has_place = NumRunning() < options_.max_sequences;
  if (!has_place && std::ranges::none_of(running_, [&](const Runner& runner) {
        return GivesWay(runner, waiting, /*within_tenant=*/false);
      })) {
    Wait(waiting, PlanReason::kNoSlot);
    return false;
  }
  int common_tokens = 0;
  if (const SequenceState* sharer = SharerOf(waiting, &common_tokens)) {
    Wait(waiting, PlanReason::kSharedPrefix, sharer->id);
    waits_.back().common_tokens = common_tokens;
    return true;
  }
  if (std::min(prefill_left_, tokens_left_) == 0) {
    Wait(waiting, prefill_limit_);
    return false;
  }
  if (waiting.awaits_tier) {
    Wait(waiting, PlanReason::kTierLoad);
    return true;
  }
  Tenant& tenant = tenants_[waiting.tenant];
  const PlanReason lack = MakeRoom(waiting);
  if (lack == PlanReason::kTenantQuota) {
    Wait(waiting, lack);
    waits_.back().blocks_needed = TenantBlocks(waiting) + Reserve(tenant.num_running);
    waits_.back().blocks_available = TenantRoom(waiting.tenant);
    tenant.ahead = waiting.id;
    return true;
  }
  if (lack != PlanReason::kNone) {
    Wait(waiting, lack);
    waits_.back().blocks_needed = AdmissionBlocks(waiting) + Reserve(NumRunning());
    waits_.back().blocks_available = AdmissionRoom();
    return false;
  }
  const int cached = waiting.match.num_tokens;
  const int gap = static_cast<int>(waiting.tokens.size()) - cached;
  const auto [num_tokens, reason] = ChunkOf(waiting, gap);

  Admission admission{.state = &waiting, .line = LineOf(waiting, PlanAction::kPrefill, reason)};
  PlanLine& line = admission.line;
  line.is_admission = true;
  line.cached_tokens = cached;
  line.first_position = cached;
  line.num_tokens = num_tokens;
  line.blocks_needed =
      std::max<int64_t>(0, layout_.BlocksHeld(cached, cached + num_tokens) - SharedBlocks(waiting));
  line.blocks_available = blocks_available_;
  admission.blocks_to_come = std::max<int64_t>(0, AdmissionBlocks(waiting) - line.blocks_needed);
  const int64_t of_quota =
      std::max<int64_t>(0, layout_.BlocksHeld(cached, cached + num_tokens) - TenantShares(waiting));
  admission.tenant_to_come = std::max<int64_t>(0, TenantBlocks(waiting) - of_quota);
  tenant.quota.blocks_held += of_quota;
  ++tenant.num_running;
  blocks_available_ -= line.blocks_needed;
  tokens_left_ -= num_tokens;
  prefill_left_ -= num_tokens;
  admissions_.push_back(admission);
  return true;
}

// The one that computes the longest common beginning, where at least a block of it is neither found
// nor computed yet. The last token is computed in any case.
const SequenceState* StepPlanner::SharerOf(const SequenceState& waiting, int* common_tokens) const {
  if (waiting.sharing_group < 0) return nullptr;
  const SequenceState* sharer = nullptr;
  const auto consider = [&](const SequenceState& other, int num_computed) {
    if (other.sharing_group != waiting.sharing_group) return;
    const size_t least = std::max(waiting.match.num_tokens, num_computed) + kBlockSlots;
    const size_t most = std::min(waiting.tokens.size() - 1, other.tokens.size());
    if (most < least || waiting.tokens[least - 1] != other.tokens[least - 1]) return;
    const auto ours = waiting.tokens.first(most);
    const auto common =
        static_cast<size_t>(std::ranges::mismatch(ours, other.tokens).in1 - ours.begin());
    if (common < least || static_cast<int>(common) <= *common_tokens) return;
    sharer = &other;
    *common_tokens = static_cast<int>(common);
  };
  for (const Runner& runner : running_) {
    if (runner.takes_part() && runner.gap() > 0) {
      consider(*runner.state, runner.state->num_computed);
    }
  }
  for (const Admission& admission : admissions_) {
    consider(*admission.state, admission.line.cached_tokens);
  }
  return sharer;
}

// Who is less urgent gives way, and where nothing computes (of the tenant, where its quota lacks
// room), so do those that wait for a fellow: the fellow may be the one that waits here.
bool StepPlanner::GivesWay(const Runner& runner, const SequenceState& waiting,
                           bool within_tenant) const {
  if (!runner.takes_part()) return false;
  const int priority = runner.state->priority;
  return priority > waiting.priority || (priority == waiting.priority && runner.gap() == 0 &&
                                         !(within_tenant ? Computes(waiting.tenant) : Computes()));
}

// A place, blocks for all its tokens beside the reserve, and as many of its tenant's quota: what
// there is not, or kNone. Nobody is preempted unless that makes enough room.
PlanReason StepPlanner::MakeRoom(const SequenceState& waiting) {
  Tenant& tenant = tenants_[waiting.tenant];
  // Those that would go, and the blocks that they would leave, less those that it shares with them.
  std::vector<Runner*> leaving;
  int64_t extra = 0;
  int64_t tenant_extra = 0;
  const auto lacks_quota = [&] {
    return tenant.quota.max_blocks > 0 && tenant.num_running > 0 &&
           TenantBlocks(waiting) + Reserve(tenant.num_running) >
               TenantRoom(waiting.tenant) + tenant_extra;
  };
  const auto fits = [&] {
    return NumRunning() < options_.max_sequences &&
           AdmissionBlocks(waiting) + Reserve(NumRunning()) <= AdmissionRoom() + extra;
  };
  const bool lacks_place = NumRunning() >= options_.max_sequences;
  const bool lacked_quota = lacks_quota();
  PlanReason lack = PlanReason::kNone;
  while (lacks_quota() || !fits()) {
    const bool within_tenant = lacks_quota();
    Runner* victim = Victim(&waiting, within_tenant ? &waiting : nullptr);
    if (victim == nullptr) {
      // Blocks that only those leaving share are not in the count. With everybody gone the pool is
      // its own, and what does not fit alone is never asked for.
      if (!leaving.empty() && NumRunning() == 0) break;
      lack = within_tenant ? PlanReason::kTenantQuota
             : lacks_place ? PlanReason::kNoSlot
                           : PlanReason::kNoBlocks;
      break;
    }
    if (leaving.empty()) {
      extra -= SharedBlocks(waiting);
      tenant_extra -= TenantShares(waiting);
    }
    extra += victim->blocks_left();
    if (victim->state->tenant == waiting.tenant) tenant_extra += victim->blocks_left();
    victim->is_preempted = true;  // for the count; undone below
    --tenants_[victim->state->tenant].num_running;
    leaving.push_back(victim);
  }
  for (Runner* runner : leaving) {
    runner->is_preempted = false;
    ++tenants_[runner->state->tenant].num_running;
  }
  if (lack != PlanReason::kNone) return lack;
  for (Runner* runner : leaving) {
    const bool is_urgent = runner->state->priority > waiting.priority;
    const PlanReason reason = is_urgent      ? PlanReason::kPriority
                              : lacks_place  ? PlanReason::kNoSlot
                              : lacked_quota ? PlanReason::kTenantQuota
                                             : PlanReason::kNoBlocks;
    Preempt(*runner, reason, waiting, AdmissionBlocks(waiting));
  }
  return PlanReason::kNone;
}

// What those that run will still take for the tokens they have.
int64_t StepPlanner::BlocksToCome(const Runner& runner) const {
  if (!runner.takes_part() || runner.gap() <= runner.line.num_tokens) return 0;
  const SequenceState& sequence = *runner.state;
  const int64_t all =
      layout_.PeakBlocks(static_cast<int>(sequence.tokens.size()), MaxChunk(sequence));
  return std::max<int64_t>(
      0, all + sequence.shared_tail_copies - sequence.blocks_held - runner.blocks_taken());
}

int64_t StepPlanner::AdmissionRoom() const {
  int64_t room = blocks_available_;
  for (const Runner& runner : running_) room -= BlocksToCome(runner);
  for (const Admission& admission : admissions_) room -= admission.blocks_to_come;
  return room;
}

// Blocks that an admission leaves for so many that run.
int64_t StepPlanner::Reserve(int num_running) const {
  if (num_running == 0) return 0;
  return options_.admission_reserve >= 0 ? options_.admission_reserve
                                         : int64_t{layout_.num_groups()} * num_running;
}

// What others hold of its prefix is there already, unless this plan takes it from its holders.
int64_t StepPlanner::SharedBlocks(const SequenceState& waiting) const {
  return preempts_.empty() ? waiting.match.blocks_used : 0;
}

int64_t StepPlanner::TenantShares(const SequenceState& waiting) const {
  return preempts_.empty() ? waiting.tenant_shares : 0;
}

// As AdmissionBlocks and AdmissionRoom, of its tenant's quota.
int64_t StepPlanner::TenantBlocks(const SequenceState& waiting) const {
  const int64_t all =
      layout_.PeakBlocks(static_cast<int>(waiting.tokens.size()), MaxChunk(waiting));
  return std::max<int64_t>(0, all - TenantShares(waiting));
}

int64_t StepPlanner::TenantRoom(int tenant) const {
  int64_t room = tenants_[tenant].quota.max_blocks - tenants_[tenant].quota.blocks_held;
  for (const Runner& runner : running_) {
    if (runner.state->tenant == tenant) room -= BlocksToCome(runner);
  }
  for (const Admission& admission : admissions_) {
    if (admission.state->tenant == tenant) room -= admission.tenant_to_come;
  }
  return room;
}

// Blocks for all the tokens it has, out of those available; the copy of a partly shared one is
// among them.
int64_t StepPlanner::AdmissionBlocks(const SequenceState& waiting) const {
  const int64_t all =
      layout_.PeakBlocks(static_cast<int>(waiting.tokens.size()), MaxChunk(waiting));
  return std::max<int64_t>(0, all - SharedBlocks(waiting));
}

}  // namespace quire
