#include "cli/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "formats/printable.h"
#include "plan/byte_size.h"

namespace quire {
namespace {

namespace json = boost::json;

void PrintLine(std::string& out, std::string_view label, uint64_t bytes) {
  fmt::format_to(std::back_inserter(out), "  {:<30} {:>18} bytes  {}\n", label, GroupDigits(bytes),
                 FormatUnits(bytes));
}

// Layers that keep the same, and how many there are.
struct LayerKind {
  LayerConfig layer;
  int first_layer = 0;
  int num_layers = 0;
};

std::vector<LayerKind> KindsOf(const ModelConfig& config) {
  std::vector<LayerKind> kinds;
  for (int i = 0; i < config.num_layers(); ++i) {
    const LayerConfig& layer = config.layers[i];
    const auto found = std::ranges::find_if(kinds, [&](const LayerKind& kind) {
      return kind.layer.num_kv_heads == layer.num_kv_heads && kind.layer.window == layer.window &&
             kind.layer.key_dim == layer.key_dim && kind.layer.value_dim == layer.value_dim;
    });
    if (found == kinds.end()) {
      kinds.push_back({layer, i, 1});
    } else {
      ++found->num_layers;
    }
  }
  return kinds;
}

std::string WindowText(const LayerConfig& layer) {
  return layer.window > 0 ? fmt::format(", window {}", layer.window) : "";
}

// "15 with 1 key head of 256 + 256 elements, window 512; 3 with ..."
std::string LayerText(const ModelConfig& config) {
  std::string text;
  for (const LayerKind& kind : KindsOf(config)) {
    text += fmt::format("{}{} with {} key head{} of {} + {} elements{}", text.empty() ? "" : "; ",
                        kind.num_layers, kind.layer.num_kv_heads,
                        kind.layer.num_kv_heads == 1 ? "" : "s", kind.layer.key_dim,
                        kind.layer.value_dim, WindowText(kind.layer));
  }
  return text;
}

std::string Sequences(int count) {
  return fmt::format("{} sequence{}", count, count == 1 ? "" : "s");
}

void PrintKv(std::string& out, const PlanReport& report) {
  const MemoryPlan& plan = report.plan;
  const KvElement& element = report.options.kv_element;
  fmt::format_to(std::back_inserter(out), "keys and values in {}{}\n", element.name,
                 element.planned_only() ? " (planned only: Quire does not store it)" : "");
  PrintLine(out, "a token, all layers", plan.kv_bytes_per_token);
  for (const LayerKind& kind : KindsOf(report.shape.config)) {
    PrintLine(out, "a layer" + WindowText(kind.layer) + ", a sequence",
              report.cost.LayerBytes(kind.first_layer, plan.context_tokens));
  }
  PrintLine(out, "a sequence, formula", plan.kv_sequence_formula_bytes);
  PrintLine(out, "a sequence, in blocks", plan.kv_sequence_bytes);
  PrintLine(out, "a block of 16 tokens", plan.kv_bytes_per_block);
  fmt::format_to(std::back_inserter(out), "  {:<30} {:>18}        {} a sequence\n\n", "blocks",
                 GroupDigits(static_cast<uint64_t>(plan.kv_blocks)), plan.kv_blocks_per_sequence);
}

void PrintPlan(std::string& out, const PlanReport& report) {
  const MemoryPlan& plan = report.plan;
  const ModelConfig& config = report.shape.config;
  const auto end = std::back_inserter(out);
  fmt::format_to(end, "model      {}\nread from  {}\n",
                 Printable(config.name.empty() ? config.architecture : config.name),
                 Printable(report.source, 4096));
  fmt::format_to(end, "layers     {}: {}\n", config.num_layers(), LayerText(config));
  fmt::format_to(end, "planned    {} of {} tokens, steps of {} tokens, {} thread{}{}\n\n",
                 Sequences(plan.num_sequences), plan.context_tokens, report.options.prefill_chunk,
                 report.options.num_threads, report.options.num_threads == 1 ? "" : "s",
                 config.context_length > 0
                     ? fmt::format(" (the model was made for {})", config.context_length)
                     : "");
  PrintKv(out, report);
  fmt::format_to(end, "memory\n");
  for (const MemoryLine& line : plan.Lines()) PrintLine(out, line.label, line.bytes);
  PrintLine(out, "total", plan.total_bytes());
  PrintLine(out, "total, formula", plan.total_formula_bytes());
  fmt::format_to(end, "  weights: {}\n",
                 report.shape.weight_bytes == 0
                     ? "NOT COUNTED, their size is not known; --weights-bytes or --weight-bits "
                       "give it"
                     : report.shape.weights_from);
}

void PrintConcurrency(std::string& out, const PlanReport& report) {
  const auto end = std::back_inserter(out);
  const Concurrency& there = *report.concurrency;
  const LengthDistribution& lengths = report.lengths;
  fmt::format_to(end, "\nsequences at once, in {} for keys and values\n",
                 FormatBytes(there.kv_bytes));
  fmt::format_to(
      end,
      "  worst case, each reserves {} tokens: {} whole requests at full length (ratio {:.2f}); "
      "more if they are shorter\n",
      report.plan.context_tokens, there.worst_case, there.worst_case_ratio);
  fmt::format_to(
      end,
      "  expected, paged: {} on average, {} with room for the usual swings; a live sequence "
      "holds {:.0f} tokens\n",
      there.expected, there.expected_steady, there.live.mean_tokens);
  if (report.shared_prefix > 0) {
    fmt::format_to(
        end,
        "  with a prefix of {} tokens before every prompt, held once ({} bytes): worst case {}, "
        "expected {} on average, {} with room\n",
        report.shared_prefix, GroupDigits(there.prefix_bytes), there.worst_case_shared,
        there.expected_shared, there.expected_steady_shared);
  }
  fmt::format_to(end, "  lengths: lognormal, mean {} in and {} out, sigma {}, at most {} in all\n",
                 lengths.mean_input, lengths.mean_output, lengths.sigma, lengths.max_total);
}

// What a type does to what it stores.
std::string_view NoteOf(const KvElement& element) {
  if (element.planned_only()) return "planned only: Quire does not store it";
  switch (*element.type) {
    case KvType::kF16:
      return "11 bits of an element, the default";
    case KvType::kBF16:
      return "8 bits of an element, of any size";
    case KvType::kF32:
      return "as it is computed; for tests";
    case KvType::kQ8_0:
      return "8 bits of an element, a scale for 32";
  }
  return "";
}

void PrintByKvType(std::string& out, const PlanReport& report) {
  const auto end = std::back_inserter(out);
  fmt::format_to(end, "  by the type of keys and values\n  {:<8}{:>16}{:>18}{:>22}\n", "",
                 "bytes a token", "largest context", "whole sequences");
  for (const KvTypeFit& fit : report.by_kv_type) {
    fmt::format_to(end, "    {:<6}{:>16}{:>18}{:>22}  {}\n", fit.element.name,
                   GroupDigits(fit.kv_bytes_per_token),
                   GroupDigits(static_cast<uint64_t>(fit.largest_context)),
                   GroupDigits(static_cast<uint64_t>(fit.sequences)), NoteOf(fit.element));
  }
}

void PrintWhatFits(std::string& out, const PlanReport& report) {
  const auto end = std::back_inserter(out);
  const int num_sequences = report.options.num_sequences;
  if (report.memory) {
    fmt::format_to(end, "\nwhat fits into {} in all\n", FormatBytes(*report.memory));
    fmt::format_to(end, "  largest context of {}: {} tokens\n", Sequences(num_sequences),
                   report.largest_context);
    fmt::format_to(end, "  whole sequences of {} tokens: {}\n", report.plan.context_tokens,
                   report.sequences);
    PrintByKvType(out, report);
  }
  if (!report.concurrency) return;
  if (report.kv_memory) {
    fmt::format_to(end, "\nwhat fits into {} for keys and values\n",
                   FormatBytes(*report.kv_memory));
    fmt::format_to(end, "  largest context of {}: {} tokens by the formula, {} in blocks\n",
                   Sequences(num_sequences), report.formula_context, report.block_context);
  }
  PrintConcurrency(out, report);
}

json::array ByKvTypeJson(const PlanReport& report) {
  json::array types;
  for (const KvTypeFit& fit : report.by_kv_type) {
    types.push_back(json::object{{"type", std::string(fit.element.name)},
                                 {"planned_only", fit.element.planned_only()},
                                 {"bytes_per_token", fit.kv_bytes_per_token},
                                 {"largest_context", fit.largest_context},
                                 {"sequences", fit.sequences}});
  }
  return types;
}

json::object PrefillJson(const BreakEven::Computing& computing) {
  json::array pairs;
  for (const BreakEven::Pair& pair : computing.pairs) {
    json::array bandwidths;
    for (const double bytes_per_ms : pair.bytes_per_ms) {
      // null: the latency alone takes longer.
      bandwidths.push_back(std::isfinite(bytes_per_ms) ? json::value(bytes_per_ms * 1000)
                                                       : json::value());
    }
    pairs.push_back(json::object{
        {"loads_from_tokens",
         pair.loads_from_tokens < 0 ? json::value() : json::value(pair.loads_from_tokens)},
        {"break_even_bytes_per_second", std::move(bandwidths)}});
  }
  return {{"tokens_per_second", 1000 / computing.cost.token_ms},
          {"compute_ms", json::value_from(computing.ms)},
          {"tiers", std::move(pairs)}};
}

json::object BreakEvenJson(const BreakEvenReport& report) {
  const BreakEven& table = report.table;
  json::array tiers;
  for (const BreakEven::Loading& loading : table.loading) {
    tiers.push_back(json::object{{"bytes_per_second", loading.speed.bytes_per_ms * 1000},
                                 {"latency_ms", loading.speed.latency_ms},
                                 {"measured_in", json::value()},
                                 {"load_ms", json::value_from(loading.ms)}});
  }
  if (!report.measured.empty()) tiers.back().as_object()["measured_in"] = report.measured;
  json::array prefills;
  for (const BreakEven::Computing& computing : table.computing) {
    prefills.push_back(PrefillJson(computing));
  }
  return {{"prefix_tokens", json::value_from(table.lengths)},
          {"prefix_bytes", json::value_from(table.bytes)},
          {"tiers", std::move(tiers)},
          {"prefill", std::move(prefills)}};
}

json::object LiveJson(const LiveSequence& live) {
  return {{"mean_tokens", live.mean_tokens},
          {"mean_bytes", live.mean_bytes},
          {"deviation_bytes", live.deviation_bytes}};
}

json::object ConcurrencyJson(const PlanReport& report) {
  const Concurrency& there = *report.concurrency;
  json::object object{{"kv_bytes", there.kv_bytes},
                      {"largest_context_formula", report.formula_context},
                      {"largest_context_blocks", report.block_context},
                      {"worst_case_ratio", there.worst_case_ratio},
                      {"worst_case", there.worst_case},
                      {"expected", there.expected},
                      {"expected_steady", there.expected_steady},
                      {"live", LiveJson(there.live)},
                      {"mean_input", report.lengths.mean_input},
                      {"mean_output", report.lengths.mean_output},
                      {"sigma", report.lengths.sigma},
                      {"max_total", report.lengths.max_total}};
  if (report.shared_prefix > 0) {
    object["shared_prefix"] = json::object{{"tokens", report.shared_prefix},
                                           {"bytes", there.prefix_bytes},
                                           {"worst_case", there.worst_case_shared},
                                           {"expected", there.expected_shared},
                                           {"expected_steady", there.expected_steady_shared},
                                           {"live", LiveJson(there.live_shared)}};
  }
  return object;
}

}  // namespace

std::string PlanAsText(const PlanReport& report) {
  std::string out;
  PrintPlan(out, report);
  PrintWhatFits(out, report);
  out += BreakEvenAsText(report.break_even);
  if (report.floors) out += FloorsAsText(*report.floors);
  if (report.verify) out += VerifyAsText(*report.verify);
  return out;
}

std::string PlanAsJson(const PlanReport& report) {
  const MemoryPlan& plan = report.plan;
  json::array layers;
  for (int i = 0; i < report.shape.config.num_layers(); ++i) {
    const LayerConfig& layer = report.shape.config.layers[i];
    layers.push_back(json::object{{"num_kv_heads", layer.num_kv_heads},
                                  {"key_dim", layer.key_dim},
                                  {"value_dim", layer.value_dim},
                                  {"window", layer.window},
                                  {"kv_bytes", report.cost.LayerBytes(i, plan.context_tokens)}});
  }
  json::object memory;
  for (const MemoryLine& line : plan.Lines()) {
    memory[fmt::format("{}_bytes", line.name)] = line.bytes;
  }
  memory["total_bytes"] = plan.total_bytes();
  memory["total_formula_bytes"] = plan.total_formula_bytes();
  json::object kv{{"type", std::string(report.options.kv_element.name)},
                  {"planned_only", report.options.kv_element.planned_only()},
                  {"bytes_per_token", plan.kv_bytes_per_token},
                  {"bytes_per_block", plan.kv_bytes_per_block},
                  {"blocks_per_sequence", plan.kv_blocks_per_sequence},
                  {"blocks", plan.kv_blocks},
                  {"sequence_formula_bytes", plan.kv_sequence_formula_bytes},
                  {"sequence_bytes", plan.kv_sequence_bytes},
                  {"formula_bytes", plan.kv_formula_bytes},
                  {"bytes", plan.kv_bytes}};
  json::object object{{"model", report.shape.config.name},
                      {"source", report.source},
                      {"architecture", report.shape.config.architecture},
                      {"parameters", report.shape.parameters},
                      {"weights_known", report.shape.weight_bytes > 0},
                      {"model_context", report.shape.config.context_length},
                      {"context", plan.context_tokens},
                      {"sequences", plan.num_sequences},
                      {"prefill_chunk", report.options.prefill_chunk},
                      {"threads", report.options.num_threads},
                      {"layers", std::move(layers)},
                      {"kv", std::move(kv)},
                      {"memory", std::move(memory)}};
  if (report.memory) {
    object["fits"] = json::object{{"memory_bytes", *report.memory},
                                  {"largest_context", report.largest_context},
                                  {"sequences", report.sequences},
                                  {"kv_types", ByKvTypeJson(report)}};
  }
  if (report.concurrency) object["concurrency"] = ConcurrencyJson(report);
  object["break_even"] = BreakEvenJson(report.break_even);
  if (report.floors) object["floors"] = json::parse(FloorsAsJson(*report.floors));
  if (report.verify) {
    object["verify"] = json::parse(VerifyAsJson(*report.verify));
    if (const auto& floors = report.verify->floors) {
      object["floors"] = json::parse(FloorsAsJson(*floors));
    }
  }
  return json::serialize(object);
}

}  // namespace quire
