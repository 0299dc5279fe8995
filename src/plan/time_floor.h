// The times that a token takes at least: the roofline (plan/step_cost.h) of a machine's measured
// ceilings, as the figures that users feel.
//
//   TTFT floor  sum over the steps of a prompt of max(bytes / bandwidth, operations / peaks)
//   TPOT floor  the same of decode steps, on average
//   ridge       operations a byte at which reading and computing take as long: a step with more is
//               bound by arithmetic, one with fewer by memory
//
// A decode step reads the weights W once for all its sequences, and k bytes of keys and values for
// each, and computes c seconds for each. Of B sequences reading takes (W + B k) / bandwidth and
// computing B c, so arithmetic decides from B = W / (bandwidth c - k) on; where bandwidth c <= k it
// never does. At no depth (k = 0) that is the textbook's ridge times W over the operations of a
// token: half the ridge for each byte of a weight.
//
// No sampling, no norms and no waiting are in a floor. Pure functions, any thread.
#pragma once

#include <string_view>

#include "plan/step_cost.h"

namespace quire {

// A model as a machine computes it. The weights' shapes count, not their bytes.
struct FloorModel {
  const ModelConfig* config = nullptr;
  const Weights* weights = nullptr;
  KvType kv_type = KvType::kF16;
  int prefill_chunk = 512;
};

struct TimeFloor {
  double ms = 0;
  double memory_ms = 0;   // of reading alone
  double compute_ms = 0;  // of computing alone
  std::string_view bound_by() const { return memory_ms > compute_ms ? "memory" : "compute"; }
};

// Of a prompt of which `depth` entries are in the cache and num_tokens are computed, alone.
// 1 <= num_tokens.
TimeFloor TtftFloor(const FloorModel& model, const MachineLimits& limits, int depth,
                    int num_tokens);

// Of a decode step of num_sequences sequences whose tokens have `depth` entries before them, on
// average over num_tokens steps. 1 <= num_tokens, num_sequences.
TimeFloor TpotFloor(const FloorModel& model, const MachineLimits& limits, int depth,
                    int num_tokens = 1, int num_sequences = 1);

// Operations a byte.
struct Ridge {
  double int8_ops_per_byte = 0;
  double f32_ops_per_byte = 0;
};
Ridge RidgeOf(const MachineLimits& limits);

// Sequences at `depth` from which on a decode step is bound by arithmetic.
struct ComputeBoundBatch {
  double formula = 0;  // W / (bandwidth c - k); 0 = at no number
  int counted = 0;     // the fewest whose step is, by its cost; 0 = none up to kMostFloorSequences
};
inline constexpr int kMostFloorSequences = 4096;
ComputeBoundBatch ComputeBoundBatchOf(const FloorModel& model, const MachineLimits& limits,
                                      int depth);

}  // namespace quire
