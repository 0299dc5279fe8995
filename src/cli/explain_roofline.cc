// `quire explain roofline`: this machine's ceilings, and where the operations of prefill and decode
// sit under them, measured.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/bench/load.h"
#include "cli/engine_flags.h"
#include "cli/explain.h"
#include "cli/html_file.h"
#include "cli/interrupt.h"
#include "cli/verbs.h"
#include "formats/printable.h"
#include "plan/explain_json.h"
#include "plan/operator_run.h"
#include "plan/roofline.h"

namespace quire {
namespace {

struct RooflineFlags {
  EngineFlags engine;
  OperatorRunOptions run;
  bool json = false;
  std::string html;
};

Result<Roofline> Measure(Engine& engine, const RooflineFlags& flags) {
  const std::vector<int32_t> vocabulary = PlainTokens(engine.model().tokenizer());
  if (vocabulary.empty()) {
    return MakeError(ErrorCode::kUnsupported, "the model's vocabulary holds no ordinary tokens");
  }
  ModelRunner& runner = engine.runner();
  const ModelConfig& config = engine.model().config();
  const Weights& weights = engine.model().weights();
  const auto go_on = [] { return !Interrupted(); };
  OperatorRunOptions options = flags.run;
  options.go_on = go_on;
  options.prefill_tokens = std::min(options.prefill_tokens, engine.context_length());
  options.decode_steps = std::min(options.decode_steps, engine.context_length());
  QUIRE_ASSIGN_OR_RETURN(MachineCeilings ceilings,
                         MeasureCeilings(runner.threads(), runner.kernels().name,
                                         WeightBytes(weights), {.go_on = go_on}));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<OperatorSample> samples,
                         MeasureOperators({.config = config,
                                           .weights = weights,
                                           .kernels = runner.kernels(),
                                           .threads = runner.threads(),
                                           .cache = runner.cache(),
                                           .context_length = engine.context_length(),
                                           .vocabulary = vocabulary},
                                          options));
  return Roofline{.model = config.name,
                  .kv_type = std::string(NameOf(engine.cache().layout().type)),
                  .ceilings = std::move(ceilings),
                  .points = PointsOf(samples)};
}

std::string SizeText(uint64_t bytes) {
  return bytes >= uint64_t{1} << 20
             ? fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20))
             : fmt::format("{:.0f} KiB", static_cast<double>(bytes) / 1024);
}

void PrintCeilings(const MachineCeilings& ceilings) {
  fmt::print("this machine, {} thread{}, {} kernels, measured:\n", ceilings.num_threads,
             ceilings.num_threads == 1 ? "" : "s", ceilings.kernels);
  for (const MemoryCeiling& level : ceilings.memory) {
    const std::string what =
        level.name == "weights"
            ? fmt::format("the model's {}", SizeText(level.set_bytes))
            : fmt::format(
                  "{}{}", SizeText(level.set_bytes),
                  level.level_bytes > 0 ? fmt::format(" of {}", SizeText(level.level_bytes)) : "");
    fmt::print("  read {:<8} {:>9.1f} GB/s   {}\n", level.name, level.bytes_per_second * 1e-9,
               what);
  }
  fmt::print("  int8 products {:>9.1f} G operations a second\n",
             ceilings.peaks.int8_ops_per_second * 1e-9);
  fmt::print("  f32 products  {:>9.1f} G operations a second\n",
             ceilings.peaks.f32_ops_per_second * 1e-9);
  if (const std::string disturbance = DisturbanceOf(ceilings); !disturbance.empty()) {
    fmt::print("{}\n", disturbance);
  }
}

