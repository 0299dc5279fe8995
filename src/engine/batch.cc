#include "engine/batch.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "engine/batch_entry.h"

namespace quire {
namespace {

// Of the queue, beyond those that a step could admit: what a plan tells of who waits.
constexpr int kWaitingShown = 64;

}  // namespace

Batch::Batch(KvCache& cache, const SchedulerOptions& options) : cache_(cache), options_(options) {}
Batch::~Batch() = default;

Batch::Entry& Batch::At(SequenceId id) {
  const auto found = entries_.find(id);
  QUIRE_CHECK(found != entries_.end(), "no sequence {}", id);
  return *found->second;
}

const Batch::Entry& Batch::At(SequenceId id) const { return const_cast<Batch*>(this)->At(id); }

SequenceId Batch::Insert(std::unique_ptr<Entry> entry) {
  const SequenceId id = next_id_++;
  entries_.emplace(id, std::move(entry));
  return id;
}

int Batch::TenantOf(const SequenceSpec& spec) {
  const auto [found, is_first] = tenant_ids_.try_emplace(
      {spec.tenant, spec.tenant_max_blocks}, static_cast<int>(tenant_max_blocks_.size()));
  if (is_first) {
    tenant_max_blocks_.push_back(spec.tenant_max_blocks);
    queues_.emplace_back();
  }
  return found->second;
}

void Batch::Enqueue(SequenceId id) {
  const Entry& entry = At(id);
  const SequenceSpec& spec = entry.spec;
  queues_[entry.tenant].emplace(spec.priority, spec.arrival_ms, id);
  if (spec.deadline_ms) queued_deadlines_.emplace(*spec.deadline_ms, id);
}

void Batch::Dequeue(SequenceId id) {
  const Entry& entry = At(id);
  const SequenceSpec& spec = entry.spec;
  queues_[entry.tenant].erase({spec.priority, spec.arrival_ms, id});
  if (spec.deadline_ms) queued_deadlines_.erase({*spec.deadline_ms, id});
}

SequenceId Batch::Add(SequenceSpec spec) {
  QUIRE_CHECK(!spec.tokens.empty(), "a sequence without tokens");
  auto entry = std::make_unique<Entry>(std::move(spec));
  entry->tenant = TenantOf(entry->spec);
  const SequenceId id = Insert(std::move(entry));
  Enqueue(id);
  return id;
}

SequenceId Batch::Fork(SequenceId parent_id) {
  const Entry& parent = At(parent_id);
  auto child = std::make_unique<Entry>(parent.spec);
  child->tenant = parent.tenant;
  child->awaits_token = parent.awaits_token;
  child->tier_wait_ms = parent.tier_wait_ms;
  ++counters_.forks;
  const bool runs = parent.tables && num_running() < options_.max_sequences;
  if (runs) {
    cache_.SetPurpose({.sequence = next_id_, .reason = "fork"});
    child->tables = cache_.Fork(*parent.tables);
    child->cached_tokens = parent.cached_tokens;
    child->cached_by_tier = parent.cached_by_tier;
    child->miss = parent.miss;
    child->admitted_ms = parent.admitted_ms;
  }
  const SequenceId id = Insert(std::move(child));
  if (runs) {
    running_.push_back(id);
  } else {
    Enqueue(id);
  }
  return id;
}

void Batch::Append(SequenceId id, int32_t token) {
  Entry& entry = At(id);
  entry.spec.tokens.push_back(token);
  entry.awaits_token = false;
}

void Batch::Remove(SequenceId id) {
  const Entry& entry = At(id);
  cache_.SetPurpose({.sequence = id, .reason = "end"});
  if (loads_ != nullptr) loads_->End(id);
  if (entry.tables) {
    std::erase(running_, id);
  } else {
    Dequeue(id);
  }
  entries_.erase(id);
}

void Batch::Forget(SequenceId id) {
  Entry& entry = At(id);
  if (!entry.tables) return;
  cache_.SetPurpose({.sequence = id, .reason = "forget"});
  entry.tables.reset();
  entry.tables = entry.spec.keeps_cache ? cache_.Acquire(entry.spec.root, entry.spec.tokens, 0)
                                        : cache_.AcquirePrivate();
  QUIRE_CHECK(entry.tables.has_value(), "empty tables take no block");
}

BlockTables Batch::Keep(SequenceId id) {
  cache_.SetPurpose({.sequence = id, .reason = "pin"});
  return cache_.Keep(*At(id).tables);
}

// Back to the queue at its old place.
void Batch::Preempt(SequenceId id) {
  Entry& entry = At(id);
  QUIRE_CHECK(entry.tables.has_value(), "sequence {} does not run", id);
  cache_.SetPurpose({.sequence = id, .reason = "preempt"});
  if (loads_ != nullptr) {
    EndLoad(id);
    // What it computed is the next to be evicted.
    if (loads_->BeatsComputing(entry.num_computed(), prefill_cost())) {
      counters_.blocks_spilled += cache_.OfferFresh(*entry.tables);
    }
  }
  entry.tables.reset();
  std::erase(running_, id);
  Enqueue(id);
  ++entry.num_preemptions;
  ++counters_.preemptions;
}

// Whether a plan could admit the head of a queue: else no prompt need be looked up.
bool Batch::MayAdmit() const {
  if (num_queued() == 0) return false;
  if (num_running() < options_.max_sequences) return true;
  int priority = std::numeric_limits<int>::max();
  for (const auto& queue : queues_) {
    if (!queue.empty()) priority = std::min(priority, std::get<0>(*queue.begin()));
  }
  return std::ranges::any_of(running_, [&](SequenceId id) {
    const Entry& entry = At(id);
    return entry.spec.priority > priority || entry.gap() == 0;
  });
}

std::vector<SequenceId> Batch::QueueCandidates(double now_ms) const {
  std::vector<SequenceId> candidates;
  for (const auto& [deadline_ms, id] : queued_deadlines_) {
    if (deadline_ms > now_ms) break;
    candidates.push_back(id);
  }
  const int free_places = std::max(0, options_.max_sequences - num_running());
  const size_t most =
      candidates.size() + std::min(free_places, options_.max_batched_tokens) + kWaitingShown;
  // One of each tenant in turn, so that none with many hides the others.
  using Place = std::set<QueueKey>::const_iterator;
  std::vector<std::pair<Place, Place>> places;
  for (const auto& queue : queues_) {
    if (!queue.empty()) places.emplace_back(queue.begin(), queue.end());
  }
  while (!places.empty() && candidates.size() < most) {
    for (auto& [place, end] : places) {
      for (bool is_found = false; !is_found && place != end; ++place) {
        const SequenceId id = std::get<SequenceId>(*place);
        const Entry& entry = At(id);
        const std::optional<double>& deadline_ms = entry.spec.deadline_ms;
        is_found = !entry.awaits_token && (!deadline_ms || *deadline_ms > now_ms);
        if (is_found) candidates.push_back(id);
      }
    }
    std::erase_if(places, [](const auto& part) { return part.first == part.second; });
  }
  return candidates;
}

// Of each tenant that has a quota and runs: which blocks its sequences hold.
std::map<int, std::vector<bool>> Batch::TenantBlocks() const {
  std::map<int, std::vector<bool>> held;
  for (const SequenceId id : running_) {
    const Entry& entry = At(id);
    if (tenant_max_blocks_[entry.tenant] == 0) continue;
    std::vector<bool>& blocks = held[entry.tenant];
    if (blocks.empty()) blocks.resize(cache_.usage().total_blocks);
    for (int group = 0; group < cache_.layout().num_groups(); ++group) {
      for (const BlockId block : entry.tables->table(group)) {
        if (block != kNoBlock) blocks[block] = true;
      }
    }
  }
  return held;
}

StepPlan Batch::Plan(double now_ms) const {
  std::map<Digest, int> groups;  // of sequences that share a root
  const auto state_of = [&](SequenceId id) {
    const Entry& entry = At(id);
    const int group =
        groups.try_emplace(entry.spec.root, static_cast<int>(groups.size())).first->second;
    // A running one is found whether or not it looks; in the queue only one that looks may wait.
    const bool shares = entry.tables ? entry.spec.keeps_cache : entry.reads_cache();
    return SequenceState{
        .id = id,
        .is_running = entry.tables.has_value(),
        .tokens = entry.spec.tokens,
        .num_computed = entry.num_computed(),
        .sharing_group = shares ? group : -1,
        .priority = entry.spec.priority,
        .arrival_ms = entry.spec.arrival_ms,
        .deadline_ms = entry.spec.deadline_ms,
        .max_chunk = entry.spec.max_chunk,
        .awaits_tier = loads_ != nullptr && loads_->Awaits(id),
        .is_loading = loads_ != nullptr && loads_->IsLoading(id, entry.num_computed()),
        .tenant = entry.tenant};
  };
  const std::map<int, std::vector<bool>> tenant_blocks = TenantBlocks();
  std::vector<TenantState> tenants;
  for (const int64_t max_blocks : tenant_max_blocks_) tenants.push_back({.max_blocks = max_blocks});
  for (const auto& [tenant, blocks] : tenant_blocks) {
    tenants[tenant].blocks_held = std::ranges::count(blocks, true);
  }
  std::vector<SequenceState> running, queue;
  int num_decodes = 0;
  for (const SequenceId id : running_) {
    SequenceState sequence = state_of(id);
    const BlockTables& tables = *At(id).tables;
    sequence.blocks_held = tables.num_blocks();
    sequence.blocks_alone = cache_.BlocksHeldAlone(tables);
    if (At(id).gap() > 0) {
      const int end = sequence.num_computed + 1;
      const int64_t room = cache_.layout().BlocksHeld(sequence.num_computed, end);
      sequence.shared_tail_copies =
          cache_.BlocksToReserve(tables, end) - std::max<int64_t>(0, room - sequence.blocks_held);
    }
    num_decodes += At(id).gap() == 1;
    running.push_back(sequence);
  }
  const bool looks_up = MayAdmit();
  std::vector<BlockId> matched;
  for (const SequenceId id : QueueCandidates(now_ms)) {
    SequenceState sequence = state_of(id);
    if (looks_up && At(id).reads_cache()) {
      // The last token is computed in any case: its logits say what follows.
      const auto held = tenant_blocks.find(sequence.tenant);
      const bool is_limited = held != tenant_blocks.end();
      matched.clear();
      sequence.match = cache_.Match(entries_.at(id)->chain, sequence.tokens,
                                    static_cast<int>(sequence.tokens.size()) - 1,
                                    is_limited ? &matched : nullptr);
      for (const BlockId block : matched) sequence.tenant_shares += held->second[block];
    }
    if (loads_ != nullptr) {
      sequence.is_loading = loads_->IsLoading(id, sequence.match.num_tokens);
    }
    queue.push_back(sequence);
  }
  const SchedulerState state{.now_ms = now_ms,
                             .costs = costs_.Estimate(num_decodes),
                             .blocks_available = cache_.usage().available_blocks(),
                             .layout = &cache_.layout(),
                             .running = running,
                             .queue = queue,
                             .tenants = tenants};
  return PlanStep(state, options_);
}

// Takes over what the plan found. False, and it stays in the queue, where no block is free for the
// copy of a partly shared one.
bool Batch::Admit(const PlanLine& line, double now_ms) {
  Entry& entry = At(line.sequence);
  QUIRE_CHECK(!entry.tables, "sequence {} runs already", line.sequence);
  cache_.SetPurpose({.sequence = line.sequence, .reason = "admission"});
  const bool is_first = entry.admitted_ms < 0;
  if (is_first) entry.miss = MissOf(line.sequence, line.cached_tokens);
  std::optional<BlockTables> tables =
      entry.spec.keeps_cache
          ? cache_.Acquire(entry.spec.root, entry.spec.tokens, line.cached_tokens)
          : cache_.AcquirePrivate();
  if (!tables) return false;
  entry.tables = std::move(tables);
  if (is_first) {
    // Others of this step may have taken some of it.
    if (entry.num_computed() != line.cached_tokens) {
      entry.miss = MissOf(line.sequence, entry.num_computed());
    }
    entry.cached_tokens = entry.num_computed();
    entry.admitted_ms = now_ms;
  }
  CountSources(line.sequence, 0, entry.num_computed(), is_first);
  if (loads_ != nullptr)
    entry.tier_wait_ms = std::max(entry.tier_wait_ms, loads_->WaitedMs(line.sequence));
  Dequeue(line.sequence);
  running_.push_back(line.sequence);
  ++counters_.admissions;
  return true;
}

PrefixMiss Batch::MissOf(SequenceId id, int num_found) {
  Entry& entry = At(id);
  if (!entry.reads_cache()) return {.reason = MissReason::kNotRead};
  PrefixMiss miss = cache_.Explain(entry.chain, entry.spec.tokens, num_found);
  if (loads_ != nullptr) loads_->Explain(id, miss);
  return miss;
}

std::vector<StepItem> Batch::Begin(const StepPlan& plan) {
  cache_.SetTime(plan.now_ms);
  for (const PlanLine& line : plan.lines) {
    if (line.action == PlanAction::kPreempt) Preempt(line.sequence);
    if (line.action == PlanAction::kExpire) ++counters_.expired;
    if (line.reason == PlanReason::kSharedPrefix) ++counters_.shared_waits;
    if (line.reason == PlanReason::kTierLoad && line.action == PlanAction::kWait) {
      loads_->HoldBack(line.sequence, plan.now_ms);
    }
  }
  // Whoever is admitted takes hold of what was found for it before anybody's room evicts that.
  for (const PlanLine& line : plan.lines) {
    if (line.is_admission) Admit(line, plan.now_ms);
  }
  std::vector<StepItem> items;
  for (const PlanLine& line : plan.lines) {
    if (line.num_tokens == 0) continue;
    Entry& entry = At(line.sequence);
    if (!entry.tables) continue;
    cache_.SetPurpose({.sequence = line.sequence, .reason = "growth"});
    const int first = entry.num_computed();
    const int num_tokens = std::min(line.num_tokens, entry.num_tokens() - first);
    // Where the plan's count of blocks was not enough, it keeps what it has; the next plan sees
    // exact numbers.
    const auto num_drafts = static_cast<int>(line.drafts.size());
    const bool has_drafts =
        num_drafts > 0 && cache_.Reserve(*entry.tables, first + num_tokens + num_drafts);
    if (!has_drafts && !cache_.Reserve(*entry.tables, first + num_tokens)) continue;
    StepItem item{.sequence = line.sequence,
                  .first_position = first,
                  .num_tokens = num_tokens,
                  .tokens = std::span(entry.spec.tokens).subspan(first, num_tokens),
                  .reaches_end = first + num_tokens == entry.num_tokens(),
                  .block_tables = entry.tables->views()};
    if (has_drafts) {
      entry.fed.assign(item.tokens.begin(), item.tokens.end());
      entry.fed.insert(entry.fed.end(), line.drafts.begin(), line.drafts.end());
      entry.fed_position = first;
      item.num_tokens += num_drafts;
      item.num_drafts = num_drafts;
      item.tokens = entry.fed;
    }
    items.push_back(item);
  }
  return items;
}

void Batch::Commit(std::span<const StepItem> items) {
  for (const StepItem& item : items) {
    const auto found = entries_.find(item.sequence);
    if (found == entries_.end() || !found->second->tables) continue;
    Entry& entry = *found->second;
    cache_.SetPurpose({.sequence = item.sequence, .reason = "computed"});
    cache_.Commit(*entry.tables,
                  std::span(entry.spec.tokens)
                      .first(item.first_position + item.num_tokens - item.num_drafts));
    entry.awaits_token = item.reaches_end;
  }
}

void Batch::ObserveStep(const StepPlan& plan, double duration_ms, double drafts_factor) {
  if (plan.num_drafts > 0) {
    if (drafts_factor <= 0) return;
    duration_ms /= drafts_factor;
  }
  int num_decodes = 0;
  double sum_of_positions = 0;  // of the prefill tokens
  for (const PlanLine& line : plan.lines) {
    if (line.action == PlanAction::kDecode) {
      ++num_decodes;
    } else {
      sum_of_positions += line.num_tokens * (line.first_position + (line.num_tokens - 1) / 2.);
    }
  }
  const int num_prefill_tokens = plan.num_tokens - num_decodes;
  costs_.Observe(num_decodes, num_prefill_tokens, duration_ms,
                 num_prefill_tokens > 0 ? sum_of_positions / num_prefill_tokens : -1);
}

bool Batch::empty() const { return entries_.empty(); }
int Batch::num_running() const { return static_cast<int>(running_.size()); }
int Batch::num_queued() const { return static_cast<int>(entries_.size() - running_.size()); }
bool Batch::is_running(SequenceId id) const { return At(id).tables.has_value(); }
std::span<const int32_t> Batch::tokens(SequenceId id) const { return At(id).spec.tokens; }
int Batch::num_computed(SequenceId id) const { return At(id).num_computed(); }
std::span<const BlockId> Batch::table(SequenceId id, int group) const {
  return At(id).tables->table(group);
}
int Batch::cached_tokens(SequenceId id) const { return At(id).cached_tokens; }
const CachedTokens& Batch::cached_by_tier(SequenceId id) const { return At(id).cached_by_tier; }
double Batch::tier_wait_ms(SequenceId id) const { return At(id).tier_wait_ms; }
const PrefixMiss& Batch::miss(SequenceId id) const { return At(id).miss; }
int Batch::num_preemptions(SequenceId id) const { return At(id).num_preemptions; }
double Batch::admitted_ms(SequenceId id) const { return At(id).admitted_ms; }

void Batch::CheckInvariants(std::span<const BlockTables* const> others) const {
  size_t num_waiting = 0;
  size_t num_deadlines = 0;
  for (size_t tenant = 0; tenant < queues_.size(); ++tenant) {
    num_waiting += queues_[tenant].size();
    for (const auto& [priority, arrival_ms, id] : queues_[tenant]) {
      const Entry& entry = At(id);
      QUIRE_CHECK(!entry.tables, "sequence {} waits with tables", id);
      QUIRE_CHECK(entry.tenant == static_cast<int>(tenant), "sequence {} of tenant {} waits in {}",
                  id, entry.tenant, tenant);
      num_deadlines += entry.spec.deadline_ms.has_value();
    }
  }
  QUIRE_CHECK(num_deadlines == queued_deadlines_.size(), "{} deadlines, {} kept", num_deadlines,
              queued_deadlines_.size());
  QUIRE_CHECK(running_.size() + num_waiting == entries_.size(), "{} run, {} wait, {} in all",
              running_.size(), num_waiting, entries_.size());
  QUIRE_CHECK(num_running() <= options_.max_sequences, "{} run, {} may", num_running(),
              options_.max_sequences);
  std::set<BlockId> held;
  const auto add = [&](const BlockTables& tables) {
    for (int group = 0; group < cache_.layout().num_groups(); ++group) {
      for (const BlockId block : tables.table(group)) {
        if (block != kNoBlock) held.insert(block);
      }
    }
  };
  for (const SequenceId id : running_) {
    const Entry& entry = At(id);
    QUIRE_CHECK(entry.tables.has_value(), "sequence {} runs without tables", id);
    QUIRE_CHECK(entry.num_computed() <= entry.num_tokens(), "{} entries of {} tokens",
                entry.num_computed(), entry.num_tokens());
    add(*entry.tables);
  }
  for (const BlockTables* tables : others) add(*tables);
  for (const BlockId block : cache_.HeldBlocks()) held.insert(block);
  if (loads_ != nullptr) loads_->CheckInvariants();
  const int64_t used = cache_.usage().used_blocks;
  QUIRE_CHECK(static_cast<int64_t>(held.size()) == used, "tables name {} blocks, {} are used",
              held.size(), used);
  for (const auto& [tenant, blocks] : TenantBlocks()) {
    const int64_t count = std::ranges::count(blocks, true);
    QUIRE_CHECK(count <= tenant_max_blocks_[tenant], "tenant {} holds {} blocks of {}", tenant,
                count, tenant_max_blocks_[tenant]);
  }
}

}  // namespace quire
