// What a step costs by arithmetic: operations and bytes, from the model's shapes.
//
// The roofline of Williams, Waterman, Patterson: "Roofline: an insightful visual performance model
// for multicore architectures" (CACM 2009), for a transformer's two phases. Per token a matrix
// [n, k] costs 2 n k operations; its bytes are read once a step, whatever the step's tokens. A
// query at position p reads min(p + 1, window) keys and values of each layer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "models/config.h"
#include "models/operator_times.h"
#include "models/weights.h"
#include "tensor/kv_type.h"

namespace quire {

struct StepCost {
  double int8_ops = 0;      // of quantised matrices
  double f32_ops = 0;       // of float matrices and attention
  double weight_bytes = 0;  // read
  double kv_bytes = 0;      // read and written

  double ops() const { return int8_ops + f32_ops; }
  double bytes() const { return weight_bytes + kv_bytes; }
  double intensity() const { return bytes() == 0 ? 0 : ops() / bytes(); }  // operations a byte

  StepCost& operator+=(const StepCost& other);
};

// By DecoderOperator. Norms and the embedding multiply nothing worth counting and read no matrix.
using OperatorCosts = std::array<StepCost, kNumDecoderOperators>;

// What a step computes of one sequence: num_tokens positions, and the logits of some of them.
struct SequenceRows {
  int first_position = 0;
  int num_tokens = 0;
  int num_logits_rows = 0;
};

// One layer's attention for one sequence.
struct AttentionCost {
  double score_ops = 0;
  double value_ops = 0;
  double keys_attended = 0;  // by a head, summed over its queries
  double key_bytes_read = 0;
  double value_bytes_read = 0;
  double bytes_written = 0;
};
AttentionCost AttentionCostOf(const LayerConfig& layer, KvType kv_type, const SequenceRows& rows);

// A step of several sequences reads the weights once and each sequence's keys once.
OperatorCosts CostByOperator(const ModelConfig& config, const Weights& weights, KvType kv_type,
                             std::span<const SequenceRows> sequences);

// A step that computes positions first_position.. of one sequence, num_tokens of them, and the
// logits of `num_logits_rows`. Rows of one step read a sequence's keys once.
OperatorCosts CostByOperator(const ModelConfig& config, const Weights& weights, KvType kv_type,
                             int first_position, int num_tokens, int num_logits_rows);

// All operators of that step together.
StepCost CostOfStep(const ModelConfig& config, const Weights& weights, KvType kv_type,
                    int first_position, int num_tokens, int num_logits_rows);

// The bytes that a decode step reads of the weights: packed weights lie in one piece.
std::span<const std::byte> WeightBytes(const Weights& weights);

struct MachineLimits {
  double bytes_per_second = 0;
  double int8_ops_per_second = 0;
  double f32_ops_per_second = 0;
};

// The time that a step takes at least, with reading and computing side by side.
struct Bound {
  double memory_ms = 0;
  double compute_ms = 0;
  double limit_ms() const { return memory_ms > compute_ms ? memory_ms : compute_ms; }
  std::string_view bound_by() const { return memory_ms > compute_ms ? "memory" : "compute"; }
};
Bound BoundOf(const StepCost& cost, const MachineLimits& limits);

}  // namespace quire
