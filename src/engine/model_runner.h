// A model, its kernels and threads, its KV cache, and the forward pass over a step's rows.
// Used by one thread at a time.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "engine/batch.h"
#include "engine/loaded_model.h"
#include "engine/memory_fit.h"
#include "kernels/kernel_set.h"
#include "kv/kv_cache.h"
#include "models/decoder.h"

namespace quire {

struct RunnerOptions {
  std::string kernels{};   // "" = the fastest that this processor runs
  int num_threads = 0;     // 0 = every processor that this process may use
  int context_length = 0;  // tokens; 0 = what the model was made for and the KV cache holds
  KvType kv_type = KvType::kF16;
  uint64_t kv_bytes = 0;         // memory for keys and values; 0 = engine/memory_fit.h decides
  uint64_t budget_bytes = 0;     // MemoryRequest::budget_bytes
  int num_sequences = 1;         // that are expected to run at once
  int max_batched_tokens = 512;  // tokens of a step: what activations are sized for
  int logits_rows = 0;           // MemoryRequest::logits_rows
  LoadOptions load{};
};

class ModelRunner {
 public:
  static Result<std::unique_ptr<ModelRunner>> Create(const std::filesystem::path& path,
                                                     const RunnerOptions& options);

  const LoadedModel& model() const { return *model_; }
  const KernelSet& kernels() const { return *kernels_; }
  ThreadPool& threads() { return pool_; }
  KvCache& cache() { return *cache_; }
  const KvCache& cache() const { return *cache_; }
  const Decoder& decoder() const { return *decoder_; }
  int context_length() const { return context_length_; }
  int vocab_size() const { return model_->config().vocab_size; }
  int hidden_width() const { return model_->config().d_model; }
  // Names the model as computed; kv/identity.h
  const Digest& fingerprint() const { return fingerprint_; }
  // What it is made of.
  const FingerprintInput& ingredients() const { return ingredients_; }
  std::chrono::nanoseconds load_duration() const { return load_duration_; }

  // Computes the items' tokens. `wanted_rows`, ascending, are indexes into the rows of all items in
  // order; their logits come into logits [wanted_rows][vocab_size], and the final hidden states of
  // `hidden_rows` into hidden [hidden_rows][hidden_width]. What each kind of operation
  // took is added to `times`, where given.
  Status Forward(std::span<const StepItem> items, std::span<const int> wanted_rows,
                 std::span<float> logits, std::span<const int> hidden_rows = {},
                 std::span<float> hidden = {}, OperatorTimes* times = nullptr);

  // Computes all tokens of one cold sequence, which leaves nothing behind, and the logits after
  // each of the last `num_rows` of them: rows [num_rows][vocab_size].
  Status ComputeRows(std::span<const int32_t> tokens, int num_rows, std::span<float> rows);

 private:
  ModelRunner(int num_threads) : pool_(num_threads) {}
  Status CreateCache(MemoryFit fit);

  ThreadPool pool_;
  const KernelSet* kernels_ = nullptr;
  std::unique_ptr<LoadedModel> model_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<Decoder> decoder_;
  FingerprintInput ingredients_{};
  Digest fingerprint_{};
  int context_length_ = 0;
  int max_batched_tokens_ = 0;
  std::chrono::nanoseconds load_duration_{0};
  std::vector<int32_t> tokens_;  // of the step
  std::vector<KvSequence> sequences_;
};

}  // namespace quire
