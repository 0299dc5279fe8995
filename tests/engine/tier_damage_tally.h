// What came of damaged stores, by kind of damage: for the table at the end.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "engine/request.h"
#include "kv/tiers/tier.h"

namespace quire::testing {

struct DamageTally {
  int64_t num_cases = 0;
  int64_t num_refused = 0;  // stores that an engine did not open
  std::array<int64_t, kNumRecordFaults> faults{};
  std::array<int64_t, kNumMissReasons> misses{};
  int64_t tokens_loaded = 0;
  double longest_wait_ms = 0;

  void Add(std::span<const TierStatus> statuses);
  void Add(const RequestResult& result);
  int64_t num_faults() const;
};

// "truncated 2 checksum 1"
std::string FaultsOf(const DamageTally& tally);
// A line a kind, and one of all.
std::string TableOf(const std::map<std::string_view, DamageTally>& tallies);

}  // namespace quire::testing
