#include "models/weight_plan.h"

#include <limits>
#include <set>

#include "base/bytes.h"
#include "formats/gguf.h"
#include "formats/printable.h"
#include "tensor/packed_matrix.h"

namespace quire {
namespace {

enum class Need : uint8_t { kRequired, kOptional };

// Collects the tensors of a model one by one.
class Planner {
 public:
  explicit Planner(const GgufFile& file) : file_(file) {}

  Status Matrix(WeightRole role, int layer, std::string_view suffix, int rows, int cols,
                Need need = Need::kRequired) {
    return Take(role, layer, suffix, /*is_matrix=*/true, rows, cols, need);
  }
  Status Vector(WeightRole role, int layer, std::string_view suffix, int size,
                Need need = Need::kRequired) {
    return Take(role, layer, suffix, /*is_matrix=*/false, 1, size, need);
  }

  // Ends the plan. Tensors that nothing asked for would change the answer if they were used, so a
  // file that has some is not of this architecture.
  Result<WeightPlan> Finish() && {
    used_.insert("rope_freqs.weight");
    for (const GgufTensor& tensor : file_.tensors()) {
      if (used_.contains(tensor.name)) continue;
      return MakeError(ErrorCode::kUnsupported,
                       "{}: tensor {} is not part of the architecture that the file names", path(),
                       Printable(tensor.name));
    }
    return std::move(plan_);
  }

 private:
  std::string path() const { return file_.part_paths()[0].string(); }

  Status Take(WeightRole role, int layer, std::string_view suffix, bool is_matrix, int rows,
              int cols, Need need) {
    const std::string name =
        layer < 0 ? std::string(suffix) : fmt::format("blk.{}.{}", layer, suffix);
    const GgufTensor* tensor = file_.FindTensor(name);
    if (tensor == nullptr) {
      if (need == Need::kOptional) return {};
      return MakeError(ErrorCode::kCorrupt, "{}: missing tensor {} [{}, {}]", path(), name, rows,
                       cols);
    }
    const bool shape_fits = is_matrix ? tensor->dimensions.size() == 2 &&
                                            tensor->dimensions[0] == static_cast<uint64_t>(cols) &&
                                            tensor->dimensions[1] == static_cast<uint64_t>(rows)
                                      : tensor->dimensions.size() == 1 &&
                                            tensor->dimensions[0] == static_cast<uint64_t>(cols);
    if (!shape_fits) {
      std::string got;
      for (auto it = tensor->dimensions.rbegin(); it != tensor->dimensions.rend(); ++it) {
        got += fmt::format("{}{}", got.empty() ? "" : ", ", *it);
      }
      return MakeError(ErrorCode::kCorrupt, "{}: tensor {} has shape [{}]; expected {}", path(),
                       name, got,
                       is_matrix ? fmt::format("[{}, {}]", rows, cols) : fmt::format("[{}]", cols));
    }
    const auto dtype = FindDType(tensor->ggml_type);
    if (!dtype || (!is_matrix && dtype->block_elements > 1)) {
      return MakeError(ErrorCode::kUnsupported, "{}: tensor {} of type {} is not supported{}",
                       path(), name, GgmlTypeName(tensor->ggml_type),
                       is_matrix ? "" : " for a vector");
    }
    used_.insert(tensor->name);

    PlannedWeight weight{.role = role,
                         .layer = layer,
                         .name = name,
                         .is_matrix = is_matrix,
                         .dtype = dtype->dtype,
                         .num_rows = rows,
                         .num_cols = cols,
                         .source = tensor,
                         .offset = plan_.packed_bytes};
    weight.packed_bytes =
        is_matrix ? PackedMatrix{.dtype = weight.dtype, .num_rows = rows, .num_cols = cols}.bytes()
                  : AlignUp(static_cast<size_t>(cols) * sizeof(float), 64);
    plan_.packed_bytes += weight.packed_bytes;
    plan_.weights.push_back(std::move(weight));
    return {};
  }

