// Prefill and decode speed at a depth and a batch size: the rows of llama-bench's and
// llama-batched-bench's tables.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "engine/engine.h"

namespace quire {

struct SpeedTest {
  int num_prompt = 0;     // tokens computed as a prompt by each sequence; 0 = decode
  int num_generated = 0;  // tokens decoded by each sequence; 0 = prefill
  int depth = 0;          // entries that each sequence has in the cache beforehand
  int num_parallel = 1;   // sequences
};

struct SpeedSample {
  double tokens_per_second = 0;  // of all sequences together
  double longest_step_ms = 0;
};

// Decode is timed between two steps in both of which all sequences decode. The cache holds only
// what the test puts there. kInvalidArgument where the engine's context or batch is too small,
// kInterrupted when `go_on` returns false.
Result<SpeedSample> MeasureSpeed(Engine& engine, const SpeedTest& test,
                                 std::span<const int32_t> vocabulary, uint64_t seed,
                                 const std::function<bool()>& go_on);

// How long a running decode waits for its next token while a long prompt is computed beside it.
struct GapSample {
  double usual_gap_ms = 0;    // median, alone
  double median_gap_ms = 0;   // while the prompt is computed
  double longest_gap_ms = 0;  // the same
  double prompt_ttft_ms = 0;
  double ratio() const { return usual_gap_ms == 0 ? 0 : longest_gap_ms / usual_gap_ms; }
};
struct GapTest {
  int num_decodes = 1;       // sequences that decode, from an empty context
  int prompt_tokens = 4000;  // of the prompt that arrives
  int warm_tokens = 32;      // decoded by each before it does
};
Result<GapSample> MeasureGap(Engine& engine, const GapTest& test,
                             std::span<const int32_t> vocabulary, uint64_t seed,
                             const std::function<bool()>& go_on);

}  // namespace quire
