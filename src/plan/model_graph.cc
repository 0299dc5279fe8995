#include "plan/model_graph.h"

#include <algorithm>
#include <utility>

#include "plan/graph_part.h"
#include "plan/kv_cost.h"

namespace quire {
namespace {

constexpr int kMaxGraphTokens = 1 << 24;

double NormOps(const ModelConfig& config) { return config.norm == NormKind::kRms ? 4 : 7; }

std::string NormFormula(const ModelConfig& config) {
  return config.norm == NormKind::kRms ? "x / rms(x) * w" : "(x - mean) / deviation * w + b";
}

ArrayShapeOf RowsOf(int64_t width) {
  return [width](const SequenceRows& rows) { return ArrayShape{rows.num_tokens, width}; };
}

ArrayShapeOf HeadsOf(int64_t num_heads, int64_t dim) {
  return [=](const SequenceRows& rows) { return ArrayShape{rows.num_tokens, num_heads, dim}; };
}

// The keys that the last row of a step may attend to.
ArrayShapeOf ScoresOf(const LayerConfig& layer) {
  return [layer](const SequenceRows& rows) {
    const int keys = rows.first_position + rows.num_tokens;
    return ArrayShape{layer.num_heads, rows.num_tokens,
                      layer.window == 0 ? keys : std::min(keys, layer.window)};
  };
}

void AddNorm(PartBuilder& part, const ModelConfig& config, std::string_view name,
             std::string_view label, const WeightRoles& roles) {
  const ArrayShapeOf rows = RowsOf(config.d_model);
  part.Add({name, label, NormFormula(config)}, DecoderOperator::kNorm, roles, rows, rows,
           NormOps(config));
}

void AddResidual(PartBuilder& part, const ModelConfig& config, std::string_view name,
                 std::string_view label, std::string_view added) {
  const ArrayShapeOf rows = RowsOf(config.d_model);
  part.Add({name, label, fmt::format("x + {}", added)}, DecoderOperator::kNorm, {}, rows, rows, 1);
}

void AddInput(PartBuilder& part, const ModelConfig& config) {
  const ArrayShapeOf ids = [](const SequenceRows& rows) { return ArrayShape{rows.num_tokens}; };
  const ArrayShapeOf rows = RowsOf(config.d_model);
  const bool scaled = config.embedding_scale != 1.0f;
  part.Add({"token_embedding", "token embedding",
            scaled ? fmt::format("rows of the table * {:.4g}", config.embedding_scale)
                   : "rows of the table"},
           DecoderOperator::kEmbed, {WeightRole::kTokenEmbedding}, ids, rows, scaled ? 1 : 0);
  if (!config.learned_positions) return;
  part.Add({"position_embedding", "position embedding", "x + rows of the table"},
           DecoderOperator::kEmbed, {WeightRole::kPositionEmbedding}, rows, rows, 1);
}

void AddOutput(PartBuilder& part, const ModelConfig& config, bool is_tied) {
  const auto wanted = [](int64_t width) -> ArrayShapeOf {
    return [width](const SequenceRows& rows) { return ArrayShape{rows.num_logits_rows, width}; };
  };
  if (config.final_norm) {
    part.Add({"final_norm", "final norm", NormFormula(config)}, DecoderOperator::kNorm,
             {WeightRole::kOutputNorm, WeightRole::kOutputNormBias}, wanted(config.d_model),
             wanted(config.d_model), NormOps(config));
  }
  part.Multiply(
      {"output", "output layer", is_tied ? "logits = E x, E the token embedding" : "logits = W x"},
      DecoderOperator::kOutput, is_tied ? WeightRole::kTokenEmbedding : WeightRole::kOutput,
      {WeightRole::kOutputBias}, wanted(config.d_model), wanted(config.vocab_size), !is_tied);
}

void AddProjections(PartBuilder& part, const ModelConfig& config, const LayerConfig& layer) {
  const ArrayShapeOf rows = RowsOf(config.d_model);
  const ArrayShapeOf queries = HeadsOf(layer.num_heads, layer.key_dim);
  const ArrayShapeOf keys = HeadsOf(layer.num_kv_heads, layer.key_dim);
  const auto formula = [&](std::string_view out, WeightRole bias) {
    return fmt::format("{} = W x{}", out, part.Has(bias) ? " + b" : "");
  };
  part.Multiply({"query", "queries", formula("q", WeightRole::kQueryBias)},
                DecoderOperator::kProject, WeightRole::kQuery, {WeightRole::kQueryBias}, rows,
                queries);
  part.Multiply({"key", "keys", formula("k", WeightRole::kKeyBias)}, DecoderOperator::kProject,
                WeightRole::kKey, {WeightRole::kKeyBias}, rows, keys);
  part.Multiply({"value", "values", formula("v", WeightRole::kValueBias)},
                DecoderOperator::kProject, WeightRole::kValue, {WeightRole::kValueBias}, rows,
                HeadsOf(layer.num_kv_heads, layer.value_dim));
  // Of queries and keys side by side.
  const ArrayShapeOf both = HeadsOf(layer.num_heads + layer.num_kv_heads, layer.key_dim);
  if (config.query_key_norm) {
    part.Add({"query_key_norm", "norm of q and k", "each head / rms(head) * w"},
             DecoderOperator::kStoreKv, {WeightRole::kQueryNorm, WeightRole::kKeyNorm}, both, both,
             4);
  }
  if (config.learned_positions) return;
  part.Add({"rope", "rotary positions", "q and k turned by their position"},
           DecoderOperator::kStoreKv, {}, both, both, 3);
}

void AddAttention(PartBuilder& part, const ModelConfig& config, const LayerConfig& layer,
                  KvType kv_type) {
  const ArrayShapeOf queries = HeadsOf(layer.num_heads, layer.key_dim);
  const ArrayShapeOf scores = ScoresOf(layer);
  const ArrayShapeOf stored = HeadsOf(layer.num_kv_heads, int64_t{layer.key_dim} + layer.value_dim);
  GraphStage& store = part.Add({"store_kv", "KV write", fmt::format("k, v as {}", NameOf(kv_type))},
                               DecoderOperator::kStoreKv, {}, stored, stored, 0);
  part.AddAttention(store, kv_type, [](const AttentionCost& cost, StageLoad& load) {
    load.cost.kv_bytes = cost.bytes_written;
  });
  GraphStage& score =
      part.Add({"scores", "scores",
                layer.window > 0 ? fmt::format("q k * scale, the last {} keys", layer.window)
                                 : "q k * scale, keys up to its own"},
               DecoderOperator::kAttend, {}, queries, scores, 0);
  part.AddAttention(score, kv_type, [](const AttentionCost& cost, StageLoad& load) {
    load.cost.f32_ops = cost.score_ops;
    load.cost.kv_bytes = cost.key_bytes_read;
  });
  GraphStage& softmax = part.Add({"softmax", "softmax", "exp(s - max) / sum"},
                                 DecoderOperator::kAttend, {}, scores, scores, 0);
  part.AddAttention(softmax, kv_type, [&](const AttentionCost& cost, StageLoad& load) {
    load.elementwise_ops = 5 * cost.keys_attended * layer.num_heads;
  });
  GraphStage& values =
      part.Add({"weighted_values", "weighted values", "sum of weight * v"},
               DecoderOperator::kAttend, {}, scores, HeadsOf(layer.num_heads, layer.value_dim), 0);
  part.AddAttention(values, kv_type, [](const AttentionCost& cost, StageLoad& load) {
    load.cost.f32_ops = cost.value_ops;
    load.cost.kv_bytes = cost.value_bytes_read;
  });
  part.Multiply({"attention_output", "output projection",
                 part.Has(WeightRole::kAttentionOutputBias) ? "W a + b" : "W a"},
                DecoderOperator::kProject, WeightRole::kAttentionOutput,
                {WeightRole::kAttentionOutputBias},
                RowsOf(int64_t{layer.num_heads} * layer.value_dim), RowsOf(config.d_model));
}

double ActivationOps(const ModelConfig& config) {
  switch (config.activation) {
    case Activation::kSilu:
      return 5;
    case Activation::kGelu:
      return config.gated_ffn ? 11 : 10;
    case Activation::kRelu:
      return 1;
  }
  return 0;
}

std::string ActivationFormula(const ModelConfig& config) {
  switch (config.activation) {
    case Activation::kSilu:
      return "silu(gate) * up";
    case Activation::kGelu:
      return config.gated_ffn ? "gelu(gate) * up" : "gelu(up)";
    case Activation::kRelu:
      return "relu(up)";
  }
  return "";
}

void AddFeedForward(PartBuilder& part, const ModelConfig& config, const LayerConfig& layer) {
  const ArrayShapeOf rows = RowsOf(config.d_model);
  const ArrayShapeOf hidden = RowsOf(layer.ffn_dim);
  if (config.gated_ffn) {
    part.Multiply({"gate", "gate", "W x"}, DecoderOperator::kFeedForward, WeightRole::kFfnGate, {},
                  rows, hidden);
  }
  part.Multiply({"up", "up", part.Has(WeightRole::kFfnUpBias) ? "W x + b" : "W x"},
                DecoderOperator::kFeedForward, WeightRole::kFfnUp, {WeightRole::kFfnUpBias}, rows,
                hidden);
  part.Add({"activation", "activation", ActivationFormula(config)}, DecoderOperator::kFeedForward,
           {}, hidden, hidden, ActivationOps(config));
  part.Multiply({"down", "down", part.Has(WeightRole::kFfnDownBias) ? "W h + b" : "W h"},
                DecoderOperator::kFeedForward, WeightRole::kFfnDown, {WeightRole::kFfnDownBias},
                hidden, rows);
}

void AddLayers(PartBuilder& part, const ModelConfig& config, const LayerConfig& layer,
               KvType kv_type) {
  const WeightRoles attention_norm = {WeightRole::kAttentionNorm, WeightRole::kAttentionNormBias};
  const WeightRoles ffn_norm = {WeightRole::kFfnNorm, WeightRole::kFfnNormBias};
  const bool after = config.norm_placement == NormPlacement::kAfterResidual;
  const bool both = config.norm_placement == NormPlacement::kBeforeAndAfter;
  if (!after) AddNorm(part, config, "attention_norm", "norm", attention_norm);
  AddProjections(part, config, layer);
  AddAttention(part, config, layer, kv_type);
  if (both) {
    AddNorm(part, config, "attention_post_norm", "norm after attention",
            {WeightRole::kAttentionPostNorm});
  }
  AddResidual(part, config, "attention_residual", "residual", "attention");
  if (after) AddNorm(part, config, "attention_norm", "norm", attention_norm);
  if (!after) AddNorm(part, config, "ffn_norm", "norm", ffn_norm);
  AddFeedForward(part, config, layer);
  if (both) {
    AddNorm(part, config, "ffn_post_norm", "norm after feed-forward", {WeightRole::kFfnPostNorm});
  }
  AddResidual(part, config, "ffn_residual", "residual", "feed-forward");
  if (after) AddNorm(part, config, "ffn_norm", "norm", ffn_norm);
}

bool AreAlike(const LayerConfig& a, const LayerConfig& b) {
  return a.num_heads == b.num_heads && a.num_kv_heads == b.num_kv_heads && a.key_dim == b.key_dim &&
         a.value_dim == b.value_dim && a.ffn_dim == b.ffn_dim && a.window == b.window &&
         a.rope == b.rope;
}

// The roles of each layer's tensors, as bits: biases may be there in some layers alone.
std::vector<uint64_t> TensorSets(const ModelShape& shape) {
  std::vector<uint64_t> sets(shape.config.layers.size());
  for (const ModelTensor& tensor : shape.tensors) {
    if (tensor.layer < 0) continue;
    sets[tensor.layer] |= uint64_t{1} << static_cast<int>(tensor.role);
  }
  return sets;
}

std::vector<GraphPart> KindsOfLayers(const ModelShape& shape) {
  const std::vector<uint64_t> sets = TensorSets(shape);
  std::vector<GraphPart> kinds;
  for (int i = 0; i < shape.config.num_layers(); ++i) {
    const LayerConfig& layer = shape.config.layers[i];
    auto kind = std::ranges::find_if(kinds, [&](const GraphPart& part) {
      return AreAlike(part.layer, layer) && sets[part.layers.front()] == sets[i];
    });
    if (kind == kinds.end()) {
      kind = kinds.insert(kind, GraphPart{.name = "layers", .layer = layer});
    }
    kind->layers.push_back(i);
  }
  return kinds;
}

Status CheckGraph(const ModelShape& shape, const GraphOptions& options) {
  if (options.prefill_tokens < 1 || options.prefill_tokens > kMaxGraphTokens) {
    return MakeError(ErrorCode::kInvalidArgument, "a prefill of {} tokens; expected 1 to {}",
                     options.prefill_tokens, kMaxGraphTokens);
  }
  if (options.decode_position < -1 || options.decode_position > kMaxGraphTokens) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "decode at position {}; expected 0 to {}, or -1 for right after the prefill",
                     options.decode_position, kMaxGraphTokens);
  }
  if (shape.tensors.empty()) {
    return MakeError(ErrorCode::kUnsupported,
                     "{}: the configuration does not give all sizes of a dense model (width of the "
                     "feed-forward network, vocabulary); a GGUF file does",
                     shape.config.name);
  }
  const auto cost = KvCost::Make(shape.config, KvElementOf(options.kv_type));
  if (!cost.ok()) return cost.error();
  return {};
}