  const GgufFile& file_;
  WeightPlan plan_;
  std::set<std::string_view> used_;
};

Status PlanAttention(Planner& planner, const ModelConfig& config, int i) {
  const LayerConfig& layer = config.layers[i];
  const int64_t query_dim = int64_t{layer.num_heads} * layer.key_dim;
  const int64_t key_dim = int64_t{layer.num_kv_heads} * layer.key_dim;
  const int64_t value_dim = int64_t{layer.num_kv_heads} * layer.value_dim;
  const int64_t mixed_dim = int64_t{layer.num_heads} * layer.value_dim;
  for (const int64_t dim : {query_dim, key_dim, value_dim, mixed_dim}) {
    if (dim > std::numeric_limits<int>::max()) {
      return MakeError(ErrorCode::kCorrupt, "layer {}: heads of {} elements in all", i, dim);
    }
  }
  const int d = config.d_model;
  QUIRE_RETURN_IF_ERROR(planner.Matrix(WeightRole::kQuery, i, "attn_q.weight", query_dim, d));
  QUIRE_RETURN_IF_ERROR(planner.Matrix(WeightRole::kKey, i, "attn_k.weight", key_dim, d));
  QUIRE_RETURN_IF_ERROR(planner.Matrix(WeightRole::kValue, i, "attn_v.weight", value_dim, d));
  QUIRE_RETURN_IF_ERROR(
      planner.Vector(WeightRole::kQueryBias, i, "attn_q.bias", query_dim, Need::kOptional));
  QUIRE_RETURN_IF_ERROR(
      planner.Vector(WeightRole::kKeyBias, i, "attn_k.bias", key_dim, Need::kOptional));
  QUIRE_RETURN_IF_ERROR(
      planner.Vector(WeightRole::kValueBias, i, "attn_v.bias", value_dim, Need::kOptional));
  if (config.query_key_norm) {
    QUIRE_RETURN_IF_ERROR(
        planner.Vector(WeightRole::kQueryNorm, i, "attn_q_norm.weight", layer.key_dim));
    QUIRE_RETURN_IF_ERROR(
        planner.Vector(WeightRole::kKeyNorm, i, "attn_k_norm.weight", layer.key_dim));
  }
  QUIRE_RETURN_IF_ERROR(
      planner.Matrix(WeightRole::kAttentionOutput, i, "attn_output.weight", d, mixed_dim));
  return planner.Vector(WeightRole::kAttentionOutputBias, i, "attn_output.bias", d,
                        Need::kOptional);
}

Status PlanFeedForward(Planner& planner, const ModelConfig& config, int i) {
  const int d = config.d_model;
  const int ffn = config.layers[i].ffn_dim;
  if (config.gated_ffn) {
    QUIRE_RETURN_IF_ERROR(planner.Matrix(WeightRole::kFfnGate, i, "ffn_gate.weight", ffn, d));
  }
  QUIRE_RETURN_IF_ERROR(planner.Matrix(WeightRole::kFfnUp, i, "ffn_up.weight", ffn, d));
  QUIRE_RETURN_IF_ERROR(planner.Matrix(WeightRole::kFfnDown, i, "ffn_down.weight", d, ffn));
  if (!config.gated_ffn) {
    QUIRE_RETURN_IF_ERROR(
        planner.Vector(WeightRole::kFfnUpBias, i, "ffn_up.bias", ffn, Need::kOptional));
  }
  return planner.Vector(WeightRole::kFfnDownBias, i, "ffn_down.bias", d, Need::kOptional);
}

Status PlanLayer(Planner& planner, const ModelConfig& config, int i) {
  const int d = config.d_model;
  const bool layer_norm = config.norm == NormKind::kLayer;
  QUIRE_RETURN_IF_ERROR(planner.Vector(WeightRole::kAttentionNorm, i, "attn_norm.weight", d));
  if (layer_norm) {
    QUIRE_RETURN_IF_ERROR(planner.Vector(WeightRole::kAttentionNormBias, i, "attn_norm.bias", d));
  }
  QUIRE_RETURN_IF_ERROR(PlanAttention(planner, config, i));
  if (config.norm_placement == NormPlacement::kBeforeAndAfter) {
    QUIRE_RETURN_IF_ERROR(
        planner.Vector(WeightRole::kAttentionPostNorm, i, "post_attention_norm.weight", d));
  }
  QUIRE_RETURN_IF_ERROR(planner.Vector(WeightRole::kFfnNorm, i, "ffn_norm.weight", d));
  if (layer_norm) {
    QUIRE_RETURN_IF_ERROR(planner.Vector(WeightRole::kFfnNormBias, i, "ffn_norm.bias", d));
  }
  QUIRE_RETURN_IF_ERROR(PlanFeedForward(planner, config, i));
  if (config.norm_placement == NormPlacement::kBeforeAndAfter) {
    QUIRE_RETURN_IF_ERROR(planner.Vector(WeightRole::kFfnPostNorm, i, "post_ffw_norm.weight", d));
  }
  return {};
}

}  // namespace

Result<WeightPlan> PlanWeights(const GgufFile& file, const ModelConfig& config) {
  Planner planner(file);
  const int d = config.d_model;
  QUIRE_RETURN_IF_ERROR(
      planner.Matrix(WeightRole::kTokenEmbedding, -1, "token_embd.weight", config.vocab_size, d));
  if (config.learned_positions) {
    QUIRE_RETURN_IF_ERROR(planner.Matrix(WeightRole::kPositionEmbedding, -1, "position_embd.weight",
                                         config.context_length, d));
  }
  for (int i = 0; i < config.num_layers(); ++i) {
    QUIRE_RETURN_IF_ERROR(PlanLayer(planner, config, i));
  }
  if (config.final_norm) {
    QUIRE_RETURN_IF_ERROR(planner.Vector(WeightRole::kOutputNorm, -1, "output_norm.weight", d));
    if (config.norm == NormKind::kLayer) {
      QUIRE_RETURN_IF_ERROR(planner.Vector(WeightRole::kOutputNormBias, -1, "output_norm.bias", d));
    }
  }
  // A file without an output matrix ties it to the token embedding.
  QUIRE_RETURN_IF_ERROR(planner.Matrix(WeightRole::kOutput, -1, "output.weight", config.vocab_size,
                                       d, Need::kOptional));
  QUIRE_RETURN_IF_ERROR(planner.Vector(WeightRole::kOutputBias, -1, "output.bias",
                                       config.vocab_size, Need::kOptional));
  return std::move(planner).Finish();
}

}  // namespace quire
