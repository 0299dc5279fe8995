// The engine: a model, its kernels and threads, its KV cache, and the step that advances a
// sequence.
//
// One rule makes every step: a sequence's num_computed chases the tokens it has, at most
// `prefill_chunk` tokens a step. Fed with a prompt that is prefill, fed with a sampled token it is
// decode; the arithmetic is the same (docs/numerics.md), so chunks never change a bit.
// Used by one thread at a time.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/thread_pool.h"
#include "engine/loaded_model.h"
#include "engine/sequence.h"
#include "kernels/kernel_set.h"
#include "models/decoder.h"

namespace quire {

struct EngineOptions {
  std::string kernels{};    // "" = the fastest that this processor runs
  int num_threads = 0;      // 0 = every processor that this process may use
  int context_length = 0;   // tokens; 0 = what the model was made for
  int prefill_chunk = 256;  // tokens a step; at least 1
  KvType kv_type = KvType::kF16;
  LoadOptions load{};
};

// What one step did: plain data for statistics and `quire explain steps`.
struct StepRecord {
  int first_position = 0;  // of the tokens fed
  int num_tokens = 0;
  bool gave_logits = false;  // of the last token fed
  std::chrono::nanoseconds duration{0};
};

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> Create(const std::filesystem::path& path,
                                                const EngineOptions& options);

  const LoadedModel& model() const { return *model_; }
  const KernelSet& kernels() const { return *kernels_; }
  ThreadPool& threads() { return pool_; }
  const BlockPool& blocks() const { return *blocks_; }
  int context_length() const { return context_length_; }
  // How long Create took.
  std::chrono::nanoseconds load_duration() const { return load_duration_; }
  int vocab_size() const { return model_->config().vocab_size; }

  Sequence NewSequence() { return Sequence(*blocks_); }

  // Computes the next tokens of a sequence that has some to compute. When the step reaches its last
  // token, the logits that follow it are in logits() until the next step.
  Result<StepRecord> Step(Sequence& sequence);
  std::span<const float> logits() const { return logits_; }

  // Computes tokens first..last - 1 of a sequence (first is num_computed) and the logits after each
  // of the last `num_rows` of them: rows [num_rows][vocab_size].
  Status ComputeRows(Sequence& sequence, int num_tokens, int num_rows, std::span<float> rows);

 private:
  Engine(int num_threads) : pool_(num_threads) {}

  ThreadPool pool_;
  const KernelSet* kernels_ = nullptr;
  std::unique_ptr<LoadedModel> model_;
  std::unique_ptr<BlockPool> blocks_;
  std::unique_ptr<Decoder> decoder_;
  int context_length_ = 0;
  int prefill_chunk_ = 0;
  std::chrono::nanoseconds load_duration_{0};
  std::vector<float> logits_;  // [vocab_size]
};

}  // namespace quire
