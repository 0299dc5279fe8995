// `quire explain phases`: prefill and decode, measured, beside what arithmetic and this machine's
// measured limits say about them.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json.hpp>
#include <memory>

#include "cli/bench/load.h"
#include "cli/engine_flags.h"
#include "cli/explain.h"
#include "cli/interrupt.h"
#include "cli/verbs.h"
#include "engine/generation.h"
#include "plan/machine_limits.h"
#include "plan/step_cost.h"

namespace quire {
namespace {

struct PhasesFlags {
  EngineFlags engine;
  int num_prompt = 512;
  int num_generated = 64;
  uint64_t seed = 0;
  bool json = false;
};

// One phase of the measured run.
struct Phase {
  std::string name{};
  int tokens = 0;
  int steps = 0;
  StepCost cost{};
  double forward_ms = 0;  // of its steps
};

struct PhaseTable {
  Phase prefill{.name = "prefill"};
  Phase decode{.name = "decode"};
  double ttft_ms = 0;
  double tpot_ms = 0;
  MachineLimits limits{};
};

// Runs one request to its end; the observer adds its steps to the phases.
Status RunRequest(Engine& engine, std::vector<int32_t> prompt, int num_generated,
                  PhaseTable& table) {
  QUIRE_ASSIGN_OR_RETURN(const RequestResult result,
                         Generate(engine,
                                  {.prompt = std::move(prompt),
                                   .sampling = {.temperature = 0},
                                   .max_tokens = num_generated,
                                   .ignore_end_of_text = true},
                                  {.on_text = {}, .interrupted = Interrupted}));
  if (result.choices.empty() || result.choices.front().finish_reason == FinishReason::kAborted) {
    return MakeError(ErrorCode::kInterrupted, "interrupted");
  }
  table.ttft_ms = result.first_token_ms;
  table.tpot_ms = num_generated > 1 ? result.decode_ms / (num_generated - 1) : 0;
  return {};
}

void AddStep(const Engine& engine, const StepReport& report, int num_prompt, PhaseTable& table) {
  for (const StepItem& item : report.items) {  // one: the request runs alone
    Phase& phase = item.first_position < num_prompt ? table.prefill : table.decode;
    phase.tokens += item.num_tokens;
    phase.cost +=
        CostOfStep(engine.model().config(), engine.model().weights(), engine.cache().layout().type,
                   item.first_position, item.num_tokens, static_cast<int>(report.logits.size()));
    phase.forward_ms += report.duration_ms;
    ++phase.steps;
  }
}

Result<PhaseTable> Measure(Engine& engine, const PhasesFlags& flags) {
  const std::vector<int32_t> vocabulary = PlainTokens(engine.model().tokenizer());
  if (vocabulary.empty()) {
    return MakeError(ErrorCode::kUnsupported, "the model's vocabulary holds no ordinary tokens");
  }
  PhaseTable warm_up;
  QUIRE_RETURN_IF_ERROR(
      RunRequest(engine, RandomTokens(flags.seed, 0, 32, vocabulary), 4, warm_up));

  const std::span<const std::byte> weights = WeightBytes(engine.model().weights());
  ThreadPool& threads = engine.runner().threads();
  double read_seconds = ReadSeconds(threads, weights);
  read_seconds = std::min(read_seconds, ReadSeconds(threads, weights));
  PhaseTable table;
  engine.SetStepObserver(
      [&](const StepReport& report) { AddStep(engine, report, flags.num_prompt, table); });
  const Status ran = RunRequest(engine, RandomTokens(flags.seed, 1, flags.num_prompt, vocabulary),
                                flags.num_generated, table);
  engine.SetStepObserver({});
  QUIRE_RETURN_IF_ERROR(ran);
  read_seconds = std::min(read_seconds, ReadSeconds(threads, weights));
  const ArithmeticPeaks peaks = MeasureArithmeticPeaks(threads);
  table.limits = {.bytes_per_second = static_cast<double>(weights.size()) / read_seconds,
                  .int8_ops_per_second = peaks.int8_ops_per_second,
                  .f32_ops_per_second = peaks.f32_ops_per_second};
  return table;
}

double Reached(const Phase& phase, const MachineLimits& limits) {
  return phase.forward_ms == 0 ? 0 : BoundOf(phase.cost, limits).limit_ms() / phase.forward_ms;
}

void PrintPhase(const Phase& phase, const MachineLimits& limits) {
  if (phase.tokens == 0) return;
  const Bound bound = BoundOf(phase.cost, limits);
  const double per_token = 1.0 / phase.tokens;
  fmt::print(
      "{:<8}{:>8}{:>7}{:>12.3f}{:>13.2f}{:>9.2f}{:>12.2f}  {:<8}{:>11.2f}{:>11.2f}{:>9.0f} %\n",
      phase.name, phase.tokens, phase.steps, phase.cost.ops() * 1e-9 * per_token,
      phase.cost.weight_bytes * 1e-6 * per_token, phase.cost.kv_bytes * 1e-6 * per_token,
      phase.cost.intensity(), bound.bound_by(), bound.limit_ms() * per_token,
      phase.forward_ms * per_token, 100 * Reached(phase, limits));
}

void Print(const PhaseTable& table, const Engine& engine, int num_threads) {
  const MachineLimits& limits = table.limits;
  fmt::print("{}, {} kernels, {} thread{}\n", engine.model().config().name,
             engine.runner().kernels().name, num_threads, num_threads == 1 ? "" : "s");
  fmt::print(
      "this machine, measured: the weights are read at {:.1f} GB/s, {:.0f} G int8 operations and "
      "{:.0f} G f32 operations a second\n",
      limits.bytes_per_second * 1e-9, limits.int8_ops_per_second * 1e-9,
      limits.f32_ops_per_second * 1e-9);
  fmt::print("above {:.1f} int8 operations a byte read, arithmetic decides; below, memory does\n\n",
             limits.int8_ops_per_second / limits.bytes_per_second);
  fmt::print("{:<8}{:>8}{:>7}{:>12}{:>13}{:>9}{:>12}  {:<8}{:>11}{:>11}{:>11}\n", "phase", "tokens",
             "steps", "G ops/tok", "weights MB", "KV MB", "ops/byte", "bound by", "limit ms",
             "ms/token", "reached");
  PrintPhase(table.prefill, limits);
  PrintPhase(table.decode, limits);
  fmt::print("\nweights, KV, limit and time are for a token, on average over the phase\n");
  fmt::print(
      "TTFT {:.1f} ms ({:.1f} prompt tokens a second), TPOT {:.2f} ms ({:.1f} tokens a "
      "second)\n",
      table.ttft_ms, 1000 * table.prefill.tokens / table.ttft_ms, table.tpot_ms,
      table.tpot_ms > 0 ? 1000 / table.tpot_ms : 0);
}

boost::json::object AsJson(const Phase& phase, const MachineLimits& limits) {
  const Bound bound = BoundOf(phase.cost, limits);
  return {{"tokens", phase.tokens},
          {"steps", phase.steps},
          {"int8_ops", phase.cost.int8_ops},
          {"f32_ops", phase.cost.f32_ops},
          {"weight_bytes", phase.cost.weight_bytes},
          {"kv_bytes", phase.cost.kv_bytes},
          {"ops_per_byte", phase.cost.intensity()},
          {"bound_by", bound.bound_by()},
          {"memory_ms", bound.memory_ms},
          {"compute_ms", bound.compute_ms},
          {"measured_ms", phase.forward_ms},
          {"fraction_of_limit", Reached(phase, limits)}};
}

void PrintJson(const PhaseTable& table, const Engine& engine, int num_threads) {
  const MachineLimits& limits = table.limits;
  const boost::json::object object = {{"model", engine.model().config().name},
                                      {"kernels", engine.runner().kernels().name},
                                      {"threads", num_threads},
                                      {"limits",
                                       {{"bytes_per_second", limits.bytes_per_second},
                                        {"int8_ops_per_second", limits.int8_ops_per_second},
                                        {"f32_ops_per_second", limits.f32_ops_per_second}}},
                                      {"prefill", AsJson(table.prefill, limits)},
                                      {"decode", AsJson(table.decode, limits)},
                                      {"ttft_ms", table.ttft_ms},
                                      {"tpot_ms", table.tpot_ms}};
  fmt::print("{}\n", boost::json::serialize(object));
}

Status ExplainPhases(const PhasesFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const auto engine, MakeEngine(flags.engine));
  QUIRE_ASSIGN_OR_RETURN(const PhaseTable table, Measure(*engine, flags));
  const int num_threads = engine->runner().threads().num_threads();
  if (flags.json) {
    PrintJson(table, *engine, num_threads);
  } else {
    Print(table, *engine, num_threads);
  }
  return {};
}

}  // namespace

void AddExplainPhases(CLI::App& verb, int& exit_code) {
  CLI::App* phases = verb.add_subcommand(
      "phases",
      "Prefill and decode, measured: operations, bytes, what bounds each, and the share of this "
      "machine's limits that is reached");
  auto flags = std::make_shared<PhasesFlags>();
  AddEngineFlags(*phases, flags->engine);
  phases->add_option("-p,--n-prompt", flags->num_prompt, "tokens of the prompt")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  phases->add_option("-n,--n-gen", flags->num_generated, "tokens generated after it")
      ->check(CLI::Range(2, 1 << 24))
      ->capture_default_str();
  phases->add_option("--seed", flags->seed, "of the prompt's token ids")->capture_default_str();
  phases->add_flag("--json", flags->json, "for programs");
  phases->callback([flags, &exit_code] { exit_code = Report(ExplainPhases(*flags)); });
}

}  // namespace quire
