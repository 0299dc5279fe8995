#include "engine/batch.h"

#include <algorithm>

#include "base/check.h"

namespace quire {
namespace {

// Of the queue, beyond those that a step could admit: what a plan tells of who waits.
constexpr int kWaitingShown = 64;

}  // namespace

struct Batch::Entry {
  explicit Entry(SequenceSpec s) : spec(std::move(s)), chain(spec.root) {}

  SequenceSpec spec;
  IdentityChain chain;                  // for Match, while it waits
  std::optional<BlockTables> tables{};  // while it runs
  int cached_tokens = 0;
  double admitted_ms = -1;
  // All its tokens have been computed since the last came: beams then wait for their fellows. Where
  // it is preempted meanwhile, it returns with its next token.
  bool awaits_token = false;

  int num_computed() const { return tables ? tables->num_tokens() : 0; }
  int num_tokens() const { return static_cast<int>(spec.tokens.size()); }
  int gap() const { return num_tokens() - num_computed(); }
  bool reads_cache() const { return spec.reads_cache && spec.keeps_cache; }
};

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

void Batch::Enqueue(SequenceId id) {
  const SequenceSpec& spec = At(id).spec;
  queue_.emplace(spec.priority, spec.arrival_ms, id);
  if (spec.deadline_ms) queued_deadlines_.emplace(*spec.deadline_ms, id);
}

SequenceId Batch::Add(SequenceSpec spec) {
  QUIRE_CHECK(!spec.tokens.empty(), "a sequence without tokens");
  const SequenceId id = Insert(std::make_unique<Entry>(std::move(spec)));
  Enqueue(id);
  return id;
}

SequenceId Batch::Fork(SequenceId parent_id) {
  const Entry& parent = At(parent_id);
  auto child = std::make_unique<Entry>(parent.spec);
  child->awaits_token = parent.awaits_token;
  ++counters_.forks;
  const bool runs = parent.tables && num_running() < options_.max_sequences;
  if (runs) {
    child->tables = cache_.Fork(*parent.tables);
    child->cached_tokens = parent.cached_tokens;
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
  if (entry.tables) {
    std::erase(running_, id);
  } else {
    queue_.erase({entry.spec.priority, entry.spec.arrival_ms, id});
    if (entry.spec.deadline_ms) queued_deadlines_.erase({*entry.spec.deadline_ms, id});
  }
  entries_.erase(id);
}

void Batch::Forget(SequenceId id) {
  Entry& entry = At(id);
  if (!entry.tables) return;
  entry.tables.reset();
  entry.tables = entry.spec.keeps_cache ? cache_.Acquire(entry.spec.root, entry.spec.tokens, 0)
                                        : cache_.AcquirePrivate();
  QUIRE_CHECK(entry.tables.has_value(), "empty tables take no block");
}

// Back to the queue at its old place.
void Batch::Preempt(SequenceId id) {
  Entry& entry = At(id);
  QUIRE_CHECK(entry.tables.has_value(), "sequence {} does not run", id);
  entry.tables.reset();
  std::erase(running_, id);
  Enqueue(id);
  ++counters_.preemptions;
}

// Whether a plan could admit the head of the queue: else no prompt need be looked up.
bool Batch::MayAdmit() const {
  if (queue_.empty()) return false;
  if (num_running() < options_.max_sequences) return true;
  const int priority = std::get<0>(*queue_.begin());
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
  for (const auto& [priority, arrival_ms, id] : queue_) {
    if (candidates.size() >= most) break;
    const Entry& entry = At(id);
    const std::optional<double>& deadline_ms = entry.spec.deadline_ms;
    if (entry.awaits_token || (deadline_ms && *deadline_ms <= now_ms)) continue;
    candidates.push_back(id);
  }
  return candidates;
}

StepPlan Batch::Plan(double now_ms) const {
  std::map<Digest, int> groups;  // of sequences that share a root
  const auto state_of = [&](SequenceId id) {
    const Entry& entry = At(id);
    const int group =
        groups.try_emplace(entry.spec.root, static_cast<int>(groups.size())).first->second;
    // A running one is found whether or not it looks; in the queue only one that looks may wait.
    const bool shares = entry.tables ? entry.spec.keeps_cache : entry.reads_cache();
    return SequenceState{.id = id,
                         .is_running = entry.tables.has_value(),
                         .tokens = entry.spec.tokens,
                         .num_computed = entry.num_computed(),
                         .sharing_group = shares ? group : -1,
                         .priority = entry.spec.priority,
                         .arrival_ms = entry.spec.arrival_ms,
                         .deadline_ms = entry.spec.deadline_ms,
                         .max_chunk = entry.spec.max_chunk};
  };
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
  for (const SequenceId id : QueueCandidates(now_ms)) {
    SequenceState sequence = state_of(id);
    if (looks_up && At(id).reads_cache()) {
      // The last token is computed in any case: its logits say what follows.
      sequence.match = cache_.Match(entries_.at(id)->chain, sequence.tokens,
                                    static_cast<int>(sequence.tokens.size()) - 1);
    }
    queue.push_back(sequence);
  }
  const SchedulerState state{.now_ms = now_ms,
                             .costs = costs_.Estimate(num_decodes),
                             .blocks_available = cache_.usage().available_blocks(),
                             .layout = &cache_.layout(),
                             .running = running,
                             .queue = queue};
  return PlanStep(state, options_);
}

// Takes over what the plan found. False, and it stays in the queue, where no block is free for the
// copy of a partly shared one.
bool Batch::Admit(const PlanLine& line, double now_ms) {
  Entry& entry = At(line.sequence);
  QUIRE_CHECK(!entry.tables, "sequence {} runs already", line.sequence);
  std::optional<BlockTables> tables =
      entry.spec.keeps_cache
          ? cache_.Acquire(entry.spec.root, entry.spec.tokens, line.cached_tokens)
          : cache_.AcquirePrivate();
  if (!tables) return false;
  entry.tables = std::move(tables);
  if (entry.admitted_ms < 0) {
    entry.cached_tokens = entry.num_computed();
    entry.admitted_ms = now_ms;
  }
  queue_.erase({entry.spec.priority, entry.spec.arrival_ms, line.sequence});
  if (entry.spec.deadline_ms) queued_deadlines_.erase({*entry.spec.deadline_ms, line.sequence});
  running_.push_back(line.sequence);
  ++counters_.admissions;
  return true;
}

std::vector<StepItem> Batch::Begin(const StepPlan& plan) {
  for (const PlanLine& line : plan.lines) {
    if (line.action == PlanAction::kPreempt) Preempt(line.sequence);
    if (line.action == PlanAction::kExpire) ++counters_.expired;
    if (line.reason == PlanReason::kSharedPrefix) ++counters_.shared_waits;
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
    const int first = entry.num_computed();
    const int num_tokens = std::min(line.num_tokens, entry.num_tokens() - first);
    // Where the plan's count of blocks was not enough, it keeps what it has; the next plan sees
    // exact numbers.
    if (!cache_.Reserve(*entry.tables, first + num_tokens)) continue;
    items.push_back({.sequence = line.sequence,
                     .first_position = first,
                     .num_tokens = num_tokens,
                     .tokens = std::span(entry.spec.tokens).subspan(first, num_tokens),
                     .reaches_end = first + num_tokens == entry.num_tokens(),
                     .block_tables = entry.tables->views()});
  }
  return items;
}

void Batch::Commit(std::span<const StepItem> items) {
  for (const StepItem& item : items) {
    const auto found = entries_.find(item.sequence);
    if (found == entries_.end() || !found->second->tables) continue;
    Entry& entry = *found->second;
    cache_.Commit(*entry.tables,
                  std::span(entry.spec.tokens).first(item.first_position + item.num_tokens));
    entry.awaits_token = item.reaches_end;
  }
}

void Batch::ObserveStep(const StepPlan& plan, double duration_ms) {
  int num_decodes = 0;
  for (const PlanLine& line : plan.lines) num_decodes += line.action == PlanAction::kDecode;
  costs_.Observe(num_decodes, plan.num_tokens - num_decodes, duration_ms);
}

bool Batch::empty() const { return entries_.empty(); }
int Batch::num_running() const { return static_cast<int>(running_.size()); }
int Batch::num_queued() const { return static_cast<int>(queue_.size()); }
bool Batch::is_running(SequenceId id) const { return At(id).tables.has_value(); }
std::span<const int32_t> Batch::tokens(SequenceId id) const { return At(id).spec.tokens; }
int Batch::num_computed(SequenceId id) const { return At(id).num_computed(); }
std::span<const BlockId> Batch::table(SequenceId id, int group) const {
  return At(id).tables->table(group);
}
int Batch::cached_tokens(SequenceId id) const { return At(id).cached_tokens; }
double Batch::admitted_ms(SequenceId id) const { return At(id).admitted_ms; }

void Batch::CheckInvariants() const {
  QUIRE_CHECK(running_.size() + queue_.size() == entries_.size(), "{} run, {} wait, {} in all",
              running_.size(), queue_.size(), entries_.size());
  QUIRE_CHECK(num_running() <= options_.max_sequences, "{} run, {} may", num_running(),
              options_.max_sequences);
  std::set<BlockId> held;
  for (const SequenceId id : running_) {
    const Entry& entry = At(id);
    QUIRE_CHECK(entry.tables.has_value(), "sequence {} runs without tables", id);
    QUIRE_CHECK(entry.num_computed() <= entry.num_tokens(), "{} entries of {} tokens",
                entry.num_computed(), entry.num_tokens());
    for (int group = 0; group < cache_.layout().num_groups(); ++group) {
      for (const BlockId block : entry.tables->table(group)) {
        if (block != kNoBlock) held.insert(block);
      }
    }
  }
  size_t num_deadlines = 0;
  for (const auto& [priority, arrival_ms, id] : queue_) {
    const Entry& entry = At(id);
    QUIRE_CHECK(!entry.tables, "sequence {} waits with tables", id);
    num_deadlines += entry.spec.deadline_ms.has_value();
  }
  QUIRE_CHECK(num_deadlines == queued_deadlines_.size(), "{} deadlines, {} kept", num_deadlines,
              queued_deadlines_.size());
  const int64_t used = cache_.usage().used_blocks;
  QUIRE_CHECK(static_cast<int64_t>(held.size()) == used, "tables name {} blocks, {} are used",
              held.size(), used);
}

}  // namespace quire
