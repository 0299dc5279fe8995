// `quire explain growth`: keys and values over tokens, by the formula, in blocks, and measured.
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
#include "plan/byte_size.h"
#include "plan/explain_json.h"
#include "plan/kv_growth.h"

namespace quire {
namespace {

struct GrowthFlags {
  EngineFlags engine;
  GrowthOptions growth;
  int num_prompt = 512;
  int num_generated = 32;
  uint64_t seed = 0;
  bool json = false;
  std::string html;
};

// Runs one request; every step adds a point.
Status Run(Engine& engine, const GrowthFlags& flags, std::vector<GrowthPoint>& points) {
  const std::vector<int32_t> vocabulary = PlainTokens(engine.model().tokenizer());
  if (vocabulary.empty()) {
    return MakeError(ErrorCode::kUnsupported, "the model's vocabulary holds no ordinary tokens");
  }
  RequestResult result;
  bool has_ended = false;
  const RequestHooks hooks{.on_piece = {}, .on_finish = [&](RequestResult ended) {
                             result = std::move(ended);
                             has_ended = true;
                           }};
  engine.SetStepObserver([&](const StepReport& report) {
    const KvUsage usage = engine.cache().usage();
    for (const StepItem& item : report.items) {  // one: the request runs alone
      points.push_back(MakeGrowthPoint(engine.cache().layout(),
                                       item.first_position + item.num_tokens, usage.used_blocks,
                                       usage.committed_bytes));
    }
  });
  const Result<RequestId> id =
      engine.Submit({.prompt = RandomTokens(flags.seed, 0, flags.num_prompt, vocabulary),
                     .sampling = {.temperature = 0},
                     .max_tokens = flags.num_generated,
                     .ignore_end_of_text = true},
                    hooks);
  while (id.ok() && !has_ended && engine.Step()) {
    if (Interrupted()) engine.Abort(*id);
  }
  engine.SetStepObserver({});
  if (!id.ok()) return id.error();
  QUIRE_RETURN_IF_ERROR(result.status);
  if (Interrupted()) return MakeError(ErrorCode::kInterrupted, "interrupted");
  return {};
}

void PrintFormula(const KvGrowth& growth) {
  fmt::print("a token takes, in {}:\n", growth.kv_type);
  for (const GrowthTerm& term : growth.terms) {
    const std::string window =
        term.window > 0 ? fmt::format(", of the last {} tokens alone", term.window) : "";
    fmt::print("  {:>3} layer{} x {} key head{} x ({} + {}) elements = {} bytes{}\n",
               term.num_layers, term.num_layers == 1 ? " " : "s", term.num_kv_heads,
               term.num_kv_heads == 1 ? "" : "s", term.key_dim, term.value_dim,
               GroupDigits(term.bytes_per_token), window);
  }
  fmt::print("  together {} bytes; blocks of {} tokens in {} group{}, {} bytes each\n",
             GroupDigits(growth.bytes_per_token), growth.block_slots, growth.num_groups,
             growth.num_groups == 1 ? "" : "s", GroupDigits(growth.block_bytes));
}

std::string MiB(uint64_t bytes) {
  return fmt::format("{:.2f}", static_cast<double>(bytes) / (1 << 20));
}

// Some of the tokens of the curves: rows that fit on a screen.
std::vector<size_t> RowsToPrint(size_t num_points) {
  constexpr size_t kRows = 9;
  std::vector<size_t> rows;
  for (size_t i = 0; i < kRows; ++i) {
    const size_t row = (num_points - 1) * i / (kRows - 1);
    if (rows.empty() || row > rows.back()) rows.push_back(row);
  }
  return rows;
}

void PrintCurves(const KvGrowth& growth) {
  fmt::print("\nMiB of one sequence:\n{:>9}", "tokens");
  for (const GrowthSeries& series : growth.series) fmt::print(" {:>12}", series.name);
  fmt::print("\n");
  for (const size_t row : RowsToPrint(growth.tokens.size())) {
    fmt::print("{:>9}", GroupDigits(growth.tokens[row]));
    for (const GrowthSeries& series : growth.series) fmt::print(" {:>12}", MiB(series.bytes[row]));
    fmt::print("\n");
  }
  for (const GrowthSeries& series : growth.series) {
    fmt::print("  {:<12} {}\n", series.name, series.label);
  }
}

// The first and last points and some between.
void PrintMeasured(const KvGrowth& growth) {
  if (growth.measured.empty()) return;
  fmt::print("\na real run, step by step:\n{:>9}{:>12}{:>12}{:>14}{:>14}{:>14}\n", "tokens",
             "blocks", "expected", "MiB used", "MiB formula", "MiB given");
  for (const size_t row : RowsToPrint(growth.measured.size())) {
    const GrowthPoint& point = growth.measured[row];
    fmt::print("{:>9}{:>12}{:>12}{:>14}{:>14}{:>14}\n", GroupDigits(point.tokens),
               point.used_blocks, point.expected_blocks, MiB(point.used_bytes),
               MiB(point.formula_bytes), MiB(point.committed_bytes));
  }
  const auto off = std::ranges::count_if(growth.measured, [](const GrowthPoint& point) {
    return point.used_blocks != point.expected_blocks;
  });
  fmt::print("{} of {} steps used another number of blocks than expected\n", off,
             growth.measured.size());
}

Status ExplainGrowth(GrowthFlags flags) {
  QUIRE_ASSIGN_OR_RETURN(const auto engine, MakeEngine(flags.engine));
  flags.growth.chunk = flags.engine.max_batched_tokens;
  if (flags.growth.max_tokens == 0) flags.growth.max_tokens = engine->context_length();
  QUIRE_ASSIGN_OR_RETURN(KvGrowth growth,
                         MakeKvGrowth(engine->model().config(),
                                      KvElementOf(engine->cache().layout().type), flags.growth));
  if (flags.num_generated > 0) {
    flags.num_prompt = std::min(flags.num_prompt, engine->context_length() - 1);
    QUIRE_RETURN_IF_ERROR(Run(*engine, flags, growth.measured));
  }
  const std::string json = KvGrowthAsJson(growth);
  if (!flags.html.empty()) {
    QUIRE_RETURN_IF_ERROR(WriteHtmlFile(flags.html, PageData("growth", json)));
  }
  if (flags.json) {
    fmt::print("{}\n", json);
    return {};
  }
  fmt::print("{}\n", Printable(growth.model));
  PrintFormula(growth);
  PrintCurves(growth);
  PrintMeasured(growth);
  return {};
}

}  // namespace

void AddExplainGrowth(CLI::App& verb, int& exit_code) {
  CLI::App* subject = verb.add_subcommand(
      "growth",
      "Bytes of keys and values over tokens: the formula, in blocks, and measured on a real run; "
      "other numbers of key heads, windows and types beside it");
  auto flags = std::make_shared<GrowthFlags>();
  AddEngineFlags(*subject, flags->engine);
  subject
      ->add_option("-p,--n-prompt", flags->num_prompt,
                   "tokens of the run's prompt; cut to what the context holds")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  subject->add_option("-n,--n-gen", flags->num_generated, "tokens generated after it; 0 = no run")
      ->check(CLI::Range(0, 1 << 24))
      ->capture_default_str();
  subject
      ->add_option("--max-tokens", flags->growth.max_tokens,
                   "where the curves end; 0 = the context")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  subject->add_option("--points", flags->growth.num_points, "of a curve")
      ->check(CLI::Range(2, 1 << 12))
      ->capture_default_str();
  subject
      ->add_option("--window", flags->growth.window,
                   "tokens of the curve of a window, for models without; 0 = none")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  subject->add_option("--seed", flags->seed, "of the prompt's token ids")->capture_default_str();
  subject->add_flag("--json", flags->json, "for programs");
  subject->add_option("--html", flags->html,
                      "also write a page of it to this file: it holds all it needs");
  subject->callback([flags, &exit_code] { exit_code = Report(ExplainGrowth(*flags)); });
}

}  // namespace quire
