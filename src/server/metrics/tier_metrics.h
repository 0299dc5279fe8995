// What the tiers have brought, taken and refused, as exposition text. An engine without tiers has
// none of it. docs/metrics.md lists the names.
//
// Tiers of one kind are told as one: sums, and up where all are. A counter never falls, though two
// scrapes may see the engine in the other order. Thread-compatible.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "engine/engine_thread.h"

namespace quire {

class TierMetrics {
 public:
  // Labels of every series.
  explicit TierMetrics(std::map<std::string, std::string> labels);

  // cached_tokens: of ended requests, from memory, disk and remote.
  void Append(const EngineStatus& engine, const std::array<int64_t, 3>& cached_tokens,
              std::string& text);

 private:
  class Page;

  const std::map<std::string, std::string> labels_;
  std::map<std::string, double> counters_;  // by name and labels: the last value told
};

}  // namespace quire
