// What steps cost on this machine, from those that ran: the scheduler's measure of time.
//
// Every figure is the median of the last kSamples steps that told it: one slow step (a page fault,
// a busy neighbour) moves nothing, a lasting change is followed within half as many. Decode steps
// are kept apart by the number of sequences, in classes that double, because the weights are read
// once for all of them and a step of 16 is far from 16 steps of one.
//
//   decodes only       tells the step's cost for so many
//   prefill only       tells the cost of a token, at once
//   decodes + prefill  cannot tell the two apart: where one is unknown it is what the other leaves;
//                      where both are known both are scaled to fit
#pragma once

#include <array>
#include <vector>

#include "engine/scheduler.h"

namespace quire {

// Thread-compatible.
class StepCosts {
 public:
  static constexpr int kSamples = 9;

  // A step of so many decodes and prefill tokens took this long. Durations that are not positive
  // and finite are passed over.
  void Observe(int num_decodes, int num_prefill_tokens, double duration_ms);

  // For a step with so many decodes. Of a number that was not seen, the nearest class is scaled by
  // the root of the ratio: between weights read once and work that grows with the rows.
  StepCostEstimate Estimate(int num_decodes) const;

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
  static int ClassOf(int num_decodes);
  void ObserveMixed(int num_decodes, int num_prefill_tokens, double duration_ms);

  std::array<Window, kClasses> decode_steps_;  // ms over the root of the number of decodes
  Window prefill_tokens_;                      // ms a token
};

}  // namespace quire
