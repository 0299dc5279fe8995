// `quire batch`: the requests of a file, one a line, answered together.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <chrono>
#include <memory>

#include "cli/batch_run.h"
#include "cli/engine_flags.h"
#include "cli/flush_tiers.h"
#include "cli/interrupt.h"
#include "cli/model_path.h"
#include "cli/progress.h"
#include "cli/trace_flags.h"
#include "cli/verbs.h"

namespace quire {
namespace {

using Clock = std::chrono::steady_clock;

// So many answers at once are more than a processor's arithmetic needs to be busy.
constexpr int kDefaultSequences = 64;
constexpr double kNoStepLimitMs = 1e9;

struct BatchFlags {
  EngineFlags engine;
  TraceFlags trace;
  std::string file;
  std::string output;
  std::optional<int> max_tokens;
  bool retry_failed = false;
  bool json = false;
};

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// requests.jsonl -> requests.out.jsonl
std::string OutputOf(const BatchFlags& flags) {
  if (!flags.output.empty()) return flags.output;
  if (flags.file == "-") return "-";
  constexpr std::string_view kSuffix = ".jsonl";
  std::string stem = flags.file;
  if (stem.ends_with(kSuffix)) stem.resize(stem.size() - kSuffix.size());
  return stem + ".out.jsonl";
}

// Says on a terminal how far the batch is.
class BatchProgress {
 public:
  BatchProgress(const Engine& engine, const BatchInput& input)
      : engine_(engine), is_terminal_(::isatty(STDERR_FILENO) != 0) {
    if (is_terminal_) num_lines_ = input.CountLines();
  }

  void Show(const BatchSummary& summary) {
    if (!is_terminal_ || SecondsSince(last_) < 0.1) return;
    last_ = Clock::now();
    MeasureRate();
    const KvUsage usage = engine_.cache().usage();
    const double kv = static_cast<double>(usage.used_blocks) /
                      static_cast<double>(std::max<int64_t>(usage.total_blocks, 1));
    line_.Show(fmt::format("{}{} requests  {:.1f} tok/s  KV {:.0f} %  {} running, {} waiting",
                           summary.lines_done(),
                           num_lines_ ? fmt::format(" of {}", *num_lines_) : "", rate_, 100 * kv,
                           engine_.num_running(), engine_.num_waiting()));
  }
  void Clear() { line_.Clear(); }

 private:
  // Of the last seconds: what it was an hour ago says nothing.
  void MeasureRate() {
    const double seconds = SecondsSince(mark_);
    if (seconds < 2 && rate_ > 0) return;
    const int64_t tokens = engine_.counters().generated_tokens;
    if (seconds > 0) rate_ = static_cast<double>(tokens - mark_tokens_) / seconds;
    if (seconds < 2) return;
    mark_ = Clock::now();
    mark_tokens_ = tokens;
  }

