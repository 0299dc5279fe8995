#include "plan/explain_json.h"

#include <boost/json.hpp>
#include <cmath>

#include "formats/printable.h"

namespace quire {
namespace {

namespace json = boost::json;

// Of these bodies, which the server gives under /quire.
constexpr int kVersion = 1;

json::array ArrayOf(const auto& values) {
  json::array array;
  for (const auto& value : values) array.push_back(value);
  return array;
}

// Counts are whole numbers as long as they are exact.
json::value CountOf(double count) {
  if (count >= 0 && count < 9e15 && count == std::floor(count)) return static_cast<int64_t>(count);
  return count;
}

json::object AsJson(const StepCost& cost) {
  return {{"ops", CountOf(cost.ops())},         {"int8_ops", CountOf(cost.int8_ops)},
          {"f32_ops", CountOf(cost.f32_ops)},   {"weight_bytes", CountOf(cost.weight_bytes)},
          {"kv_bytes", CountOf(cost.kv_bytes)}, {"ops_per_byte", cost.intensity()}};
}

json::object AsJson(const StageLoad& load) {
  json::object object = AsJson(load.cost);
  object["elementwise_ops"] = CountOf(load.elementwise_ops);
  object["in"] = ArrayOf(load.input);
  object["out"] = ArrayOf(load.output);
  return object;
}

json::object AsJson(const StageTensor& tensor) {
  json::array types;
  for (const TensorType& type : tensor.types) {
    types.push_back({{"type", type.type}, {"tensors", type.num_tensors}});
  }
  return {{"name", tensor.name},
          {"shape", ArrayOf(tensor.shape)},
          {"types", std::move(types)},
          {"parameters", tensor.parameters},
          {"bytes", tensor.bytes}};
}

json::object AsJson(const GraphStage& stage) {
  json::array tensors;
  for (const StageTensor& tensor : stage.tensors) tensors.push_back(AsJson(tensor));
  return {{"name", stage.name},
          {"label", stage.label},
          {"formula", stage.formula},
          {"operators", NameOf(stage.operators)},
          {"tensors", std::move(tensors)},
          {"parameters", stage.parameters},
          {"held_bytes", stage.held_bytes},
          {"prefill", AsJson(stage.prefill)},
          {"decode", AsJson(stage.decode)}};
}

json::object AsJson(const GraphPart& part) {
  json::array stages;
  for (const GraphStage& stage : part.stages) stages.push_back(AsJson(stage));
  json::object object = {{"name", part.name}, {"num_layers", part.num_layers()}};
  if (!part.layers.empty()) {
    object["layers"] = ArrayOf(part.layers);
    object["num_heads"] = part.layer.num_heads;
    object["num_kv_heads"] = part.layer.num_kv_heads;
    object["key_dim"] = part.layer.key_dim;
    object["value_dim"] = part.layer.value_dim;
    object["ffn_dim"] = part.layer.ffn_dim;
    object["window"] = part.layer.window;
    object["kv_bytes_per_token"] = CountOf(part.kv_bytes_per_token);
  }
  object["stages"] = std::move(stages);
  return object;
}

std::string_view NameOfNorm(const ModelConfig& config) {
  return config.norm == NormKind::kRms ? "rms" : "layer";
}

std::string_view NameOfPlacement(const ModelConfig& config) {
  switch (config.norm_placement) {
    case NormPlacement::kBefore:
      return "before";
    case NormPlacement::kBeforeAndAfter:
      return "before_and_after";
    case NormPlacement::kAfterResidual:
      return "after_residual";
  }
  return "";
}

std::string_view NameOfActivation(const ModelConfig& config) {
  switch (config.activation) {
    case Activation::kSilu:
      return "silu";
    case Activation::kGelu:
      return "gelu";
    case Activation::kRelu:
      return "relu";
  }
  return "";
}

json::object WithElementwise(const StepCost& cost, double elementwise_ops) {
  json::object object = AsJson(cost);
  object["elementwise_ops"] = CountOf(elementwise_ops);
  return object;
}

json::object AsJson(const MachineCeilings& ceilings) {
  json::array memory;
  for (const MemoryCeiling& level : ceilings.memory) {
    memory.push_back({{"name", level.name},
                      {"level_bytes", level.level_bytes},
                      {"set_bytes", level.set_bytes},
                      {"bytes_per_second", level.bytes_per_second}});
  }
  json::array arithmetic;
  arithmetic.push_back({{"name", "int8"}, {"ops_per_second", ceilings.peaks.int8_ops_per_second}});
  arithmetic.push_back({{"name", "f32"}, {"ops_per_second", ceilings.peaks.f32_ops_per_second}});
  return {{"kernels", ceilings.kernels},
          {"threads", ceilings.num_threads},
          {"memory", std::move(memory)},
          {"arithmetic", std::move(arithmetic)},
          {"disturbed", !DisturbanceOf(ceilings).empty()}};
}

json::object AsJson(const RooflinePoint& point, const MachineLimits& limits) {
  json::object object = AsJson(point.cost);
  object["phase"] = point.phase;
  object["operators"] = point.operators;
  object["depth"] = point.depth;
  object["tokens"] = point.num_tokens;
  object["steps"] = point.num_steps;
  object["ms"] = point.ms;
  object["ops_per_second"] = point.ops_per_second();
  object["bytes_per_second"] = point.bytes_per_second();
  const bool is_counted = point.cost.ops() > 0 || point.cost.bytes() > 0;
  const bool is_bounded = limits.bytes_per_second > 0 && limits.int8_ops_per_second > 0 &&
                          limits.f32_ops_per_second > 0;
  if (is_counted && is_bounded) {
    const Bound bound = BoundOf(point.cost, limits);
    object["bound_by"] = bound.bound_by();
    object["limit_ms"] = bound.limit_ms();
    object["roof_ops_per_second"] = RoofOver(point.cost, limits);
    object["fraction"] = point.fraction(limits);
  }
  return object;
}

json::object AsJson(const GrowthSeries& series) {
  return {{"name", series.name},
          {"label", series.label},
          {"kv_type", series.kv_type},
          {"as_if", series.is_as_if},
          {"bytes_per_token", series.bytes_per_token},
          {"bytes", ArrayOf(series.bytes)}};
}

json::object AsJson(const GrowthTerm& term) {
  return {{"layers", term.num_layers},
          {"num_heads", term.num_heads},
          {"num_kv_heads", term.num_kv_heads},
          {"key_dim", term.key_dim},
          {"value_dim", term.value_dim},
          {"window", term.window},
          {"bytes_per_token", term.bytes_per_token}};
}

json::object AsJson(const GrowthPoint& point) {
  return {{"tokens", point.tokens},
          {"used_blocks", point.used_blocks},
          {"expected_blocks", point.expected_blocks},
          {"used_bytes", point.used_bytes},
          {"formula_bytes", point.formula_bytes},
          {"committed_bytes", point.committed_bytes}};
}

}  // namespace

std::string ModelGraphAsJson(const ModelGraph& graph) {
  const ModelConfig& config = graph.config;
  json::array parts;
  for (const GraphPart& part : graph.parts) parts.push_back(AsJson(part));
  const json::object object = {
      {"version", kVersion},
      {"model", Printable(config.name)},
      {"architecture", Printable(config.architecture)},
      {"num_layers", config.num_layers()},
      {"d_model", config.d_model},
      {"vocab_size", config.vocab_size},
      {"context_length", config.context_length},
      {"norm", NameOfNorm(config)},
      {"norm_placement", NameOfPlacement(config)},
      {"positions", config.learned_positions ? "learned" : "rotary"},
      {"query_key_norm", config.query_key_norm},
      {"activation", NameOfActivation(config)},
      {"gated_ffn", config.gated_ffn},
      {"tied_output", graph.is_tied},
      {"kv_type", NameOf(graph.kv_type)},
      {"prefill_tokens", graph.prefill_tokens},
      {"decode_position", graph.decode_position},
      {"parameters", graph.parameters},
      {"held_bytes", graph.held_bytes},
      {"kv_bytes_per_token", CountOf(graph.kv_bytes_per_token)},
      {"prefill", WithElementwise(graph.prefill, graph.prefill_elementwise_ops)},
      {"decode", WithElementwise(graph.decode, graph.decode_elementwise_ops)},
      {"parts", std::move(parts)}};
  return json::serialize(object);
}

std::string RooflineAsJson(const Roofline& roofline) {
  const MachineLimits limits = roofline.ceilings.limits();
  json::array points;
  for (const RooflinePoint& point : roofline.points) points.push_back(AsJson(point, limits));
  const json::object object = {{"version", kVersion},
                               {"model", Printable(roofline.model)},
                               {"kv_type", roofline.kv_type},
                               {"ceilings", AsJson(roofline.ceilings)},
                               {"limits",
                                {{"bytes_per_second", limits.bytes_per_second},
                                 {"int8_ops_per_second", limits.int8_ops_per_second},
                                 {"f32_ops_per_second", limits.f32_ops_per_second}}},
                               {"int8_ridge_ops_per_byte", roofline.int8_ridge()},
                               {"f32_ridge_ops_per_byte", roofline.f32_ridge()},
                               {"points", std::move(points)}};
  return json::serialize(object);
}

std::string KvGrowthAsJson(const KvGrowth& growth) {
  json::array terms;
  for (const GrowthTerm& term : growth.terms) terms.push_back(AsJson(term));
  json::array series;
  for (const GrowthSeries& one : growth.series) series.push_back(AsJson(one));
  json::array measured;
  for (const GrowthPoint& point : growth.measured) measured.push_back(AsJson(point));
  const json::object object = {{"version", kVersion},
                               {"model", Printable(growth.model)},
                               {"kv_type", growth.kv_type},
                               {"bytes_per_token", growth.bytes_per_token},
                               {"block_slots", growth.block_slots},
                               {"block_bytes", growth.block_bytes},
                               {"groups", growth.num_groups},
                               {"chunk", growth.chunk},
                               {"terms", std::move(terms)},
                               {"tokens", ArrayOf(growth.tokens)},
                               {"series", std::move(series)},
                               {"measured", std::move(measured)}};
  return json::serialize(object);
}

std::string PageData(const std::string& view, const std::string& json_text) {
  return fmt::format(R"({{"view":"{0}","{0}":{1}}})", view, json_text);
}

}  // namespace quire
