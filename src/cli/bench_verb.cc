// `quire bench`: how fast a model runs, alone and under load.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/bench/bench_report.h"
#include "cli/bench/limits_report.h"
#include "cli/bench/load.h"
#include "cli/bench/load_run.h"
#include "cli/bench/speed_test.h"
#include "cli/engine_flags.h"
#include "cli/interrupt.h"
#include "cli/model_path.h"
#include "cli/progress.h"
#include "cli/trace_flags.h"
#include "cli/verbs.h"
#include "kernels/kernel_set.h"
#include "plan/byte_size.h"
#include "plan/model_shape.h"

namespace quire {
namespace {

constexpr int kLoadSequences = 64;
// The load that measures what a long prompt does to an answer under way.
constexpr std::string_view kLongPrompt = "long-prompt";

struct BenchFlags {
  EngineFlags engine;
  TraceFlags trace;
  int repetitions = 3;
  uint64_t seed = 0;
  bool json = false;

  // Speed tests.
  std::vector<int> num_prompt = {512};
  std::vector<int> num_generated = {128};
  std::vector<int> depths = {0};
  std::vector<int> num_parallel = {1};

  // Beside the machine's limits; without a model the limits alone.
  bool limits = false;
  std::vector<std::string> working_sets;  // sizes with a unit; none = DefaultWorkingSets()

  // Loads.
  std::string load;
  LoadShape shape;
  LoadRunOptions run;
  std::string batching = "continuous";
  std::string allocation = "paged";
  int pool_reservations = 0;
  GapTest gap;
};

// Bytes of a pool of so many reservations, for this model and KV type.
Result<uint64_t> ReservationBytes(const BenchFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const std::filesystem::path path, ResolveModel(flags.engine.model));
  QUIRE_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
  QUIRE_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(file));
  QUIRE_ASSIGN_OR_RETURN(const EngineOptions options, EngineOptionsOf(flags.engine));
  QUIRE_ASSIGN_OR_RETURN(const KvLayout layout,
                         KvLayout::Make(KvShapesOfLayers(config), options.runner.kv_type));
  return static_cast<uint64_t>(flags.pool_reservations) * layout.num_groups() *
         BlocksFor(flags.run.reserve_tokens) * layout.block_bytes;
}

std::vector<SpeedTest> SpeedTestsOf(const BenchFlags& flags) {
  std::vector<SpeedTest> tests;
  for (const int depth : flags.depths) {
    for (const int parallel : flags.num_parallel) {
      for (const int prompt : flags.num_prompt) {
        if (prompt > 0) {
          tests.push_back({.num_prompt = prompt, .depth = depth, .num_parallel = parallel});
        }
      }
      for (const int generated : flags.num_generated) {
        if (generated > 0) {
          tests.push_back({.num_generated = generated, .depth = depth, .num_parallel = parallel});
        }
      }
    }
  }
  return tests;
}

// Rows of all tests, each repetition once through all of them; Row is {test, samples}.
template <typename Row, typename Measure>
Result<std::vector<Row>> RepeatTests(Engine& engine, const BenchFlags& flags,
                                     std::span<const int32_t> vocabulary, const Measure& measure) {
  const auto go_on = [] { return !Interrupted(); };
  ProgressLine line;
  // Memory is touched and the processor awake before anything is timed.
  QUIRE_RETURN_IF_ERROR(MeasureSpeed(engine, {.num_prompt = 64}, vocabulary, flags.seed, go_on));
  std::vector<Row> rows;
  for (const SpeedTest& test : SpeedTestsOf(flags)) rows.push_back({.test = test, .samples = {}});
  for (int repetition = 0; repetition < flags.repetitions; ++repetition) {
    for (size_t i = 0; i < rows.size(); ++i) {
      line.Show(fmt::format("repetition {} of {}, test {} of {}", repetition + 1, flags.repetitions,
                            i + 1, rows.size()));
      QUIRE_ASSIGN_OR_RETURN(
          auto sample, measure(engine, rows[i].test, vocabulary, flags.seed + repetition, go_on));
      rows[i].samples.push_back(std::move(sample));
    }
  }
  line.Clear();
  return rows;
}

