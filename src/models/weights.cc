#include "models/weights.h"

#include "base/check.h"

namespace quire {
namespace {

// The member that holds a role; exactly one of the two is not null.
struct Slot {
  PackedMatrix* matrix = nullptr;
  const float** vector = nullptr;
};

Slot SlotOf(Weights& weights, WeightRole role, int layer_idx) {
  LayerWeights unused;
  LayerWeights& layer = layer_idx >= 0 ? weights.layers[layer_idx] : unused;
  switch (role) {
    case WeightRole::kTokenEmbedding:
      return {.matrix = &weights.token_embedding};
    case WeightRole::kPositionEmbedding:
      return {.matrix = &weights.position_embedding};
    case WeightRole::kAttentionNorm:
      return {.vector = &layer.attention_norm};
    case WeightRole::kAttentionNormBias:
      return {.vector = &layer.attention_norm_bias};
    case WeightRole::kQuery:
      return {.matrix = &layer.query};
    case WeightRole::kQueryBias:
      return {.vector = &layer.query_bias};
    case WeightRole::kQueryNorm:
      return {.vector = &layer.query_norm};
    case WeightRole::kKey:
      return {.matrix = &layer.key};
    case WeightRole::kKeyBias:
      return {.vector = &layer.key_bias};
    case WeightRole::kKeyNorm:
      return {.vector = &layer.key_norm};
    case WeightRole::kValue:
      return {.matrix = &layer.value};
    case WeightRole::kValueBias:
      return {.vector = &layer.value_bias};
    case WeightRole::kAttentionOutput:
      return {.matrix = &layer.attention_output};
    case WeightRole::kAttentionOutputBias:
      return {.vector = &layer.attention_output_bias};
    case WeightRole::kAttentionPostNorm:
      return {.vector = &layer.attention_post_norm};
    case WeightRole::kFfnNorm:
      return {.vector = &layer.ffn_norm};
    case WeightRole::kFfnNormBias:
      return {.vector = &layer.ffn_norm_bias};
    case WeightRole::kFfnGate:
      return {.matrix = &layer.ffn_gate};
    case WeightRole::kFfnUp:
      return {.matrix = &layer.ffn_up};
    case WeightRole::kFfnUpBias:
      return {.vector = &layer.ffn_up_bias};
    case WeightRole::kFfnDown:
      return {.matrix = &layer.ffn_down};
    case WeightRole::kFfnDownBias:
      return {.vector = &layer.ffn_down_bias};
    case WeightRole::kFfnPostNorm:
      return {.vector = &layer.ffn_post_norm};
    case WeightRole::kOutputNorm:
      return {.vector = &weights.output_norm};
    case WeightRole::kOutputNormBias:
      return {.vector = &weights.output_norm_bias};
    case WeightRole::kOutput:
      return {.matrix = &weights.output};
    case WeightRole::kOutputBias:
      return {.vector = &weights.output_bias};
  }
  QUIRE_CHECK(false, "role {}", static_cast<int>(role));
  return {};
}

}  // namespace

Weights BindWeights(const WeightPlan& plan, int num_layers, const std::byte* packed) {
  Weights weights;
  weights.layers.resize(num_layers);
  for (const PlannedWeight& planned : plan.weights) {
    const Slot slot = SlotOf(weights, planned.role, planned.layer);
    const std::byte* data = packed + planned.offset;
    if (slot.matrix != nullptr) {
      *slot.matrix = PackedMatrix{.dtype = planned.dtype,
                                  .num_rows = planned.num_rows,
                                  .num_cols = planned.num_cols,
                                  .data = data};
    } else {
      *slot.vector = reinterpret_cast<const float*>(data);
    }
  }
  if (weights.output.data == nullptr) weights.output = weights.token_embedding;
  return weights;
}

}  // namespace quire
