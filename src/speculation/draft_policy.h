// How many drafts pay: without guesswork, from what was measured.
//
// A step of D decodes and n drafts is expected to give D + (sum of the drafts' chances) tokens in
// the time that a step of D + n rows takes. The n of the most tokens a second is taken, the
// likeliest drafts of all sequences first; none unless it beats the plain step by kMargin. So
// drafts come by themselves where text repeats, and stay away where it does not, and from batches
// so large that rows are not to be had for next to nothing.
//
// Nobody pays for another's drafts beyond kMostDelay: a decode without drafts waits that many times
// its plain step at most (or the scheduler's target for a step, where one is set and is longer than
// the plain step), and one with drafts no longer than that for each token that it may expect.
// Reads no clock. Thread-compatible.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "speculation/hit_rates.h"
#include "speculation/step_times.h"

namespace quire {

enum class SpeculationType : uint8_t {
  kNone,
  kNgram,       // from the sequence's own text
  kNgramCache,  // and from what the KV cache holds of others of the same root
};

struct SpeculationOptions {
  SpeculationType type = SpeculationType::kNone;
  int max_drafts = 15;  // of a sequence in a step; 1 to kMostDrafts
  // As many as there is room for, right or wrong, whatever they cost: for tests.
  bool drafts_always = false;
};
inline constexpr int kMostDrafts = StepTimes::kMostRows - 1;

// How drafts fared. Accepted are those that were drawn.
struct DraftCounters {
  int64_t drafts = 0;                              // of a sequence in a step, of any length
  int64_t draft_tokens = 0;                        // fed
  int64_t accepted = 0;                            // of them
  std::array<int64_t, kMostDrafts> accepted_at{};  // by place in the draft
  int64_t stripped_steps = 0;  // could not be computed, and were once more without drafts
};

class DraftPolicy {
 public:
  static constexpr double kMargin = .05;
  static constexpr double kMostDelay = 1.25;

  HitRates& rates() { return rates_; }
  const HitRates& rates() const { return rates_; }

  // A step of decodes and drafts alone.
  void Observe(int num_decodes, int num_rows, double duration_ms) {
    times_.Observe(num_decodes, num_rows, duration_ms);
  }

  // chances [decodes of the step][drafts that there are]: Drafter::Chances. How many drafts each
  // decode gets: at most most_drafts together. target_step_ms: SchedulerOptions, 0 = none.
  std::vector<int> Choose(std::span<const std::vector<double>> chances, int most_drafts,
                          double target_step_ms = 0) const;

  // What such a step takes over the same without drafts, as measured; 0 = not known.
  double MeasuredRatio(int num_decodes, int num_rows) const {
    return times_.MeasuredRatio(num_decodes, num_rows);
  }

 private:
  HitRates rates_;
  StepTimes times_;
};

}  // namespace quire
