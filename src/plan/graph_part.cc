#include "plan/graph_part.h"

#include <algorithm>

namespace quire {
namespace {

std::string_view TensorName(WeightRole role) {
  switch (role) {
    case WeightRole::kAttentionNormBias:
    case WeightRole::kQueryBias:
    case WeightRole::kKeyBias:
    case WeightRole::kValueBias:
    case WeightRole::kAttentionOutputBias:
    case WeightRole::kFfnNormBias:
    case WeightRole::kFfnUpBias:
    case WeightRole::kFfnDownBias:
    case WeightRole::kOutputNormBias:
    case WeightRole::kOutputBias:
      return "bias";
    case WeightRole::kQueryNorm:
      return "query";
    case WeightRole::kKeyNorm:
      return "key";
    default:
      return "weight";
  }
}

double Elements(const ArrayShape& shape) {
  double count = 1;
  for (const int64_t size : shape) count *= static_cast<double>(size);
  return count;
}

void AddTensor(GraphStage& stage, const ModelTensor& tensor) {
  const std::string_view name = TensorName(tensor.role);
  auto found = std::ranges::find(stage.tensors, name, &StageTensor::name);
  if (found == stage.tensors.end()) {
    const ArrayShape shape = tensor.is_matrix ? ArrayShape{tensor.num_rows, tensor.num_cols}
                                              : ArrayShape{tensor.num_cols};
    found = stage.tensors.insert(found, StageTensor{.name = name, .shape = shape});
  }
  auto type = std::ranges::find(found->types, tensor.type, &TensorType::type);
  if (type == found->types.end()) type = found->types.insert(type, TensorType{tensor.type, 0});
  ++type->num_tensors;
  found->parameters += tensor.parameters();
  found->bytes += tensor.bytes;
  stage.parameters += tensor.parameters();
  stage.held_bytes += tensor.bytes;
}

}  // namespace

TensorsByLayer SortByLayer(const ModelShape& shape) {
  TensorsByLayer sorted(shape.config.layers.size() + 1);
  for (const ModelTensor& tensor : shape.tensors) {
    const size_t place = tensor.layer < 0 ? shape.config.layers.size() : tensor.layer;
    sorted[place].push_back(&tensor);
  }
  return sorted;
}

PartBuilder::PartBuilder(const TensorsByLayer& tensors, const SequenceRows& prefill,
                         const SequenceRows& decode, GraphPart& part)
    : prefill_(prefill), decode_(decode), part_(part) {
  if (part.layers.empty()) tensors_ = tensors.back();
  for (const int layer : part.layers) {
    tensors_.insert(tensors_.end(), tensors[layer].begin(), tensors[layer].end());
  }
}

bool PartBuilder::Has(WeightRole role) const {
  return std::ranges::find(tensors_, role, &ModelTensor::role) != tensors_.end();
}

GraphStage& PartBuilder::Add(StageText text, DecoderOperator operators, const WeightRoles& roles,
                             const ArrayShapeOf& input, const ArrayShapeOf& output,
                             double ops_an_element) {
  GraphStage& stage = part_.stages.emplace_back(GraphStage{.name = text.name,
                                                           .label = text.label,
                                                           .formula = std::move(text.formula),
                                                           .operators = operators});
  for (auto [load, rows] : Loads(stage)) {
    load->input = input ? input(*rows) : ArrayShape();
    load->output = output(*rows);
    load->elementwise_ops = ops_an_element * Elements(load->output) * num_layers();
  }
  for (const ModelTensor* tensor : tensors_) {
    if (std::ranges::find(roles, tensor->role) != roles.end()) AddTensor(stage, *tensor);
  }
  return stage;
}

void PartBuilder::Multiply(StageText text, DecoderOperator operators, WeightRole matrix,
                           const WeightRoles& biases, const ArrayShapeOf& input,
                           const ArrayShapeOf& output, bool is_held) {
  WeightRoles roles = biases;
  if (is_held) roles.push_back(matrix);
  const bool has_bias = std::ranges::any_of(biases, [&](WeightRole role) { return Has(role); });
  GraphStage& stage = Add(std::move(text), operators, roles, input, output, has_bias ? 1 : 0);
  for (const ModelTensor* tensor : tensors_) {
    if (tensor->role != matrix) continue;
    for (auto [load, rows] : Loads(stage)) {
      const int num_rows =
          operators == DecoderOperator::kOutput ? rows->num_logits_rows : rows->num_tokens;
      const double ops = 2.0 * static_cast<double>(tensor->num_rows) *
                         static_cast<double>(tensor->num_cols) * num_rows;
      (tensor->is_quantized ? load->cost.int8_ops : load->cost.f32_ops) += ops;
      load->cost.weight_bytes += static_cast<double>(tensor->bytes);
    }
  }
}

void PartBuilder::AddAttention(GraphStage& stage, KvType kv_type,
                               const std::function<void(const AttentionCost&, StageLoad&)>& add) {
  for (auto [load, rows] : Loads(stage)) {
    AttentionCost cost = AttentionCostOf(part_.layer, kv_type, *rows);
    for (double* value : {&cost.score_ops, &cost.value_ops, &cost.keys_attended,
                          &cost.key_bytes_read, &cost.value_bytes_read, &cost.bytes_written}) {
      *value *= num_layers();
    }
    add(cost, *load);
  }
}

}  // namespace quire
