// `quire explain shapes`: the forward pass of a model, stage by stage, in prefill and in decode.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <array>
#include <memory>
#include <string>

#include "cli/explain.h"
#include "cli/find_shape.h"
#include "cli/html_file.h"
#include "cli/verbs.h"
#include "formats/printable.h"
#include "plan/byte_size.h"
#include "plan/explain_json.h"
#include "plan/model_graph.h"

namespace quire {
namespace {

struct ShapesFlags {
  std::string model;
  GraphOptions graph;
  std::string kv_type = "f16";
  double weight_bits = 0;
  bool json = false;
  std::string html;
};

// 1234567 as "1.235 M"; 0 as "".
std::string Short(double number) {
  constexpr std::array kUnits = {"", " k", " M", " G", " T", " P"};
  if (number == 0) return "";
  size_t unit = 0;
  while (number >= 999.95 && unit + 1 < kUnits.size()) {
    number /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f}", number) : fmt::format("{:.1f}{}", number, kUnits[unit]);
}

// Of the matrix, or of the vector where there is none: "[1536, 576] Q4_1".
std::string WeightText(const GraphStage& stage) {
  if (stage.tensors.empty()) return "";
  const StageTensor* tensor = &stage.tensors.front();
  for (const StageTensor& other : stage.tensors) {
    if (other.shape.size() > tensor->shape.size()) tensor = &other;
  }
  std::string types;
  for (const TensorType& type : tensor->types) {
    types += types.empty() ? " " : ", ";
    types +=
        tensor->types.size() > 1 ? fmt::format("{} x {}", type.num_tensors, type.type) : type.type;
  }
  return ShapeText(tensor->shape) + types;
}

using Cells = std::array<std::string, 10>;

void PrintCells(const Cells& cells) {
  std::string line = fmt::format("  {:<24}{:<32}{:>9} {:>9}  {:<20}{:>9}  {:<16}{:>9}{:>9} {:>9}",
                                 cells[0], cells[1], cells[2], cells[3], cells[4], cells[5],
                                 cells[6], cells[7], cells[8], cells[9]);
  line.erase(line.find_last_not_of(' ') + 1);
  fmt::print("{}\n", line);
}

void PrintStage(const GraphStage& stage) {
  const auto ops = [](const StageLoad& load) {
    return Short(load.cost.ops() + load.elementwise_ops);
  };
  PrintCells({std::string(stage.label), WeightText(stage),
              Short(static_cast<double>(stage.parameters)),
              Short(static_cast<double>(stage.held_bytes)), ShapeText(stage.prefill.output),
              ops(stage.prefill), ShapeText(stage.decode.output), ops(stage.decode),
              Short(stage.prefill.cost.kv_bytes), Short(stage.decode.cost.kv_bytes)});
}

std::string TitleOf(const GraphPart& part) {
  if (part.layers.empty()) return std::string(part.name);
  const LayerConfig& layer = part.layer;
  const std::string heads =
      layer.num_heads == layer.num_kv_heads
          ? fmt::format("{} heads with keys of their own", layer.num_heads)
          : fmt::format("{} query heads, {} to a key head ({} key heads)", layer.num_heads,
                        layer.num_heads / layer.num_kv_heads, layer.num_kv_heads);
  const std::string reach =
      layer.window > 0 ? fmt::format("the last {} keys", layer.window) : "all keys before it";
  return fmt::format("{} {}: {} layer{}, {}, {} elements a key, {} a value; a token attends to {}",
                     part.num_layers() == 1 ? "layer" : "layers", RangesText(part.layers),
                     part.num_layers(), part.num_layers() == 1 ? "" : "s alike", heads,
                     layer.key_dim, layer.value_dim, reach);
}

std::string KindText(const ModelGraph& graph) {
  const ModelConfig& config = graph.config;
  std::string text = config.norm == NormKind::kRms ? "RMS norms" : "layer norms";
  switch (config.norm_placement) {
    case NormPlacement::kBefore:
      text += " before each half";
      break;
    case NormPlacement::kBeforeAndAfter:
      text += " before and after each half";
      break;
    case NormPlacement::kAfterResidual:
      text += " after each residual";
      break;
  }
  text += config.learned_positions ? ", learned positions" : ", rotary positions";
  if (config.query_key_norm) text += ", normed queries and keys";
  text += config.gated_ffn ? ", gated feed-forward network" : ", plain feed-forward network";
  text +=
      graph.is_tied ? ", output layer tied to the token embedding" : ", output layer of its own";
  return text;
}

void PrintTotals(const ModelGraph& graph) {
  const auto line = [](std::string_view phase, std::string_view tokens, const StepCost& cost,
                       double elementwise) {
    fmt::print(
        "  {:<8}{:<28}{:>10} operations in products and attention, {} others; {} bytes of weights, "
        "{} of keys and values: {:.1f} operations a byte\n",
        phase, tokens, Short(cost.ops()), Short(elementwise), Short(cost.weight_bytes),
        Short(cost.kv_bytes), cost.intensity());
  };
  fmt::print("\nin all {} parameters, {} bytes in memory; {} bytes of keys and values a token\n",
             GroupDigits(graph.parameters), GroupDigits(graph.held_bytes),
             GroupDigits(static_cast<uint64_t>(graph.kv_bytes_per_token)));
  line("prefill", fmt::format("{} tokens from position 0", graph.prefill_tokens), graph.prefill,
       graph.prefill_elementwise_ops);
  line("decode", fmt::format("1 token at position {}", graph.decode_position), graph.decode,
       graph.decode_elementwise_ops);
}

void Print(const ModelGraph& graph, const std::string& source) {
  const ModelConfig& config = graph.config;
  const std::string family =
      config.architecture.empty() ? "" : fmt::format(" ({})", Printable(config.architecture));
  fmt::print("{}{}, from {}\n", Printable(config.name), family, source);
  fmt::print("{} layers of width {}, vocabulary {}, context {}; {}\n\n", config.num_layers(),
             GroupDigits(config.d_model), GroupDigits(config.vocab_size),
             GroupDigits(config.context_length), KindText(graph));
  PrintCells({"stage", "weights [out, in]", "params", "bytes", "prefill: out", "ops", "decode: out",
              "ops", "KV bytes", ""});
  PrintCells({"", "", "", "", "", "", "", "", "prefill", "decode"});
  for (const GraphPart& part : graph.parts) {
    fmt::print("{}\n", TitleOf(part));
    for (const GraphStage& stage : part.stages) PrintStage(stage);
  }
  fmt::print(
      "\nshapes are those of one layer, the figures those of all layers of a part together; bytes "
      "of keys and values are {}\n",
      NameOf(graph.kv_type));
  PrintTotals(graph);
}

Status ExplainShapes(ShapesFlags flags) {
  QUIRE_ASSIGN_OR_RETURN(FoundShape found, FindShape(flags.model));
  if (flags.weight_bits > 0) SetWeightBits(found.shape, flags.weight_bits);
  flags.graph.kv_type = *ParseKvType(flags.kv_type);
  QUIRE_ASSIGN_OR_RETURN(const ModelGraph graph, MakeModelGraph(found.shape, flags.graph));
  const std::string json = ModelGraphAsJson(graph);
  if (!flags.html.empty()) {
    QUIRE_RETURN_IF_ERROR(WriteHtmlFile(flags.html, PageData("shapes", json)));
  }
  if (flags.json) {
    fmt::print("{}\n", json);
  } else {
    Print(graph, found.source);
  }
  return {};
}

}  // namespace

void AddExplainShapes(CLI::App& verb, int& exit_code) {
  CLI::App* shapes = verb.add_subcommand(
      "shapes",
      "Every stage of the forward pass, in prefill and in decode side by side: shapes, parameters, "
      "operations, bytes; no weights are read");
  auto flags = std::make_shared<ShapesFlags>();
  shapes
      ->add_option("MODEL", flags->model,
                   "a GGUF file, a name that `quire models` lists, a config.json or a folder with "
                   "one, or a published shape such as llama-3-8b")
      ->required();
  shapes
      ->add_option("-p,--n-prompt", flags->graph.prefill_tokens,
                   "tokens of the prefill, in one step")
      ->capture_default_str();
  shapes
      ->add_option("-d,--n-depth", flags->graph.decode_position,
                   "position of the token that decode computes; -1 = right after the prefill")
      ->capture_default_str();
  std::vector<std::string> names;
  for (const KvType type : kKvTypes) names.emplace_back(NameOf(type));
  shapes->add_option("--kv-type,--kv-cache-dtype", flags->kv_type, "type of stored keys and values")
      ->check(CLI::IsMember(names))
      ->capture_default_str();
  shapes
      ->add_option("--weight-bits", flags->weight_bits,
                   "bits a parameter, in place of the file's own; 0 = as they are")
      ->check(CLI::Range(0.0, 64.0))
      ->capture_default_str();
  shapes->add_flag("--json", flags->json, "for programs");
  shapes->add_option("--html", flags->html,
                     "also write a page of it to this file: it holds all it needs");
  shapes->callback([flags, &exit_code] { exit_code = Report(ExplainShapes(*flags)); });
}

}  // namespace quire
