// A KV cache in memory over one tier, without a model: blocks as names, steps as durations.
//
// Memory goes the way of kv/block_pool.h: what a prompt has used is given back with its beginning
// last, the next block to be taken is the one given back first. A block that has come into memory
// is fresh until it is offered to the tier, once: when it is used a second time, when it gives way,
// or when nothing is computed for a while (kv/kv_cache.h, SetOffer); of a block that the tier
// holds, that counts as a use. Calls the tier from one thread, in an order that the trace alone
// decides.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

#include "kv/tiers/fast_motion/trace.h"
#include "kv/tiers/tier.h"

namespace quire::testing {

struct TieredCacheOptions {
  int num_memory_blocks = 0;  // at least the longest prompt's
  double block_s = .05;       // to compute a block
  double idle_s = 1;          // without computing, before what only memory holds is written
  double idle_stores_per_s = 500;
};

struct TieredCacheCounters {
  int64_t memory_hits = 0;
  int64_t tier_hits = 0;
  int64_t computed = 0;
  int64_t memory_evictions = 0;
  int64_t stored_evicted = 0;  // blocks written, by why
  int64_t stored_second_use = 0;
  int64_t stored_idle = 0;
  int64_t refused = 0;       // stores
  int64_t failed_loads = 0;  // of blocks that the tier said it holds
  int64_t wrong_payloads = 0;
  int64_t max_stores = 0;  // of one block

  int64_t hits() const { return memory_hits + tier_hits; }
  int64_t stored() const { return stored_evicted + stored_second_use + stored_idle; }

  friend bool operator==(const TieredCacheCounters&, const TieredCacheCounters&) = default;
};

class TieredCache {
 public:
  // model: of one group. trace and tier outlive this; *now_s is the clock, which it moves.
  TieredCache(const Trace& trace, const StoredModel& model, Tier& tier, double* now_s,
              const TieredCacheOptions& options);

  void RunAll();
  const TieredCacheCounters& counters() const { return counters_; }

 private:
  struct Place {
    std::list<int>::iterator it{};  // in order_, while nobody holds it
    bool is_held = false;
    bool is_fresh = true;  // it has not been offered since it came into memory
  };

  void Run(const TracePrompt& prompt);
  void WriteWhileIdle(double until_s);
  // How many of the blocks the tier gave, up to the first that it did not.
  size_t Load(std::span<const int> blocks);
  void Hold(int block);
  void GiveWay();
  void OfferFresh(int block, int64_t* stored);
  void FillPayload(int block, std::span<std::byte> payload) const;

  const Trace& trace_;
  Tier& tier_;
  double* now_s_;
  TieredCacheOptions options_;
  size_t payload_bytes_;
  std::vector<StoredBlock> names_;   // [blocks of the trace]
  std::vector<uint8_t> num_stores_;  // [blocks of the trace]
  std::list<int> order_;             // in memory and not held; the next to go first
  std::unordered_map<int, Place> in_memory_;
  std::vector<std::byte> payload_;
  TieredCacheCounters counters_;
};

}  // namespace quire::testing
