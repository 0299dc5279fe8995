// Where the operations of a model sit under this machine's roofs.
//
// After Williams, Waterman, Patterson: "Roofline: an insightful visual performance model for
// multicore architectures" (CACM 2009). A point is a kind of operation in one phase, measured: its
// operations a byte say which roof is over it, its operations a second how near it comes. Bytes and
// operations are those of arithmetic (plan/step_cost.h), time that of the clock.
// Plain data; pure functions, any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/machine_ceilings.h"
#include "plan/operator_run.h"
#include "plan/step_cost.h"

namespace quire {

struct RooflinePoint {
  std::string_view phase{};      // "prefill", "decode"
  std::string_view operators{};  // of DecoderOperator, or "all"
  int depth = 0;                 // tokens in the cache before
  int num_tokens = 0;            // computed, over all steps
  int num_steps = 0;
  StepCost cost{};  // of all steps
  double ms = 0;    // likewise

  double ops_per_second() const { return ms > 0 ? cost.ops() / ms * 1000 : 0; }
  double bytes_per_second() const { return ms > 0 ? cost.bytes() / ms * 1000 : 0; }
  // Of the time that the roof allows; 0 where nothing is counted. More than 1 where the bytes came
  // from a cache that is faster than what the weights are read from.
  double fraction(const MachineLimits& limits) const;
};

struct Roofline {
  std::string model{};
  std::string kv_type{};
  MachineCeilings ceilings{};
  std::vector<RooflinePoint> points{};  // by phase and depth; "all" before its operators

  // Operations a byte from which on arithmetic decides, by kind.
  double int8_ridge() const;
  double f32_ridge() const;
};

// Where a level of memory read slower than a larger one, or than weights that it cannot hold, which
// no machine does that has nothing else to do: a sentence that says so. Empty where none did.
std::string DisturbanceOf(const MachineCeilings& ceilings);

// The points of the measured steps, an operator each and one for all of them.
std::vector<RooflinePoint> PointsOf(const std::vector<OperatorSample>& samples);

// Operations a second under the roof at so many operations a byte, for a mix of int8 and f32 like
// that of `cost`.
double RoofOver(const StepCost& cost, const MachineLimits& limits);

// A log-log plot of the roofs and of the points at `depth`, for a terminal; several lines.
std::string RooflinePlot(const Roofline& roofline, int depth);

}  // namespace quire