Status RunSpeedTests(Engine& engine, const BenchFlags& flags, std::span<const int32_t> vocabulary) {
  const BenchSetting setting = SettingOf(engine);
  if (flags.limits) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<LimitRow> rows,
                           RepeatTests<LimitRow>(engine, flags, vocabulary, MeasureBesideLimits));
    fmt::print("{}", flags.json ? LimitsAsJson(setting, rows) : LimitsAsText(setting, rows));
    return {};
  }
  QUIRE_ASSIGN_OR_RETURN(const std::vector<SpeedRow> rows,
                         RepeatTests<SpeedRow>(engine, flags, vocabulary, MeasureSpeed));
  fmt::print("{}", flags.json ? SpeedAsJson(setting, rows) : SpeedAsText(setting, rows));
  return {};
}

Status MeasureLimitsAlone(const BenchFlags& flags) {
  std::vector<size_t> working_sets = DefaultWorkingSets();
  if (!flags.working_sets.empty()) working_sets.clear();
  for (const std::string& text : flags.working_sets) {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t bytes, ParseByteSize(text));
    if (bytes < kSmallestSet) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "--working-set {} is too small to be read by several threads; at least {}",
                       text, FormatBytes(kSmallestSet));
    }
    working_sets.push_back(bytes);
  }
  QUIRE_ASSIGN_OR_RETURN(const KernelSet* kernels, SelectKernels(flags.engine.kernels));
  const int num_threads = flags.engine.threads > 0 ? flags.engine.threads : AvailableProcessors();
  QUIRE_ASSIGN_OR_RETURN(const MachineReport report,
                         MeasureMachine(num_threads, std::string(kernels->name), working_sets,
                                        flags.repetitions, [] { return !Interrupted(); }));
  fmt::print("{}", flags.json ? MachineAsJson(report) : MachineAsText(report));
  return {};
}

Status CheckFlags(const BenchFlags& flags) {
  if (flags.engine.model.empty() && !flags.limits) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "MODEL is required: a GGUF file, or a name that `quire models` lists; only "
                     "--limits goes without");
  }
  if (flags.limits && !flags.load.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--limits goes with the speed tests (-p, -n, -d, --npl), not with --load");
  }
  if (!flags.trace.file.empty() && flags.engine.model.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "--trace needs a MODEL: nothing runs without");
  }
  if (!flags.working_sets.empty() && (!flags.limits || !flags.engine.model.empty())) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--working-set goes with --limits without a MODEL; with one its weights are "
                     "what is read");
  }
  return {};
}

void Print(Engine& engine, const BenchFlags& flags, const FigureReport& report) {
  const BenchSetting setting = SettingOf(engine);
  fmt::print("{}", flags.json ? FiguresAsJson(setting, report) : FiguresAsText(setting, report));
}

Status RunGapTest(Engine& engine, const BenchFlags& flags, std::span<const int32_t> vocabulary) {
  const auto go_on = [] { return !Interrupted(); };
  ProgressLine line;
  std::vector<std::vector<Figure>> runs;
  for (int repetition = 0; repetition < flags.repetitions; ++repetition) {
    line.Show(fmt::format("repetition {} of {}", repetition + 1, flags.repetitions));
    QUIRE_ASSIGN_OR_RETURN(const GapSample sample, MeasureGap(engine, flags.gap, vocabulary,
                                                              flags.seed + repetition, go_on));
    runs.push_back(
        {{"usual_gap_ms", "usual gap between tokens", "ms", sample.usual_gap_ms, 2},
         {"median_gap_ms", "median while the prompt is computed", "ms", sample.median_gap_ms, 2},
         {"longest_gap_ms", "longest while the prompt is computed", "ms", sample.longest_gap_ms, 2},
         {"gap_ratio", "longest over usual", "", sample.ratio(), 2},
         {"prompt_ttft_ms", "TTFT of the prompt", "ms", sample.prompt_ttft_ms, 1}});
  }
  line.Clear();
  Print(engine, flags,
        {.title = "A long prompt beside answers under way",
         .options = {{"prompt", std::to_string(flags.gap.prompt_tokens)},
                     {"decodes", std::to_string(flags.gap.num_decodes)},
                     {"max-step-ms", fmt::format("{}", flags.engine.max_step_ms)}},
         .figures = MergeRuns(runs)});
  return {};
}

