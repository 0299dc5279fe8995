#include "cli/bench/phase_cost.h"

#include <algorithm>
#include <array>

namespace quire {
namespace {

void AddMatrix(StepCost& cost, const PackedMatrix& matrix, int num_rows) {
  if (matrix.data == nullptr || num_rows == 0) return;
  const double ops = 2.0 * matrix.num_rows * matrix.num_cols * num_rows;
  (InfoOf(matrix.dtype).block_elements > 1 ? cost.int8_ops : cost.f32_ops) += ops;
  cost.weight_bytes += static_cast<double>(matrix.bytes());
}

// Keys that queries at first_position.. read, summed over them.
double KeysRead(int first_position, int num_tokens, int window) {
  if (window == 0) {
    return static_cast<double>(num_tokens) *
           (first_position + 1 + (static_cast<double>(num_tokens) - 1) / 2);
  }
  double sum = 0;
  for (int i = 0; i < num_tokens; ++i) sum += std::min(window, first_position + i + 1);
  return sum;
}

}  // namespace

StepCost& StepCost::operator+=(const StepCost& other) {
  int8_ops += other.int8_ops;
  f32_ops += other.f32_ops;
  weight_bytes += other.weight_bytes;
  kv_bytes += other.kv_bytes;
  return *this;
}

StepCost CostOfStep(const ModelConfig& config, const Weights& weights, KvType kv_type,
                    int first_position, int num_tokens, int num_logits_rows) {
  StepCost cost;
  for (int i = 0; i < config.num_layers(); ++i) {
    const LayerConfig& layer = config.layers[i];
    const LayerWeights& matrices = weights.layers[i];
    for (const PackedMatrix* matrix :
         std::array{&matrices.query, &matrices.key, &matrices.value, &matrices.attention_output,
                    &matrices.ffn_gate, &matrices.ffn_up, &matrices.ffn_down}) {
      AddMatrix(cost, *matrix, num_tokens);
    }
    const double head_dims = layer.key_dim + layer.value_dim;
    cost.f32_ops +=
        2 * layer.num_heads * head_dims * KeysRead(first_position, num_tokens, layer.window);
    const size_t elements =
        static_cast<size_t>(layer.num_kv_heads) * (layer.key_dim + layer.value_dim);
    const int end = first_position + num_tokens;
    const int read = layer.window == 0 ? end : std::min(end, layer.window + num_tokens - 1);
    cost.kv_bytes += static_cast<double>(KvBytes(kv_type, elements)) * (read + num_tokens);
  }
  AddMatrix(cost, weights.output, num_logits_rows);
  return cost;
}

std::span<const std::byte> WeightBytes(const Weights& weights) {
  const std::byte* begin = weights.output.data;
  const std::byte* end = begin + weights.output.bytes();
  for (const LayerWeights& layer : weights.layers) {
    for (const PackedMatrix* matrix : {&layer.query, &layer.ffn_down}) {
      begin = std::min(begin, matrix->data);
      end = std::max(end, matrix->data + matrix->bytes());
    }
  }
  return {begin, end};
}

Bound BoundOf(const StepCost& cost, const MachineLimits& limits) {
  return {.memory_ms = 1000 * cost.bytes() / limits.bytes_per_second,
          .compute_ms = 1000 * (cost.int8_ops / limits.int8_ops_per_second +
                                cost.f32_ops / limits.f32_ops_per_second)};
}

}  // namespace quire
