// The transformer: token ids in, logits out, keys and values into the paged cache.
//
//   x = embedding[token] (+ position embedding)
//   for each layer:
//     x = residual(x, attention)       q, k, v = W x; rope; store k, v; attend; W_o
//     x = residual(x, feed_forward)    W_down(act(W_gate x) * W_up x)
//   hidden = norm(x)                   for the rows asked for
//   logits = W_out hidden
//
// where `residual` places the norms as the configuration says (models/config.h). One forward takes
// rows of any number of sequences, prefill and decode alike: a row's numbers depend on its own
// sequence's tokens only (docs/numerics.md).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/attention.h"
#include "kernels/kernel_set.h"
#include "models/config.h"
#include "models/operator_times.h"
#include "models/weights.h"
#include "models/workspace.h"
#include "tensor/paged_kv_view.h"

namespace quire {

struct ForwardInput {
  std::span<const int32_t> tokens;        // [num_rows]
  std::span<const KvSequence> sequences;  // cover the rows in order, without gaps
  std::span<const int> logits_rows;       // rows whose logits are wanted, ascending
  std::span<const int> hidden_rows{};     // rows whose final hidden states are wanted
  OperatorTimes* times = nullptr;         // added to; null = not measured
};

// Owns scratch memory for the largest step so far; the weights, kernels and threads outlive it.
// One thread at a time may call Forward.
class Decoder {
 public:
  Decoder(const ModelConfig& config, const Weights& weights, const KernelSet& kernels,
          ThreadPool& pool);

  // Writes logits [logits_rows.size()][vocab_size] and hidden [hidden_rows.size()][d_model]. The
  // sequences' block tables reach to their last position. Fails with kNumeric, naming the layer,
  // when a value is NaN or infinite; the keys and values of the step are then not to be used.
  Status Forward(const ForwardInput& input, const PagedKvView& kv, std::span<float> logits,
                 std::span<float> hidden = {});

  // Scratch memory, and that of the attention beside it.
  std::span<const std::byte> workspace() const { return workspace_.memory(); }
  size_t attention_bytes() const { return attention_.scratch_bytes(); }

 private:
  // The norm of one place in the graph; bias is null for an RMS norm.
  struct Norm {
    const float* weight = nullptr;
    const float* bias = nullptr;
  };

  // Where a row of the step belongs.
  struct Row {
    int sequence_idx = 0;
    int position = 0;
  };

  void PlaceRows(const ForwardInput& input);
  void Embed(const ForwardInput& input);
  void PrepareRope();
  Status AttentionHalf(int layer_idx, const ForwardInput& input, const PagedKvView& kv);
  Status FeedForwardHalf(int layer_idx);
  // The final norm of row `row` of x, which leaves it as it is where the model has none.
  bool FinishRow(int row, float* out) const;
  Status OutputHidden(const ForwardInput& input, std::span<float> hidden);
  Status OutputLogits(const ForwardInput& input, std::span<float> logits);

  // What the first matrices of a half read: norm(x), or x itself, quantised as they need it.
  Status PrepareInput(const Norm& norm, std::span<const PackedMatrix* const> consumers,
                      std::string_view place);
  // Quantises rows [num_rows][cols] for the matrix, when it is a quantised one.
  Status Quantize(const float* rows, int cols, const PackedMatrix& consumer,
                  std::string_view place);
  // Adds the half's result (workspace delta) to x, normalising as the configuration says.
  Status AddToResidual(const Norm& after, const float* post_norm, std::string_view place);
  // Rotates, normalises and stores the step's queries and keys; stores its values.
  Status StoreKeysAndValues(int layer_idx, const ForwardInput& input, const PagedKvView& kv);

  struct Product {
    const PackedMatrix* weights;
    const float* bias;
    float* out;  // [num_rows, weights->num_rows]
  };
  // The rows of the step that a product reads: as floats or quantised, by the weights' type.
  struct Input {
    const float* rows;
    const QuantizedRows* quantized;
  };
  // All products of the same input in one pass of the threads.
  void Multiply(std::span<const Product> products, const Input& input);
  MatmulJob JobOf(const Product& product, const Input& input) const;
  // Row blocks [begin, end) of a product, and the bias of their outputs.
  void MultiplyBlocks(MatmulJob job, const float* bias, int begin, int end, int thread_idx);

  // The hidden rows of the feed-forward network, quantised as its last matrix needs them.
  Status ComputeHidden(const LayerWeights& weights, const Input& input);
  void Activate(int begin, int end, int ffn_dim);
  float* HiddenRows() const;

  bool ApplyNorm(const Norm& norm, const float* x, float* out) const;
  Error NotFinite(std::string_view place) const;

  const ModelConfig& config_;
  const Weights& weights_;
  const KernelSet& kernels_;
  ThreadPool& pool_;
  Attention attention_;
  Workspace workspace_;
  std::vector<std::vector<double>> rope_frequencies_;  // [ropes][rotary_dim / 2]
  std::vector<Row> rows_;                              // [num_rows_] of the step
  int num_rows_ = 0;                                   // of the step
  int layer_idx_ = 0;                                  // for messages
  OperatorClock clock_{nullptr};                       // of the step
};

}  // namespace quire
