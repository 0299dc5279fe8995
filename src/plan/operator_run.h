// A run of the decoder that measures its operators: prefill and decode at several depths, over one
// sequence that nothing finds and that leaves nothing behind.
//
// The steps are those of the engine (models/decoder.h over a KV cache, the engine's or another),
// without a scheduler and a sampler around them. Blocks come out of what the cache has available:
// contents that nobody holds may be evicted.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "models/decoder.h"
#include "plan/step_cost.h"

namespace quire {

class KvCache;

// What the run needs of an engine; all of it outlives the run.
struct OperatorRunInput {
  const ModelConfig& config;
  const Weights& weights;
  const KernelSet& kernels;
  ThreadPool& threads;
  KvCache& cache;
  int context_length = 0;
  std::span<const int32_t> vocabulary;  // ids that the tokens are drawn from; not empty
};

struct OperatorRunOptions {
  std::vector<int> depths{0, 512, 2048};  // tokens in the cache before what is measured
  int prefill_tokens = 512;               // of one step; 0 = no prefill
  int decode_steps = 16;                  // of one token; 0 = no decode
  int chunk_tokens = 512;                 // of a step on the way to a depth; at least 1
  uint64_t seed = 0;
  std::function<bool()> go_on{};  // asked before each step; false ends it; may be empty
};

// The steps of one phase at one depth, together.
struct OperatorSample {
  std::string_view phase{};  // "prefill", "decode"
  int depth = 0;
  int num_tokens = 0;
  int num_steps = 0;
  OperatorTimes times{};
  OperatorCosts costs{};
  double forward_ms = 0;  // of the whole passes, by another clock
};

// Prefill at each depth, then decode. Depths that the context has no room for are left out.
// kContextLength where it has room for none, kResourceExhausted where the cache has not,
// kInterrupted where go_on says so.
Result<std::vector<OperatorSample>> MeasureOperators(const OperatorRunInput& input,
                                                     const OperatorRunOptions& options);

}  // namespace quire
