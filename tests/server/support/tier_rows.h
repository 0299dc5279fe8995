// What an engine with a disk and a remote tier says of itself, made by hand: every number another.
#pragma once

#include "engine/engine_thread.h"

namespace quire::testing {

inline TierStatus DiskStatus() {
  TierStatus tier{.kind = TierKind::kDisk,
                  .place = "/var/kv",
                  .num_records = 70,
                  .bytes = 5'000,
                  .max_bytes = 9'000,
                  .speed = {.latency_ms = 2, .bytes_per_ms = 500},
                  .blocks_dropped = 11};
  tier.counters = {.names_asked = 21,
                   .names_found = 22,
                   .blocks_loaded = 23,
                   .bytes_loaded = 24'000,
                   .load_ms = 2'500,
                   .blocks_stored = 26,
                   .bytes_stored = 27'000,
                   .store_ms = 2'800,
                   .stores_refused = 29,
                   .evictions = 30,
                   .times_down = 0};
  tier.counters.faults[static_cast<size_t>(RecordFault::kChecksum)] = 3;
  return tier;
}

inline TierStatus RemoteStatus() {
  TierStatus tier{.kind = TierKind::kRemote,
                  .place = "redis://kv@cache:6379/0",
                  .state = {.is_up = false, .reason = "connection refused", .down_for_ms = 4'200}};
  tier.counters = {.blocks_loaded = 40,
                   .bytes_loaded = 41'000,
                   .load_ms = 4'250,
                   .bytes_stored = 43'000,
                   .store_ms = 4'400,
                   .times_down = 2};
  tier.counters.faults[static_cast<size_t>(RecordFault::kTimeout)] = 5;
  return tier;
}

inline EngineStatus StatusWithTiers() {
  EngineStatus engine;
  engine.kv = {.total_blocks = 64, .free_blocks = 64, .block_bytes = 1024};
  engine.tiers = {DiskStatus(), RemoteStatus()};
  engine.prefill = {.token_ms = 4, .depth_ms = 0.0005};
  engine.counters.tier_queries = 900;
  engine.counters.tier_hits = {500, 300};
  engine.counters.load_choices = {6, 7, 8};
  engine.counters.tier_wait_ms = 1'500;
  engine.counters.max_tier_wait_ms = 250;
  engine.counters.preempted_blocks_spilled = 12;
  engine.counters.misses[static_cast<size_t>(MissReason::kCheaperToCompute)] = 13;
  engine.counters.misses[static_cast<size_t>(MissReason::kTierDown)] = 14;
  return engine;
}

}  // namespace quire::testing
