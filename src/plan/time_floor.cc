#include "plan/time_floor.h"

#include <algorithm>
#include <vector>

#include "plan/kv_cost.h"

namespace quire {
namespace {

void Add(TimeFloor& floor, const StepCost& cost, const MachineLimits& limits) {
  const Bound bound = BoundOf(cost, limits);
  floor.ms += bound.limit_ms();
  floor.memory_ms += bound.memory_ms;
  floor.compute_ms += bound.compute_ms;
}

// One step in which num_sequences sequences feed the token at `position`.
StepCost DecodeStep(const FloorModel& model, int position, int num_sequences) {
  const std::vector<SequenceRows> rows(
      num_sequences, {.first_position = position, .num_tokens = 1, .num_logits_rows = 1});
  StepCost cost;
  for (const StepCost& part : CostByOperator(*model.config, *model.weights, model.kv_type, rows)) {
    cost += part;
  }
  return cost;
}

}  // namespace

TimeFloor TtftFloor(const FloorModel& model, const MachineLimits& limits, int depth,
                    int num_tokens) {
  TimeFloor floor;
  for (int done = 0; done < num_tokens;) {
    const int count = std::min(model.prefill_chunk, num_tokens - done);
    const bool is_last = done + count == num_tokens;
    Add(floor,
        CostOfStep(*model.config, *model.weights, model.kv_type, depth + done, count,
                   is_last ? 1 : 0),
        limits);
    done += count;
  }
  return floor;
}

TimeFloor TpotFloor(const FloorModel& model, const MachineLimits& limits, int depth, int num_tokens,
                    int num_sequences) {
  TimeFloor sum;
  for (int i = 0; i < num_tokens; ++i) {
    Add(sum, DecodeStep(model, depth + i, num_sequences), limits);
  }
  return {.ms = sum.ms / num_tokens,
          .memory_ms = sum.memory_ms / num_tokens,
          .compute_ms = sum.compute_ms / num_tokens};
}

Ridge RidgeOf(const MachineLimits& limits) {
  return {.int8_ops_per_byte = limits.int8_ops_per_second / limits.bytes_per_second,
          .f32_ops_per_byte = limits.f32_ops_per_second / limits.bytes_per_second};
}

ComputeBoundBatch ComputeBoundBatchOf(const FloorModel& model, const MachineLimits& limits,
                                      int depth) {
  const StepCost one = DecodeStep(model, depth, 1);
  const double seconds = BoundOf(one, limits).compute_ms / 1000;
  const double spare = limits.bytes_per_second * seconds - one.kv_bytes;
  ComputeBoundBatch batch{.formula = spare > 0 ? one.weight_bytes / spare : 0};
  const int below = LargestThat(kMostFloorSequences, [&](int num_sequences) {
    const Bound bound = BoundOf(DecodeStep(model, depth, num_sequences), limits);
    return bound.memory_ms > bound.compute_ms;
  });
  batch.counted = below == kMostFloorSequences ? 0 : below + 1;
  return batch;
}

}  // namespace quire
