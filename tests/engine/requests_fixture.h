// Requests beside others, on a model that says what its script says and on a tiny random one.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/engine_fixture.h"
#include "engine/request_runs.h"
#include "support/rigs.h"
#include "support/scratch_directory.h"

namespace quire::testing {

inline constexpr const char* kRequestsModel = "tiny-llama";

class RequestsFixture : public ::testing::Test {
 protected:
  // Says a, b, c, d, a, ... or <end> where the script says so.
  std::unique_ptr<Engine> Alphabet(const std::vector<int>& next, EngineOptions options = {}) {
    std::vector<std::vector<float>> logits(6, std::vector<float>(6, 0.0f));
    for (size_t i = 0; i < next.size(); ++i) logits[i][static_cast<size_t>(next[i])] = 20;
    WriteMarkovModel(Path(), {{"<end>", true}, {"a"}, {"b"}, {"c"}, {"d"}, {"e"}}, logits);
    return MakeTestEngine(Path(), options);
  }

  static std::unique_ptr<Engine> Tiny(int num_blocks = 0, int chunk = 512, int max_sequences = 64,
                                      int max_queue = 0) {
    RunnerOptions runner{.num_threads = 1, .context_length = 128, .num_sequences = 16};
    const std::filesystem::path path = TinyModel(kRequestsModel);
    if (num_blocks > 0) runner.kv_bytes = PoolBytes(path, num_blocks);
    return MakeTestEngine(
        path, {.runner = runner,
               .scheduler = {.max_sequences = max_sequences, .max_batched_tokens = chunk},
               .max_queue = max_queue});
  }

  // Of a sampled answer with log-probabilities.
  static Request Sampled(std::vector<int32_t> prompt, int max_tokens, uint64_t seed = 1) {
    Request request{.prompt = std::move(prompt), .max_tokens = max_tokens};
    request.sampling.seed = seed;
    request.sampling.logprobs = 2;
    request.ignore_end_of_text = true;
    return request;
  }

  static std::vector<int32_t> Ascending(int count, int first = 0) {
    std::vector<int32_t> tokens(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) tokens[static_cast<size_t>(i)] = (first + 7 * i) % 296;
    return tokens;
  }

  std::filesystem::path Path() const { return directory_.path() / "rig.gguf"; }

  ScratchDirectory directory_;
};

}  // namespace quire::testing