void PrintPoints(const Roofline& roofline) {
  const MachineLimits limits = roofline.ceilings.limits();
  fmt::print("\n{:<8}{:>7}{:>7}  {:<13}{:>11}{:>11}{:>9}{:>10}{:>10}{:>9}  {:<8}{:>10}\n", "phase",
             "depth", "tokens", "operations", "ms", "ops/byte", "G ops/s", "roof G/s", "GB/s",
             "share", "bound by", "of roof");
  double all_ms = 0;
  for (const RooflinePoint& point : roofline.points) {
    const bool is_all = point.operators == "all";
    if (is_all) all_ms = point.ms;
    const std::string place =
        is_all ? fmt::format("{:<8}{:>7}{:>7}", point.phase, point.depth, point.num_tokens)
               : fmt::format("{:<22}", "");
    const double share = all_ms > 0 ? 100 * point.ms / all_ms : 0;
    fmt::print("{}  {:<13}{:>11.3f}", place, point.operators, point.ms);
    const bool has_ops = point.cost.ops() > 0;
    const bool has_bytes = point.cost.bytes() > 0;
    fmt::print("{:>11}{:>9}{:>10}", has_ops ? fmt::format("{:.1f}", point.cost.intensity()) : "",
               has_ops ? fmt::format("{:.1f}", point.ops_per_second() * 1e-9) : "",
               has_ops ? fmt::format("{:.1f}", RoofOver(point.cost, limits) * 1e-9) : "");
    fmt::print("{:>10}{:>7.1f} %",
               has_bytes ? fmt::format("{:.1f}", point.bytes_per_second() * 1e-9) : "", share);
    if (has_ops) {
      fmt::print("  {:<8}{:>8.0f} %", BoundOf(point.cost, limits).bound_by(),
                 100 * point.fraction(limits));
    }
    fmt::print("\n");
  }
}

// The largest: there attention has something to read.
int DepthOfPlot(const Roofline& roofline) {
  int depth = 0;
  for (const RooflinePoint& point : roofline.points) depth = std::max(depth, point.depth);
  return depth;
}

void Print(const Roofline& roofline) {
  fmt::print("{}, keys and values {}\n", Printable(roofline.model), roofline.kv_type);
  PrintCeilings(roofline.ceilings);
  fmt::print(
      "above {:.1f} int8 operations a byte of weights ({:.1f} in f32) arithmetic decides; below, "
      "memory does\n",
      roofline.int8_ridge(), roofline.f32_ridge());
  if (roofline.points.empty()) return;
  PrintPoints(roofline);
  const int depth = DepthOfPlot(roofline);
  fmt::print(
      "\nat depth {}: P, F, A, O, T prefill and p, f, a, o, t decode: project, feed_forward, "
      "attend, output, all;\n/ the weights' roof, . other levels of memory, - arithmetic\n\n{}",
      depth, RooflinePlot(roofline, depth));
}

Status ExplainRoofline(const RooflineFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const auto engine, MakeEngine(flags.engine));
  QUIRE_ASSIGN_OR_RETURN(const Roofline roofline, Measure(*engine, flags));
  const std::string json = RooflineAsJson(roofline);
  if (!flags.html.empty()) {
    QUIRE_RETURN_IF_ERROR(WriteHtmlFile(flags.html, PageData("roofline", json)));
  }
  if (flags.json) {
    fmt::print("{}\n", json);
  } else {
    Print(roofline);
  }
  return {};
}

}  // namespace

void AddExplainRoofline(CLI::App& verb, int& exit_code) {
  CLI::App* subject = verb.add_subcommand(
      "roofline",
      "This machine's ceilings, for each level of memory and kind of arithmetic, and where the "
      "operations of prefill and decode sit under them, measured");
  auto flags = std::make_shared<RooflineFlags>();
  AddEngineFlags(*subject, flags->engine);
  subject
      ->add_option("-p,--n-prompt", flags->run.prefill_tokens,
                   "tokens of the prefill step that is measured; 0 = none")
      ->check(CLI::Range(0, 1 << 16))
      ->capture_default_str();
  subject
      ->add_option("-n,--n-gen", flags->run.decode_steps,
                   "decode steps that are measured, of one token each; 0 = none")
      ->check(CLI::Range(0, 1 << 16))
      ->capture_default_str();
  subject
      ->add_option("-d,--n-depth", flags->run.depths,
                   "tokens in the cache before, one or several; those that the context has no room "
                   "for are left out")
      ->delimiter(',')
      ->check(CLI::Range(0, 1 << 24))
      ->capture_default_str();
  subject->add_option("--seed", flags->run.seed, "of the tokens' ids")->capture_default_str();
  subject->add_flag("--json", flags->json, "for programs");
  subject->add_option("--html", flags->html,
                      "also write a page of it to this file: it holds all it needs");
  subject->callback([flags, &exit_code] { exit_code = Report(ExplainRoofline(*flags)); });
}

}  // namespace quire