  const Engine& engine_;
  bool is_terminal_;
  std::optional<int64_t> num_lines_;
  ProgressLine line_;
  Clock::time_point last_{};
  Clock::time_point mark_ = Clock::now();
  int64_t mark_tokens_ = 0;
  double rate_ = 0;
};

std::string Joined(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
  return text;
}

void PrintSummary(const BatchSummary& summary, const std::string& model, double seconds) {
  for (const std::string& error : summary.errors) fmt::print(stderr, "quire: {}\n", error);
  const int64_t more = summary.refused - static_cast<int64_t>(summary.errors.size());
  if (more > 0) fmt::print(stderr, "quire: and {} more lines; the output has them all\n", more);
  if (!summary.ignored_fields.empty()) {
    fmt::print(stderr, "quire: fields that Quire does not know were passed over: {}\n",
               Joined(summary.ignored_fields));
  }
  if (!summary.other_models.empty()) {
    fmt::print(stderr, "quire: bodies name the model {}; {} answered them all\n",
               Joined(summary.other_models), model);
  }
  std::string skipped;
  if (summary.skipped > 0) skipped += fmt::format(", {} answered before", summary.skipped);
  if (summary.skipped_refused > 0) {
    skipped += fmt::format(", {} failed before (--retry-failed tries them again)",
                           summary.skipped_refused);
  }
  fmt::print(stderr,
             "{} requests answered, {} failed{}; {} prompt tokens ({} cached), {} generated in "
             "{:.1f} s: {:.1f} tok/s\n",
             summary.answered, summary.refused, skipped, summary.prompt_tokens,
             summary.cached_tokens, summary.generated_tokens, seconds,
             seconds > 0 ? static_cast<double>(summary.generated_tokens) / seconds : 0);
}

void PrintJson(const BatchSummary& summary, const std::string& output, double seconds) {
  const boost::json::object object = {
      {"requests", summary.lines_done()},
      {"answered", summary.answered},
      {"failed", summary.refused},
      {"answered_before", summary.skipped},
      {"failed_before", summary.skipped_refused},
      {"prompt_tokens", summary.prompt_tokens},
      {"cached_tokens", summary.cached_tokens},
      {"generated_tokens", summary.generated_tokens},
      {"seconds", seconds},
      {"tokens_per_second",
       seconds > 0 ? static_cast<double>(summary.generated_tokens) / seconds : 0},
      {"interrupted", summary.was_interrupted},
      {"output", output}};
  fmt::print(output == "-" ? stderr : stdout, "{}\n", boost::json::serialize(object));
}

Status RunBatch(BatchFlags& flags) {
  const std::string output_path = OutputOf(flags);
  QUIRE_RETURN_IF_ERROR(
      CheckIsApart(flags.trace, "the input", flags.file == "-" ? "/dev/stdin" : flags.file));
  QUIRE_RETURN_IF_ERROR(
      CheckIsApart(flags.trace, "the output", output_path == "-" ? "/dev/stdout" : output_path));
  QUIRE_ASSIGN_OR_RETURN(BatchInput input, BatchInput::Open(flags.file));
  QUIRE_ASSIGN_OR_RETURN(BatchOutput output,
                         BatchOutput::Open(output_path, input, flags.retry_failed));
  // Nobody waits for the next token of an answer: prefill takes what a step can hold.
  if (flags.engine.max_step_ms == 0) flags.engine.max_step_ms = kNoStepLimitMs;
  QUIRE_ASSIGN_OR_RETURN(const auto trace, OpenTrace(flags.trace));
  QUIRE_ASSIGN_OR_RETURN(const auto engine, MakeEngine(flags.engine, trace.get()));
  const std::string model = ModelName(flags.engine.model);
  const int max_sequences = engine->scheduler_options().max_sequences;
  BatchRun run(*engine, input, output,
               {.model_name = model,
                .max_tokens = flags.max_tokens,
                .max_sequences_ahead = std::max(64, 4 * max_sequences)});
  BatchProgress progress(*engine, input);
  const Clock::time_point start = Clock::now();
  Status status = run.Run(Interrupted, [&] { progress.Show(run.summary()); });
  const double seconds = SecondsSince(start);
  progress.Clear();
  const BatchSummary& summary = run.summary();
  PrintSummary(summary, model, seconds);
  if (flags.json) PrintJson(summary, output_path, seconds);
  FlushTiers(*engine);
  QUIRE_RETURN_IF_ERROR(EndTrace(trace.get(), std::move(status)));
  if (summary.was_interrupted) {
    return MakeError(
        ErrorCode::kInterrupted, "interrupted; {}",
        output_path == "-" ? "the rest was not answered" : "the same command answers the rest");
  }
  const int64_t failed = summary.refused + summary.skipped_refused;
  if (failed == 0) return {};
  return MakeError(ErrorCode::kCorrupt, "{} of {} lines could not be answered; {} says why", failed,
                   summary.lines_done(), output_path == "-" ? "standard output" : output_path);
}

}  // namespace

void AddBatchVerb(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand(
      "batch", "Answer the requests of a file, one JSON object of the OpenAI API a line");
  auto flags = std::make_shared<BatchFlags>();
  flags->engine.max_sequences = kDefaultSequences;
  AddEngineFlags(*verb, flags->engine);
  AddBatchingFlags(*verb, flags->engine);
  AddTierFlags(*verb, flags->engine.tiers.emplace());
  AddSpeculationFlags(*verb, flags->engine, "ngram");
  verb->add_option("FILE", flags->file, "the requests; - is standard input")->required();
  verb->add_option("-o,--output", flags->output,
                   "where the results go, a line each; what is there is not answered again "
                   "(default: FILE.out.jsonl, or standard output where FILE is -)");
  verb->add_option("-n,--max-tokens", flags->max_tokens,
                   "tokens to sample at most for requests that do not say (default: 16 for a "
                   "completion; until the context is full for a chat)")
      ->check(CLI::Range(1, 1 << 30));
  verb->add_flag("--retry-failed", flags->retry_failed,
                 "try lines again that an earlier run could not answer");
  verb->add_flag("--json", flags->json, "the summary as one JSON object on standard output");
  AddTraceFlags(*verb, flags->trace);
  verb->callback([flags, &exit_code] { exit_code = Report(RunBatch(*flags)); });
}

}  // namespace quire
