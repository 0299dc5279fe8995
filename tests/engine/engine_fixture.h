// Runners and engines over one of the committed tiny models, with everything that varies made
// explicit.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/generation.h"

namespace quire::testing {

inline std::string TinyModel(const std::string& name) {
  return std::string(QUIRE_TESTS_DIR) + "/golden/models/" + name + ".gguf";
}

inline const std::vector<std::string>& TinyModels() {
  static const std::vector<std::string> names = {
      "tiny-classic",          "tiny-gemma3",      "tiny-llama", "tiny-llama-linear-rope",
      "tiny-llama-wide-heads", "tiny-llama3-rope", "tiny-qwen2", "tiny-qwen3"};
  return names;
}

// Null, and the test has failed, when it cannot be made.
inline std::unique_ptr<ModelRunner> MakeTestRunner(const std::filesystem::path& path,
                                                   RunnerOptions options = {}) {
  if (options.num_threads == 0) options.num_threads = 1;
  Result<std::unique_ptr<ModelRunner>> runner = ModelRunner::Create(path, options);
  if (!runner.ok()) {
    ADD_FAILURE() << runner.error().message;
    return nullptr;
  }
  return std::move(runner).value();
}

inline std::unique_ptr<Engine> MakeTestEngine(const std::filesystem::path& path,
                                              EngineOptions options = {}) {
  if (options.runner.num_threads == 0) options.runner.num_threads = 1;
  Result<std::unique_ptr<Engine>> engine = Engine::Create(path, options);
  if (!engine.ok()) {
    ADD_FAILURE() << engine.error().message;
    return nullptr;
  }
  return std::move(engine).value();
}

// The logits after each token of a sequence that starts cold: [tokens][vocab_size].
inline std::vector<float> AllLogits(ModelRunner& runner, std::span<const int32_t> tokens) {
  std::vector<float> rows(tokens.size() * runner.vocab_size());
  const Status status = runner.ComputeRows(tokens, static_cast<int>(tokens.size()), rows);
  if (!status.ok()) ADD_FAILURE() << status.error().message;
  return rows;
}

// The logits after the tokens at these positions, ascending, of a cold sequence computed in one
// step: [positions][vocab_size].
inline std::vector<float> LogitsAt(ModelRunner& runner, std::span<const int32_t> tokens,
                                   std::span<const int> positions) {
  std::vector<float> rows(positions.size() * runner.vocab_size());
  BlockTables tables = runner.cache().AcquirePrivate();
  const int num_tokens = static_cast<int>(tokens.size());
  if (!runner.cache().Reserve(tables, num_tokens)) {
    ADD_FAILURE() << num_tokens << " tokens do not fit";
    return rows;
  }
  const StepItem item{.num_tokens = num_tokens, .tokens = tokens, .block_tables = tables.views()};
  const Status status = runner.Forward({&item, 1}, positions, rows);
  if (!status.ok()) ADD_FAILURE() << status.error().message;
  return rows;
}

// A request that takes the best token each time.
inline Request GreedyRequest(std::vector<int32_t> prompt, int max_tokens = -1) {
  Request request{.prompt = std::move(prompt), .max_tokens = max_tokens};
  request.sampling.temperature = 0;
  return request;
}

}  // namespace quire::testing