Status RunLoads(Engine& engine, BenchFlags& flags, std::span<const int32_t> vocabulary) {
  LoadShape& shape = flags.shape;
  shape.kind = *ParseLoadKind(flags.load);
  shape.max_total_tokens = std::min(shape.max_total_tokens, engine.context_length());
  ProgressLine line;
  std::vector<std::vector<Figure>> runs;
  for (int repetition = 0; repetition < flags.repetitions; ++repetition) {
    shape.seed = flags.seed + repetition;
    QUIRE_ASSIGN_OR_RETURN(const std::vector<LoadRequest> load, MakeLoad(shape, vocabulary));
    const auto show = [&](const LoadProgress& progress) {
      line.Show(fmt::format("repetition {} of {}: {} of {} requests, {:.1f} tok/s", repetition + 1,
                            flags.repetitions, progress.finished, progress.total,
                            progress.tokens_per_second));
      return !Interrupted();
    };
    QUIRE_ASSIGN_OR_RETURN(const LoadRun run, RunLoad(engine, load, flags.run, show));
    runs.push_back(FiguresOf(run));
  }
  line.Clear();
  Print(engine, flags,
        {.title = "Load",
         .options = {{"load", flags.load},
                     {"num-prompts", std::to_string(shape.num_prompts)},
                     {"request-rate",
                      shape.request_rate > 0 ? fmt::format("{}", shape.request_rate) : "inf"},
                     {"max-concurrency", std::to_string(flags.run.max_concurrency)},
                     {"batching", flags.batching},
                     {"allocation", flags.allocation},
                     {"seed", std::to_string(flags.seed)}},
         .figures = MergeRuns(runs)});
  return {};
}

Status Bench(BenchFlags& flags) {
  QUIRE_RETURN_IF_ERROR(CheckFlags(flags));
  if (flags.engine.model.empty()) return MeasureLimitsAlone(flags);
  const bool has_load = !flags.load.empty();
  int sequences = has_load ? kLoadSequences : 1;
  if (!has_load) {
    for (const int parallel : flags.num_parallel) sequences = std::max(sequences, parallel);
  }
  if (flags.engine.max_sequences == 0) flags.engine.max_sequences = sequences;
  flags.run.batching = flags.batching == "static" ? Batching::kStatic : Batching::kContinuous;
  flags.run.allocation = flags.allocation == "reserve" ? Allocation::kReserve : Allocation::kPaged;
  if (flags.pool_reservations > 0) {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t bytes, ReservationBytes(flags));
    flags.engine.kv_size = std::to_string(bytes);
  }
  QUIRE_ASSIGN_OR_RETURN(const auto trace, OpenTrace(flags.trace));
  QUIRE_ASSIGN_OR_RETURN(const auto engine, MakeEngine(flags.engine, trace.get()));
  const std::vector<int32_t> vocabulary = PlainTokens(engine->model().tokenizer());
  if (vocabulary.empty()) {
    return MakeError(ErrorCode::kUnsupported, "the model's vocabulary holds no ordinary tokens");
  }
  Status status;
  if (!has_load) {
    status = RunSpeedTests(*engine, flags, vocabulary);
  } else if (flags.load == kLongPrompt) {
    status = RunGapTest(*engine, flags, vocabulary);
  } else {
    status = RunLoads(*engine, flags, vocabulary);
  }
  return EndTrace(trace.get(), std::move(status));
}

void AddSpeedFlags(CLI::App& verb, BenchFlags& flags) {
  const auto list = [&](const char* names, std::vector<int>& values, int least,
                        const char* description) {
    verb.add_option(names, values, description)
        ->delimiter(',')
        ->check(CLI::Range(least, 1 << 24))
        ->group("Speed tests (lists: 1,8,16)")
        ->capture_default_str();
  };
  list("-p,--n-prompt", flags.num_prompt, 0, "tokens of a prompt; 0 = no prefill test");
  list("-n,--n-gen", flags.num_generated, 0, "tokens decoded; 0 = no decode test");
  list("-d,--n-depth", flags.depths, 0, "tokens that each sequence has in the cache beforehand");
  list("--npl,--n-parallel", flags.num_parallel, 1, "sequences at once");
}

void AddLimitFlags(CLI::App& verb, BenchFlags& flags) {
  constexpr auto kGroup = "Limits";
  verb.add_flag("--limits", flags.limits,
                "the machine's read bandwidth by working set and its peaks of int8 and f32 "
                "arithmetic; with a MODEL the share of them that each speed test reaches, the "
                "limits measured before and after each of its runs")
      ->group(kGroup);
  verb.add_option("--working-set", flags.working_sets,
                  "sizes to read, such as 256KiB,1GiB (default: 32 KiB, twice that, ... to 1 GiB)")
      ->delimiter(',')
      ->group(kGroup);
}

