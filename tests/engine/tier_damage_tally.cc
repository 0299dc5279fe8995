#include "engine/tier_damage_tally.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>

namespace quire::testing {
namespace {

std::string MissesOf(const DamageTally& tally) {
  std::string text;
  for (size_t i = 0; i < tally.misses.size(); ++i) {
    if (tally.misses[i] == 0) continue;
    fmt::format_to(std::back_inserter(text), " {} {}", NameOf(static_cast<MissReason>(i)),
                   tally.misses[i]);
  }
  return text;
}

std::string LineOf(std::string_view name, const DamageTally& tally) {
  return fmt::format("{:<33} {:>6} {:>7} {:>8} {:>8.1f} |{} |{}\n", name, tally.num_cases,
                     tally.num_refused, tally.tokens_loaded, tally.longest_wait_ms, FaultsOf(tally),
                     MissesOf(tally));
}

}  // namespace

std::string FaultsOf(const DamageTally& tally) {
  std::string text;
  for (size_t i = 0; i < tally.faults.size(); ++i) {
    if (tally.faults[i] == 0) continue;
    fmt::format_to(std::back_inserter(text), " {} {}", NameOf(static_cast<RecordFault>(i)),
                   tally.faults[i]);
  }
  return text;
}

void DamageTally::Add(std::span<const TierStatus> statuses) {
  for (const TierStatus& status : statuses) {
    for (size_t i = 0; i < faults.size(); ++i) faults[i] += status.counters.faults[i];
  }
}

void DamageTally::Add(const RequestResult& result) {
  ++misses[static_cast<size_t>(result.miss.reason)];
  tokens_loaded += result.cached_by_tier.disk + result.cached_by_tier.remote;
  longest_wait_ms = std::max(longest_wait_ms, result.tier_wait_ms);
}

int64_t DamageTally::num_faults() const {
  return std::accumulate(faults.begin() + static_cast<int>(RecordFault::kTruncated), faults.end(),
                         int64_t{0});
}

std::string TableOf(const std::map<std::string_view, DamageTally>& tallies) {
  std::string table = fmt::format("{:<33} {:>6} {:>7} {:>8} {:>8} | faults | misses\n", "kind",
                                  "cases", "refused", "loaded", "wait ms");
  DamageTally all;
  for (const auto& [name, tally] : tallies) {
    table += LineOf(name, tally);
    all.num_cases += tally.num_cases;
    all.num_refused += tally.num_refused;
    all.tokens_loaded += tally.tokens_loaded;
    all.longest_wait_ms = std::max(all.longest_wait_ms, tally.longest_wait_ms);
    for (size_t i = 0; i < all.faults.size(); ++i) all.faults[i] += tally.faults[i];
    for (size_t i = 0; i < all.misses.size(); ++i) all.misses[i] += tally.misses[i];
  }
  return table + LineOf("all", all);
}

}  // namespace quire::testing
