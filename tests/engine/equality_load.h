// Random loads: what many clients might ask of an engine that is short of memory, and what each of
// their requests gets alone on a cold engine. A seed fixes the whole load.
//
// Some steps follow the clock (the time budget of prefill), so that two runs of a load may plan
// otherwise; the answers may not differ all the same.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace quire::testing {

struct LoadModel {
  std::string name{};
  std::filesystem::path path{};
  int vocab_size = 0;  // prompts are of ids below
};

// What a load is drawn within; all at most.
struct LoadLimits {
  int num_requests = 14;
  int context_length = 176;
  int max_tokens = 28;          // of an answer
  int max_batched_tokens = 64;  // of a step
  std::vector<int> threads{1, 1, 1, 1, 1, 2, 2, 5};
  bool with_reference_kernels = true;
  bool with_every_kv_type = true;  // f16 otherwise
  bool has_fresh_engines = true;   // for each request alone; otherwise one whose cache is dropped
};

struct LoadRequest {
  Request request{};
  int arrival_step = 0;
  int abort_after = -1;  // steps after it came; -1 = never
  int follows = -1;      // its prompt begins with that request's prompt and first answer
};

struct Load {
  uint64_t seed = 0;
  LoadModel model{};
  EngineOptions options{};
  EngineOptions solo_options{};  // other chunks, threads and kernels, and room for everybody
  bool has_fresh_engines = true;
  std::vector<LoadRequest> requests{};
};

Load MakeLoad(uint64_t seed, const LoadModel& model, const LoadLimits& limits);

// "tiny-gemma3, f16, avx2, 5 threads, 7 tokens a step, ...": the options of a load.
std::string Describe(const Load& load);

}  // namespace quire::testing
