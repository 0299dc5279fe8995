// How sequences get what tiers have (engine/tier_loads.h).
#include <algorithm>

#include "engine/batch.h"
#include "engine/batch_entry.h"

namespace quire {

void Batch::PumpLoads(double now_ms, TierDeadline now) {
  cache_.SetPurpose({.reason = "load"});
  const LoadMoment moment{.now_ms = now_ms,
                          .now = now,
                          .prefill = prefill_cost(),
                          .reserved_blocks = int64_t{cache_.layout().num_groups()} * num_running()};
  for (const SequenceId id : QueueCandidates(now_ms)) {
    const Entry& entry = At(id);
    if (!entry.reads_cache()) continue;
    loads_->Begin({.sequence = id,
                   .root = entry.spec.root,
                   .salt = entry.spec.salt,
                   .tokens = entry.spec.tokens,
                   .waited_ms = entry.tier_wait_ms},
                  moment);
  }
  for (const SequenceId id : running_) loads_->Advance(id, At(id).num_computed());
  loads_->Pump(moment);
  const std::vector<SequenceId> running = running_;
  for (const SequenceId id : running) {
    if (loads_->IsKnown(id)) TakeOver(id);
  }
}

// A running sequence takes over what has come for it, in place of computing it.
void Batch::TakeOver(SequenceId id) {
  Entry& entry = At(id);
  const int before = entry.num_computed();
  const int most = entry.num_tokens() - 1;  // the last token is computed in any case
  const bool wants_more =
      entry.gap() > 1 && (loads_->IsLoading(id, before) || before < loads_->EndToken(id));
  if (!wants_more) {
    EndLoad(id);
    return;
  }
  const PrefixMatch match = cache_.Match(entry.chain, entry.spec.tokens, most);
  if (match.num_tokens - before < kBlockSlots || !HasQuotaFor(entry, match.num_tokens)) return;
  cache_.SetPurpose({.sequence = id, .reason = "load"});
  std::optional<BlockTables> tables = cache_.Acquire(entry.spec.root, entry.spec.tokens, most);
  if (!tables || tables->num_tokens() <= before) return;
  entry.tables = std::move(tables);
  ++counters_.takeovers;
  const bool is_first = entry.num_preemptions == 0;
  CountSources(id, before, entry.num_computed(), is_first);
  if (!is_first) return;
  entry.cached_tokens += entry.num_computed() - before;
  entry.miss = MissOf(id, entry.num_computed());
}

bool Batch::HasQuotaFor(const Entry& entry, int num_tokens) const {
  const int64_t quota = tenant_max_blocks_[entry.tenant];
  if (quota == 0) return true;
  const int64_t held = std::ranges::count(TenantBlocks().at(entry.tenant), true);
  return held + cache_.layout().BlocksHeld(num_tokens, num_tokens) <= quota;
}

// Whose entries they were: a sequence's cached tokens (is_first), and the tiers' hits in any case.
void Batch::CountSources(SequenceId id, int first_token, int end_token, bool is_first) {
  Entry& entry = At(id);
  CachedTokens by_tier;
  for (int token = first_token; token < end_token;) {
    const int next = std::min(end_token, (token / kBlockSlots + 1) * kBlockSlots);
    const auto kind = loads_ == nullptr ? std::nullopt : loads_->SourceOf(id, token / kBlockSlots);
    if (!kind) {
      by_tier.memory += next - token;
    } else {
      (*kind == TierKind::kDisk ? by_tier.disk : by_tier.remote) += next - token;
      counters_.tier_tokens[static_cast<size_t>(*kind)] += next - token;
    }
    token = next;
  }
  if (!is_first) return;
  entry.cached_by_tier.memory += by_tier.memory;
  entry.cached_by_tier.disk += by_tier.disk;
  entry.cached_by_tier.remote += by_tier.remote;
}

void Batch::EndLoad(SequenceId id) {
  Entry& entry = At(id);
  if (loads_->IsKnown(id)) entry.tier_wait_ms = loads_->WaitedMs(id);
  loads_->End(id);
}

}  // namespace quire
