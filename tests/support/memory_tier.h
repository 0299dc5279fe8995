// A tier without a medium: records in memory, which several engines may share, and faults by
// script.
//
// The store is the medium (what a Redis server or a directory would be) and outlives its tiers;
// each engine opens a tier of its own on it. Records are made and proven by the engines' codecs.
// Thread-safe; faults may be changed at any time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "kv/tiers/record_codec.h"
#include "kv/tiers/tier.h"

namespace quire::testing {

// What goes wrong, from the moment it is set.
struct MemoryTierFaults {
  int nth = 0;                             // every n-th block loaded is hit; 0 = none
  RecordFault fault = RecordFault::kNone;  // what it comes back with; kNone: see flips
  bool flips = false;                      // a bit of the stored record changes instead, for good
  bool find_fails = false;                 // Find returns an error
  bool is_down = false;                    // all verbs say so
  StoreOutcome store = StoreOutcome::kStored;  // anything else: what every Store says
  double find_ms = 0;                          // each Find is late by so much
  double load_ms = 0;                          // each block
  double store_ms = 0;
  bool finds_hang = false;  // until they no longer do, or the deadline
  bool loads_hang = false;
  bool stores_hang = false;
  bool hang_passes_deadline = false;  // only an end of the faults ends it
};

class MemoryStore {
 public:
  void SetFaults(const MemoryTierFaults& faults);
  MemoryTierFaults faults() const;

  size_t num_records() const;
  // Of the blocks that were stored, in order.
  std::vector<BlockKey> stored() const;
  // Of the blocks that were touched.
  std::vector<BlockKey> touched() const;
  // The priority, as nice(1) says it, of the thread that stored last; -1 = none has.
  int writer_niceness() const;
  // Calls of Find and of Load that have reached a tier, ended or not.
  int64_t num_finds() const;
  int64_t num_loads() const;
  // Waits until so many verbs hang at this moment.
  void WaitForHanging(int num_verbs);
  // Changes one bit of every record, at a place that depends on the seed.
  void FlipBits(uint64_t seed);
  // Forgets what is stored.
  void Clear();

 private:
  friend class MemoryTier;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  MemoryTierFaults faults_{};
  std::map<RecordName, std::vector<std::byte>> records_;
  std::map<Digest, FingerprintInput> models_;  // by fingerprint, of what was ever stored
  std::vector<BlockKey> stored_;
  std::vector<BlockKey> touched_;
  int writer_niceness_ = -1;
  int64_t num_finds_ = 0;
  int64_t num_loads_ = 0;
  int64_t num_blocks_tried_ = 0;
  int num_hanging_ = 0;
};

struct MemoryTierOptions {
  TierKind kind = TierKind::kDisk;
  bool knows_all = true;  // false: like a server, MayHold knows what this tier stored or found
  bool read_only = false;
  size_t max_records = 0;  // 0 = no cap; a full store refuses
  TierSpeed speed{};       // what Measure tells; nothing where it is not known
};

std::unique_ptr<Tier> OpenMemoryTier(std::shared_ptr<const RecordCodec> codec,
                                     std::shared_ptr<MemoryStore> store,
                                     const MemoryTierOptions& options = {});

}  // namespace quire::testing
