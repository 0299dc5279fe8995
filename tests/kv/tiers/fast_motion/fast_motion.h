// Memory and disk together beside a plain LRU of as many blocks, over one trace.
#pragma once

#include <cstdint>
#include <string>

#include "kv/tiers/fast_motion/tiered_cache.h"
#include "kv/tiers/fast_motion/trace.h"

namespace quire::testing {

struct FastMotionResult {
  int64_t num_memory_blocks = 0;
  int64_t num_disk_blocks = 0;  // that the disk held at most
  double hit_rate = 0;          // of memory and disk, of the trace's block uses
  double lru_hit_rate = 0;      // of the better LRU of as many blocks as both
  TieredCacheCounters counters{};
  int64_t disk_evictions = 0;
  uint64_t record_bytes_written = 0;
  uint64_t max_disk_bytes = 0;  // seen after any prompt's hour
  uint64_t disk_cap_bytes = 0;

  double stored_per_computed() const {
    return static_cast<double>(counters.stored()) / static_cast<double>(counters.computed);
  }
  std::string Describe() const;
};

// num_blocks: of memory and disk together; memory has a tenth, and the longest prompt at least.
FastMotionResult MeasureFastMotion(const Trace& trace, int64_t num_blocks);

}  // namespace quire::testing
