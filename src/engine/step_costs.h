// What steps cost on this machine, from those that ran: the scheduler's measure of time, and what
// loads from tiers are weighed against.
//
// Every figure is the median of the last kSamples steps that told it: one slow step (a page fault,
// a busy neighbour) moves nothing, a lasting change is followed within half as many. Decode steps
// are kept apart by the number of sequences, in classes that double, because the weights are read
// once for all of them and a step of 16 is far from 16 steps of one.
//
//   decodes only       tells the step's cost for so many
//   prefill only       tells the cost of a token, at once; of a few tokens it is mostly the reading
//                      of weights, and tells what so many decodes would cost
//   decodes + prefill  cannot tell the two apart: it tells of a token what the decodes leave, and
//                      where no step of decodes alone was seen, of those what the tokens leave
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "engine/prefill_depth.h"
#include "engine/scheduler.h"

namespace quire {

// Thread-compatible.
class StepCosts {
 public:
  static constexpr int kSamples = 9;

  // A step of so many decodes and prefill tokens took this long. Durations that are not positive
  // and finite are passed over. mean_position: of the prefill tokens; negative = not known, then it
  // tells nothing of what depth costs.
  void Observe(int num_decodes, int num_prefill_tokens, double duration_ms,
               double mean_position = -1);

  // For a step with so many decodes. Of a number that was not seen, the nearest class is scaled by
  // the root of the ratio: between weights read once and work that grows with the rows.
  StepCostEstimate Estimate(int num_decodes) const;

  // Of a prompt that has the machine to itself, by depth (engine/prefill_depth.h).
  PrefillCost prefill() const { return depth_.cost(); }

 private:
  // The last kSamples values.
  class Window {
   public:
    void Add(double value);
    double Median() const;  // 0 without values
    bool empty() const { return values_.empty(); }

   private:
    std::vector<double> values_;
    int next_ = 0;
  };

  static constexpr int kClasses = 20;  // of 1, 2, 3..4, 5..8, ... decodes
  // By class, ms over the root of the number of decodes.
  using DecodeSteps = std::array<Window, kClasses>;
  static int ClassOf(int num_decodes);
  static void Add(DecodeSteps& steps, int num_decodes, double duration_ms);
  // Of the nearest class that was seen; 0 where none was.
  static double Find(const DecodeSteps& steps, int num_decodes);
  void ObserveMixed(int num_decodes, int num_prefill_tokens, double duration_ms);
  // What is left of a step for its prefill tokens, where that can be told well; 0 elsewhere.
  double PrefillShareMs(int num_decodes, double duration_ms) const;

  DecodeSteps alone_;   // of decodes alone
  DecodeSteps beside_;  // made out from other steps; looked at while there are none of the former
  // ms a token. Few tokens beside decodes come cheap, for the weights are read anyway, until depth
  // makes them dear: the larger of the two is what holds for any number.
  Window tokens_alone_;
  Window tokens_beside_;
  double TokenMs() const { return std::max(tokens_alone_.Median(), tokens_beside_.Median()); }
  PrefillDepth depth_;
};

}  // namespace quire
