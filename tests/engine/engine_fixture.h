// An engine over one of the committed tiny models, with everything that varies made explicit.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include <memory>
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

// Ends the test program's current test when the engine cannot be made.
inline std::unique_ptr<Engine> MakeTestEngine(const std::filesystem::path& path,
                                              EngineOptions options = {}) {
  if (options.num_threads == 0) options.num_threads = 1;
  Result<std::unique_ptr<Engine>> engine = Engine::Create(path, options);
  if (!engine.ok()) {
    ADD_FAILURE() << engine.error().message;
    return nullptr;
  }
  return std::move(engine).value();
}

// The logits after each token of a sequence that starts cold: [tokens][vocab_size].
inline std::vector<float> AllLogits(Engine& engine, std::span<const int32_t> tokens) {
  Sequence sequence = engine.NewSequence();
  sequence.SetTokens(tokens);
  const int count = static_cast<int>(tokens.size());
  std::vector<float> rows(static_cast<size_t>(count) * engine.vocab_size());
  const Status status = engine.ComputeRows(sequence, count, count, rows);
  if (!status.ok()) ADD_FAILURE() << status.error().message;
  return rows;
}

}  // namespace quire::testing
