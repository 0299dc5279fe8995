// How well a model predicts a text, and how far its predictions are from saved ones.
//
// The text is cut into windows of equal length that do not overlap; each starts cold, and the
// tokens of its second half are scored. So are llama.cpp's figures made, and they compare.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "engine/model_runner.h"

namespace quire {

struct PerplexityOptions {
  int window = 512;                                     // tokens; at least 4, at most the context
  int max_windows = 0;                                  // 0 = all whole windows of the text
  std::optional<std::filesystem::path> save_logits;     // docs/logits-format.md
  std::optional<std::filesystem::path> compare_logits;  // of the same tokens, saved before
};

struct PerplexityResult {
  int num_windows = 0;
  int64_t num_scored = 0;     // tokens
  double mean_loss = 0;       // negative log-likelihood in nats
  double perplexity = 0;      // e^mean_loss
  double standard_error = 0;  // of mean_loss
  // Against the saved logits, where asked for: KL(saved || this) per token, in nats.
  double mean_divergence = 0;
  double divergence_error = 0;  // standard error of it
  double largest_divergence = 0;
  double same_best_token = 0;  // share of tokens whose best prediction is the same
};

// `progress` is called after each window with (done, all); it returns false to stop
// (kInterrupted).
Result<PerplexityResult> MeasurePerplexity(ModelRunner& runner, std::span<const int32_t> tokens,
                                           const PerplexityOptions& options,
                                           const std::function<bool(int, int)>& progress);

}  // namespace quire
