// The part of `quire plan` that weighs loading a prefix against computing it: its flags, what they
// ask for, and the table as text.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "plan/break_even.h"

namespace quire {

struct BreakEvenFlags {
  std::vector<double> prefill_speeds{};   // tokens a second; none = a few usual ones
  std::vector<std::string> bandwidths{};  // bytes a second; none = a few usual ones
  double latency_ms = 1;                  // of those
  std::string directory{};                // to be measured; empty = none
};

struct BreakEvenReport {
  BreakEven table{};
  // What the last of the tiers was measured in; empty where none was.
  std::string measured{};
};

// kInvalidArgument for speeds out of range; the errors of MeasureDiskSpeed.
Result<BreakEvenReport> FindBreakEven(const BreakEvenFlags& flags, const KvCost& cost,
                                      int context_tokens);

std::string BreakEvenAsText(const BreakEvenReport& report);

}  // namespace quire
