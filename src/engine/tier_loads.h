// Prefixes on their way from tiers into the cache.
//
//   Begin -> asking -> deciding -> loading -> done      (any) -> End
//
// For a sequence that waits, the tiers are asked for all that memory lacks of its prompt. What they
// have is weighed against computing it (plan/load_plan.h). A load that is sooner holds the sequence
// back, for max_wait_ms in all; a split does not, and where the time is up it no longer does: the
// sequence then runs in small chunks while blocks come in, and takes over what is there
// (Batch::PumpLoads). Blocks that have come are findable by everybody, and held until the load is
// done.
//
// Invariants (CheckInvariants):
//   1. A block that a tier writes to is held, and nobody reads it before it is published.
//   2. One block is loaded once at a time, however many sequences want it.
//   3. A sequence is held back no longer than max_wait_ms.
// Reads no clock. Used by the thread that steps the engine; the cache and the tiers outlive it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/step_plan.h"
#include "kv/kv_cache.h"
#include "kv/loadable_prefix.h"
#include "kv/tiers/tier_set.h"
#include "plan/load_plan.h"

namespace quire {

struct TierLoadOptions {
  double max_wait_ms = 250;  // that a sequence is held back, in all
  int max_loads = 8;         // of sequences, at once
};

struct TierLoadCounters {
  int64_t tokens_asked = 0;          // that memory lacked
  std::array<int64_t, 3> choices{};  // by LoadChoice
};

// A sequence whose prompt is looked for.
struct PrefixWanted {
  SequenceId sequence = 0;
  Digest root{};
  std::string_view salt{};            // of the root
  std::span<const int32_t> tokens{};  // all that it has
  double waited_ms = 0;               // for tiers, before
};

// What the engine knows when it looks after the loads.
struct LoadMoment {
  double now_ms = 0;
  TierDeadline now{};  // the same moment, by the clock of the tiers
  PrefillCost prefill{};
  int64_t reserved_blocks = 0;  // of those available: what running sequences may need next
};

class TierLoads {
 public:
  TierLoads(TierSet& tiers, KvCache& cache, const TierLoadOptions& options);
  ~TierLoads();

  // Asks the tiers for what memory lacks of a prompt, where they were not asked before.
  void Begin(const PrefixWanted& wanted, const LoadMoment& moment);
  // Takes in what has come, decides, and gives the tiers more to do.
  void Pump(const LoadMoment& moment);
  // The sequence could run and is held back: the time from now_ms to the next Pump is counted.
  void HoldBack(SequenceId sequence, double now_ms);
  // Whether it is worth waiting for.
  bool Awaits(SequenceId sequence) const;
  // It runs and has computed so many tokens: what it will compute next need not be loaded.
  void Advance(SequenceId sequence, int num_computed);
  // It is gone, or wants no more. What tiers still write to is held until they are done.
  void End(SequenceId sequence);

  bool IsKnown(SequenceId sequence) const { return loads_.contains(sequence); }
  // Whether there is, or will be, something to take over behind the first num_tokens.
  bool IsLoading(SequenceId sequence, int num_tokens) const;
  // The first token behind all that tiers have of its prompt; 0 where that is not known.
  int EndToken(SequenceId sequence) const;
  // That it was held back, in all.
  double WaitedMs(SequenceId sequence) const;
  // The kind of tier that an entry of its table came from; nothing: memory had it.
  std::optional<TierKind> SourceOf(SequenceId sequence, int entry) const;
  // Whether a prefix of so many tokens, were it in a tier, would be loaded rather than computed.
  bool BeatsComputing(int num_tokens, const PrefillCost& prefill) const;
  // Says why no more was found, where a tier has to do with it.
  void Explain(SequenceId sequence, PrefixMiss& miss) const;

  // Whether tiers have something to hand back still.
  bool is_idle() const { return flights_.empty() && asking_.empty(); }
  const TierLoadCounters& counters() const { return counters_; }
  void CheckInvariants() const;

