#include "plan/step_cost.h"

#include <algorithm>

namespace quire {
namespace {

void AddMatrix(StepCost& cost, const PackedMatrix& matrix, int num_rows) {
  if (matrix.data == nullptr || num_rows == 0) return;
  const double ops = 2.0 * matrix.num_rows * matrix.num_cols * num_rows;
  (InfoOf(matrix.dtype).block_elements > 1 ? cost.int8_ops : cost.f32_ops) += ops;
  cost.weight_bytes += static_cast<double>(matrix.bytes());
}

// Keys that queries at first_position.. read, summed over them: the first ones all before them, the
// others a window.
double KeysRead(int first_position, int num_tokens, int window) {
  const double first = first_position;
  const double growing =
      window == 0 ? num_tokens : std::clamp(window - first_position, 0, num_tokens);
  return growing * (first + (growing + 1) / 2) + (num_tokens - growing) * window;
}

}  // namespace

StepCost& StepCost::operator+=(const StepCost& other) {
  int8_ops += other.int8_ops;
  f32_ops += other.f32_ops;
  weight_bytes += other.weight_bytes;
  kv_bytes += other.kv_bytes;
  return *this;
}

AttentionCost AttentionCostOf(const LayerConfig& layer, KvType kv_type, const SequenceRows& rows) {
  const double keys = KeysRead(rows.first_position, rows.num_tokens, layer.window);
  const int end = rows.first_position + rows.num_tokens;
  const int read = layer.window == 0 ? end : std::min(end, layer.window + rows.num_tokens - 1);
  const size_t key_elements = static_cast<size_t>(layer.num_kv_heads) * layer.key_dim;
  const size_t value_elements = static_cast<size_t>(layer.num_kv_heads) * layer.value_dim;
  const auto key_bytes = static_cast<double>(KvBytes(kv_type, key_elements));
  const auto value_bytes = static_cast<double>(KvBytes(kv_type, value_elements));
  return {.score_ops = 2.0 * layer.num_heads * layer.key_dim * keys,
          .value_ops = 2.0 * layer.num_heads * layer.value_dim * keys,
          .keys_attended = keys,
          .key_bytes_read = key_bytes * read,
          .value_bytes_read = value_bytes * read,
          .bytes_written = (key_bytes + value_bytes) * rows.num_tokens};
}

OperatorCosts CostByOperator(const ModelConfig& config, const Weights& weights, KvType kv_type,
                             std::span<const SequenceRows> sequences) {
  OperatorCosts costs{};
  const auto of = [&](DecoderOperator operators) -> StepCost& {
    return costs[static_cast<size_t>(operators)];
  };
  int num_tokens = 0;
  int num_logits_rows = 0;
  for (const SequenceRows& rows : sequences) {
    num_tokens += rows.num_tokens;
    num_logits_rows += rows.num_logits_rows;
  }
  for (int i = 0; i < config.num_layers(); ++i) {
    const LayerWeights& matrices = weights.layers[i];
    for (const PackedMatrix* matrix :
         {&matrices.query, &matrices.key, &matrices.value, &matrices.attention_output}) {
      AddMatrix(of(DecoderOperator::kProject), *matrix, num_tokens);
    }
    for (const PackedMatrix* matrix : {&matrices.ffn_gate, &matrices.ffn_up, &matrices.ffn_down}) {
      AddMatrix(of(DecoderOperator::kFeedForward), *matrix, num_tokens);
    }
    for (const SequenceRows& rows : sequences) {
      const AttentionCost cost = AttentionCostOf(config.layers[i], kv_type, rows);
      of(DecoderOperator::kAttend).f32_ops += cost.score_ops + cost.value_ops;
      of(DecoderOperator::kAttend).kv_bytes += cost.key_bytes_read + cost.value_bytes_read;
      of(DecoderOperator::kStoreKv).kv_bytes += cost.bytes_written;
    }
  }
  AddMatrix(of(DecoderOperator::kOutput), weights.output, num_logits_rows);
  return costs;
}

OperatorCosts CostByOperator(const ModelConfig& config, const Weights& weights, KvType kv_type,
                             int first_position, int num_tokens, int num_logits_rows) {
  const SequenceRows rows{first_position, num_tokens, num_logits_rows};
  return CostByOperator(config, weights, kv_type, {&rows, 1});
}

StepCost CostOfStep(const ModelConfig& config, const Weights& weights, KvType kv_type,
                    int first_position, int num_tokens, int num_logits_rows) {
  StepCost cost;
  for (const StepCost& part :
       CostByOperator(config, weights, kv_type, first_position, num_tokens, num_logits_rows)) {
    cost += part;
  }
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