void AddLoadFlags(CLI::App& verb, BenchFlags& flags) {
  const auto option = [&](const char* names, auto& value, const char* description) {
    return verb.add_option(names, value, description)->group("Loads")->capture_default_str();
  };
  constexpr int kMost = 1 << 24;
  option("--load", flags.load,
         "run a load instead of the speed tests: sharegpt (independent prompts, lengths as in "
         "ShareGPT's conversations), shared-prefix, multi-turn, or long-prompt (how long a running "
         "answer waits while a long prompt is computed)")
      ->check(CLI::IsMember({"sharegpt", "shared-prefix", "multi-turn", "long-prompt"}));
  option("--num-prompts", flags.shape.num_prompts, "requests in all, every turn counted")
      ->check(CLI::Range(1, kMost));
  option("--request-rate", flags.shape.request_rate,
         "arrivals a second, a Poisson process; 0 = all at once")
      ->check(CLI::NonNegativeNumber);
  option("--max-concurrency", flags.run.max_concurrency,
         "requests that clients have under way at most; 0 = no limit")
      ->check(CLI::NonNegativeNumber);
  option("--max-total-tokens", flags.shape.max_total_tokens,
         "of a request, prompt and output; longer ones are cut")
      ->check(CLI::Range(2, kMost));
  option("--prefix-len", flags.shape.prefix_tokens,
         "tokens that all prompts begin with (shared-prefix, multi-turn)")
      ->check(CLI::Range(0, kMost));
  option("--input-len", flags.shape.input_tokens,
         "tokens of a prompt's own tail, or that a turn adds (shared-prefix, multi-turn)")
      ->check(CLI::Range(1, kMost));
  option("--output-len", flags.shape.output_tokens,
         "tokens of an answer (shared-prefix, multi-turn)")
      ->check(CLI::Range(1, kMost));
  option("--turns", flags.shape.turns, "of a conversation (multi-turn)")
      ->check(CLI::Range(1, 1000));
  option("--long-prompt-len", flags.gap.prompt_tokens, "tokens of the prompt (long-prompt)")
      ->check(CLI::Range(1, kMost));
  option("--decodes", flags.gap.num_decodes, "answers under way (long-prompt)")
      ->check(CLI::Range(1, 1000));
}

void AddClassicFlags(CLI::App& verb, BenchFlags& flags) {
  constexpr auto kGroup = "Ways of old, to compare with (loads)";
  verb.add_option(
          "--batching", flags.batching,
          "continuous, or static: the next batch starts when the last of this one has ended")
      ->check(CLI::IsMember({"continuous", "static"}))
      ->group(kGroup)
      ->capture_default_str();
  verb.add_option("--allocation", flags.allocation,
                  "paged, or reserve: a request runs when room for its largest size is free")
      ->check(CLI::IsMember({"paged", "reserve"}))
      ->group(kGroup)
      ->capture_default_str();
  verb.add_option("--reserve-tokens", flags.run.reserve_tokens, "slots of a reservation")
      ->check(CLI::Range(1, 1 << 24))
      ->group(kGroup)
      ->capture_default_str();
  verb.add_option("--pool-reservations", flags.pool_reservations,
                  "make the pool as large as so many reservations; 0 = as --kv-size says")
      ->check(CLI::Range(0, 1 << 16))
      ->group(kGroup)
      ->capture_default_str();
}

}  // namespace

void AddBenchVerb(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("bench", "Measure speed, alone and under load");
  auto flags = std::make_shared<BenchFlags>();
  flags->engine.max_sequences = 0;
  verb->add_option("MODEL", flags->engine.model,
                   "a GGUF file, or a name that `quire models` lists; --limits goes without");
  AddComputeFlags(*verb, flags->engine);
  AddBatchingFlags(*verb, flags->engine);
  AddSpeculationFlags(*verb, flags->engine, "none");
  AddSpeedFlags(*verb, *flags);
  AddLimitFlags(*verb, *flags);
  AddLoadFlags(*verb, *flags);
  AddClassicFlags(*verb, *flags);
  verb->add_option("-r,--repetitions", flags->repetitions,
                   "runs of everything; medians are reported")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  verb->add_option("--seed", flags->seed, "of lengths, arrivals and token ids")
      ->capture_default_str();
  verb->add_flag("--json", flags->json, "for programs");
  AddTraceFlags(*verb, flags->trace);
  verb->callback([flags, &exit_code] { exit_code = Report(Bench(*flags)); });
}

}  // namespace quire
