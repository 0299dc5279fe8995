// Drafts in a step (docs/speculation.md): the room for them, and what becomes of them.
#include <algorithm>
#include <limits>

#include "base/check.h"
#include "engine/batch.h"
#include "engine/batch_entry.h"

namespace quire {
namespace {

int64_t BlocksTaken(const PlanLine& line) { return line.num_tokens > 0 ? line.blocks_needed : 0; }

bool WaitsForBlocks(const PlanLine& line) {
  return line.action == PlanAction::kWait &&
         (line.reason == PlanReason::kNoBlocks || line.reason == PlanReason::kTenantQuota);
}

bool WaitsForTier(const PlanLine& line) {
  return line.action == PlanAction::kWait && line.reason == PlanReason::kTierLoad;
}

}  // namespace

void Batch::AddDrafts(StepPlan& plan, std::span<const SequenceDrafts> drafts) const {
  QUIRE_CHECK(plan.only_decodes(), "drafts in a step that does more than decode");
  if (std::ranges::any_of(plan.lines, WaitsForTier)) return;
  int rows_left = options_.max_batched_tokens - plan.num_tokens;
  // The blocks that a sequence drafts into stay its own, drawn or not: it is ahead of itself by as
  // much. Where somebody waits for memory, or those that run could not all take a block next, it
  // takes none.
  int64_t blocks_left =
      cache_.usage().available_blocks() - int64_t{cache_.layout().num_groups()} * num_running();
  for (const PlanLine& line : plan.lines) blocks_left -= BlocksTaken(line);
  if (std::ranges::any_of(plan.lines, WaitsForBlocks)) blocks_left = 0;
  for (const SequenceDrafts& wanted : drafts) {
    const auto line = std::ranges::find_if(plan.lines, [&](const PlanLine& l) {
      return l.sequence == wanted.sequence && l.action == PlanAction::kDecode;
    });
    QUIRE_CHECK(line != plan.lines.end(), "drafts for sequence {}, which decodes nothing",
                wanted.sequence);
    const Entry& entry = At(wanted.sequence);
    const int end = entry.num_tokens();
    const int64_t needed = cache_.BlocksToReserve(*entry.tables, end);
    const auto blocks_for = [&](int count) {
      return cache_.BlocksToReserve(*entry.tables, end + count) - needed;
    };
    int count = std::min(static_cast<int>(wanted.tokens.size()), rows_left);
    if (count > 0 && blocks_for(count) > 0) {
      const int64_t room = std::max<int64_t>(0, std::min(blocks_left, QuotaLeft(plan, entry)));
      while (count > 0 && blocks_for(count) > room) --count;
    }
    if (count <= 0) continue;
    const int64_t taken = blocks_for(count);
    line->drafts.assign(wanted.tokens.begin(), wanted.tokens.begin() + count);
    line->blocks_needed += taken;
    plan.num_drafts += count;
    rows_left -= count;
    blocks_left -= taken;
  }
}

// Of its tenant's quota, what the plan leaves beside a block a group for each that runs.
int64_t Batch::QuotaLeft(const StepPlan& plan, const Entry& entry) const {
  const int64_t quota = tenant_max_blocks_[entry.tenant];
  if (quota == 0) return std::numeric_limits<int64_t>::max();
  int64_t left = quota - std::ranges::count(TenantBlocks().at(entry.tenant), true);
  for (const PlanLine& line : plan.lines) {
    if (At(line.sequence).tenant == entry.tenant) left -= BlocksTaken(line);
  }
  for (const SequenceId id : running_) {
    if (At(id).tenant == entry.tenant) left -= cache_.layout().num_groups();
  }
  return left;
}

std::vector<int32_t> Batch::Continuation(SequenceId id, int most) {
  Entry& entry = At(id);
  return cache_.Continuation(entry.chain, entry.spec.tokens, most);
}

void Batch::AcceptDraft(SequenceId id) {
  Entry& entry = At(id);
  const auto place = static_cast<size_t>(entry.num_computed() - entry.fed_position);
  QUIRE_CHECK(entry.tables && entry.gap() == 1 && place < entry.fed.size() &&
                  entry.fed[place] == entry.spec.tokens.back(),
              "sequence {} has no draft of token {} at {}", id, entry.spec.tokens.back(),
              entry.num_computed());
  cache_.SetPurpose({.sequence = id, .reason = "computed"});
  cache_.Commit(*entry.tables, entry.spec.tokens);
  entry.awaits_token = true;
}

}  // namespace quire