void AddUp(ModelGraph& graph) {
  for (const GraphPart& part : graph.parts) {
    graph.kv_bytes_per_token += part.kv_bytes_per_token;
    for (const GraphStage& stage : part.stages) {
      graph.parameters += stage.parameters;
      graph.held_bytes += stage.held_bytes;
      graph.prefill += stage.prefill.cost;
      graph.decode += stage.decode.cost;
      graph.prefill_elementwise_ops += stage.prefill.elementwise_ops;
      graph.decode_elementwise_ops += stage.decode.elementwise_ops;
    }
  }
}

}  // namespace

Result<ModelGraph> MakeModelGraph(const ModelShape& shape, const GraphOptions& options) {
  QUIRE_RETURN_IF_ERROR(CheckGraph(shape, options));
  const ModelConfig& config = shape.config;
  ModelGraph graph{
      .config = config,
      .kv_type = options.kv_type,
      .prefill_tokens = options.prefill_tokens,
      .decode_position =
          options.decode_position < 0 ? options.prefill_tokens : options.decode_position,
      .is_tied = std::ranges::none_of(
          shape.tensors,
          [](const ModelTensor& tensor) { return tensor.role == WeightRole::kOutput; })};
  const SequenceRows prefill{0, graph.prefill_tokens, 1};
  const SequenceRows decode{graph.decode_position, 1, 1};
  const TensorsByLayer tensors = SortByLayer(shape);
  const auto builder = [&](GraphPart& part) { return PartBuilder(tensors, prefill, decode, part); };

  GraphPart input{.name = "input"};
  PartBuilder input_builder = builder(input);
  AddInput(input_builder, config);
  graph.parts.push_back(std::move(input));
  for (GraphPart& part : KindsOfLayers(shape)) {
    const LayerConfig layer = part.layer;
    PartBuilder layer_builder = builder(part);
    AddLayers(layer_builder, config, layer, options.kv_type);
    part.kv_bytes_per_token =
        part.num_layers() * AttentionCostOf(layer, options.kv_type, {0, 1, 0}).bytes_written;
    graph.parts.push_back(std::move(part));
  }
  GraphPart output{.name = "output"};
  PartBuilder output_builder = builder(output);
  AddOutput(output_builder, config, graph.is_tied);
  graph.parts.push_back(std::move(output));
  AddUp(graph);
  return graph;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return shape.empty() ? "" : fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string RangesText(const std::vector<int>& numbers) {
  std::string text;
  for (size_t begin = 0; begin < numbers.size();) {
    size_t end = begin + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[begin]);
    if (end - begin > 1) text += fmt::format("-{}", numbers[end - 1]);
    begin = end;
  }
  return text;
}

}  // namespace quire