 private:
  enum class Phase : uint8_t { kAsking, kLoading, kDone };
  enum class ItemState : uint8_t { kToDo, kElsewhere, kUnderWay, kSettled };
  struct Item {
    StoredBlock block{};
    int tier = 0;
    ItemState state = ItemState::kToDo;
  };
  struct Load {
    Load(const PrefixWanted& wanted);

    SequenceId sequence;
    Digest root;
    std::string salt;
    std::vector<int32_t> tokens;  // whole entries that a load may bring
    IdentityChain chain;
    double waited_ms;
    double held_since_ms = -1;  // negative = is not held back

    Phase phase = Phase::kAsking;
    std::vector<BlockSource> sources{};                     // [entries][num_groups]
    std::vector<std::pair<int, int>> asked{};               // (entry, group) of the keys
    std::vector<std::optional<std::vector<bool>>> found{};  // [tiers] of [asked]
    TierTicket find = 0;

    LoadDecision decision{};
    double last_news_ms = 0;  // when it was decided, or a block came
    bool is_trial = false;    // one block, for what it tells of the tier's speed
    int end_token = 0;
    std::vector<Item> items{};  // in the order in which they are loaded
    int num_computed = 0;       // of one that runs
    int num_under_way = 0;
    int64_t blocks_left = 0;  // that it may still take: it evicts nothing of its own
    // (entry, block): what memory had of the prefix, and what has come.
    std::vector<std::pair<int, BlockHold>> held{};
    std::vector<int8_t> tier_of_entry{};     // [entries] index; -1 = memory
    RecordFault fault = RecordFault::kNone;  // the first that was one
    int fault_tier = 0;
    int stalled_tier = -1;  // that has some of it, and is left alone
  };
  // Blocks in a tier's hands.
  struct Flight {
    SequenceId sequence = 0;  // 0 = whoever wanted them is gone
    int tier = 0;
    struct Piece {
      StoredBlock block{};
      size_t item = 0;
      std::optional<BlockHold> hold{};  // until it has come
    };
    std::vector<Piece> pieces{};
    int num_open = 0;
    bool has_brought = false;  // one block at least
  };
  using Key = std::pair<Digest, int>;

  Load* Find(SequenceId sequence);
  const Load* Find(SequenceId sequence) const;
  void TakeFound(const TierEvent& event, const LoadMoment& moment);
  void TakeLoaded(const TierEvent& event);
  bool HasAnswers(const Load& load) const;
  void Decide(Load& load, const LoadMoment& moment);
  void HoldMemory(Load& load, const LoadablePrefix& prefix);
  void MakeItems(Load& load, const LoadablePrefix& prefix);
  StoredBlock BlockOf(const Load& load, int entry, int group) const;
  LoadDecision Weigh(const Load& load, const LoadablePrefix& prefix,
                     const LoadMoment& moment) const;
  void Issue(Load& load, const LoadMoment& moment);
  int64_t SpareBlocks(const LoadMoment& moment) const;
  size_t BatchBlocks(int tier) const;
  void CountWait(Load& load, double now_ms);
  void Settle(Load& load);
  static void ReleaseHeld(Load& load);
  void GiveUp(Load& load, int tier);

  TierSet& tiers_;
  KvCache& cache_;
  TierLoadOptions options_;
  std::map<SequenceId, Load> loads_;
  std::map<TierTicket, SequenceId> asking_;
  std::map<TierTicket, Flight> flights_;
  std::set<Key> under_way_;  // keys of all flights' open pieces
  double now_ms_ = 0;        // of the last pump
  double last_held_ms_ = 0;  // how long a sequence was last held back at a time: a step
  // Of tiers that let a sequence wait in vain: not asked until then, twice as long each time.
  struct Stall {
    double since_ms = 0;
    double until_ms = 0;
    double rest_ms = 0;
  };
  std::vector<Stall> stalls_;  // [tiers]
  double last_load_ms_ = 0;    // when a block was last asked for
  TierLoadCounters counters_;
};

}  // namespace quire
