#include "plan/model_tensors.h"

#include <cmath>
#include <limits>

#include "plan/model_shape.h"
#include "plan/saturating.h"

namespace quire {
namespace {

// Names the tensors of one layer, or of the whole model.
class TensorList {
 public:
  void Matrix(WeightRole role, int layer, int64_t rows, int64_t cols) {
    tensors_.push_back(
        {.role = role, .layer = layer, .is_matrix = true, .num_rows = rows, .num_cols = cols});
  }
  void Vector(WeightRole role, int layer, int64_t size) {
    tensors_.push_back({.role = role, .layer = layer, .num_rows = 1, .num_cols = size});
  }
  std::vector<ModelTensor> Take() { return std::move(tensors_); }

 private:
  std::vector<ModelTensor> tensors_;
};

void AddLayer(TensorList& list, const ModelConfig& config, const ParameterTraits& traits, int i) {
  const LayerConfig& layer = config.layers[i];
  const int64_t d = config.d_model;
  const int64_t queries = int64_t{layer.num_heads} * layer.key_dim;
  const int64_t keys = int64_t{layer.num_kv_heads} * layer.key_dim;
  const int64_t values = int64_t{layer.num_kv_heads} * layer.value_dim;
  const bool biases = traits.layer_norm;
  list.Vector(WeightRole::kAttentionNorm, i, d);
  if (biases) list.Vector(WeightRole::kAttentionNormBias, i, d);
  list.Matrix(WeightRole::kQuery, i, queries, d);
  list.Matrix(WeightRole::kKey, i, keys, d);
  list.Matrix(WeightRole::kValue, i, values, d);
  if (traits.query_key_value_bias || biases) {
    list.Vector(WeightRole::kQueryBias, i, queries);
    list.Vector(WeightRole::kKeyBias, i, keys);
    list.Vector(WeightRole::kValueBias, i, values);
  }
  if (traits.query_key_norm) {
    list.Vector(WeightRole::kQueryNorm, i, layer.key_dim);
    list.Vector(WeightRole::kKeyNorm, i, layer.key_dim);
  }
  list.Matrix(WeightRole::kAttentionOutput, i, d, int64_t{layer.num_heads} * layer.value_dim);
  if (biases) list.Vector(WeightRole::kAttentionOutputBias, i, d);
  if (traits.post_norms) list.Vector(WeightRole::kAttentionPostNorm, i, d);
  list.Vector(WeightRole::kFfnNorm, i, d);
  if (biases) list.Vector(WeightRole::kFfnNormBias, i, d);
  if (config.gated_ffn) list.Matrix(WeightRole::kFfnGate, i, layer.ffn_dim, d);
  list.Matrix(WeightRole::kFfnUp, i, layer.ffn_dim, d);
  if (biases) list.Vector(WeightRole::kFfnUpBias, i, layer.ffn_dim);
  list.Matrix(WeightRole::kFfnDown, i, d, layer.ffn_dim);
  if (biases) list.Vector(WeightRole::kFfnDownBias, i, d);
  if (traits.post_norms) list.Vector(WeightRole::kFfnPostNorm, i, d);
}

}  // namespace

std::vector<ModelTensor> TensorsOfPlan(const WeightPlan& plan) {
  std::vector<ModelTensor> tensors;
  tensors.reserve(plan.weights.size());
  for (const PlannedWeight& weight : plan.weights) {
    const DType held = weight.is_matrix ? weight.dtype : DType::kF32;
    tensors.push_back({.role = weight.role,
                       .layer = weight.layer,
                       .type = std::string(InfoOf(held).name),
                       .is_matrix = weight.is_matrix,
                       .is_quantized = weight.is_matrix && IsQuantized(weight.dtype),
                       .num_rows = weight.num_rows,
                       .num_cols = weight.num_cols,
                       .bytes = weight.packed_bytes});
  }
  return tensors;
}

std::vector<ModelTensor> TensorsOfTraits(const ModelConfig& config, const ParameterTraits& traits) {
  if (DenseParameters(config, traits) == 0) return {};
  TensorList list;
  list.Matrix(WeightRole::kTokenEmbedding, -1, config.vocab_size, config.d_model);
  if (traits.learned_positions) {
    list.Matrix(WeightRole::kPositionEmbedding, -1, config.context_length, config.d_model);
  }
  for (int i = 0; i < config.num_layers(); ++i) AddLayer(list, config, traits, i);
  list.Vector(WeightRole::kOutputNorm, -1, config.d_model);
  if (traits.layer_norm) list.Vector(WeightRole::kOutputNormBias, -1, config.d_model);
  if (!traits.tied_embeddings) {
    list.Matrix(WeightRole::kOutput, -1, config.vocab_size, config.d_model);
  }
  return list.Take();
}

void SetTensorBits(std::vector<ModelTensor>& tensors, double bits) {
  for (ModelTensor& tensor : tensors) {
    const double bytes = std::ceil(static_cast<double>(tensor.parameters()) * bits / 8);
    tensor.bytes = bytes < 1.8e19 ? static_cast<uint64_t>(bytes) : kNeverFits;
    tensor.type = fmt::format("{}-bit", bits);
    tensor.is_quantized = false;
  }
}

}  // namespace quire
