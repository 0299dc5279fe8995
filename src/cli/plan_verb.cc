// `quire plan`: what a model takes in memory and what fits, by a header, a configuration or a name.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "base/thread_pool.h"
#include "cli/find_shape.h"
#include "cli/interrupt.h"
#include "cli/plan_report.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "plan/byte_size.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

struct PlanFlags {
  std::string model;
  PlanOptions options;
  std::string kv_type = "f16";
  std::string memory;
  std::string kv_memory;
  std::string weights_bytes;
  std::string overhead;
  double weight_bits = 0;
  int threads = 0;
  ConcurrencyOptions concurrency;
  BreakEvenFlags break_even;
  bool floors = false;
  bool verify = false;
  bool json = false;
};

// The context that --verify takes where none is asked for: a load of seconds.
constexpr int kUsualVerifiedContext = 1024;
// The exit code where --verify finds the plan off.
constexpr int kIsOff = 1;

Result<std::optional<uint64_t>> OptionalSize(const std::string& text) {
  if (text.empty()) return std::optional<uint64_t>();
  QUIRE_ASSIGN_OR_RETURN(const uint64_t bytes, ParseByteSize(text));
  return std::optional<uint64_t>(bytes);
}

Status SetWeights(const PlanFlags& flags, ModelShape& shape) {
  QUIRE_ASSIGN_OR_RETURN(const auto bytes, OptionalSize(flags.weights_bytes));
  if (bytes) {
    shape.weight_bytes = *bytes;
    shape.weights_from = "as given";
  } else if (flags.weight_bits > 0) {
    if (shape.parameters == 0) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "--weight-bits needs the number of parameters, which {} does not tell; "
                       "--weights-bytes gives the size itself",
                       flags.model);
    }
    SetWeightBits(shape, flags.weight_bits);
  }
  return {};
}

ConcurrencyOptions LengthsOf(const PlanFlags& flags, const PlanReport& report) {
  ConcurrencyOptions options = flags.concurrency;
  options.context_tokens = report.plan.context_tokens;
  options.prefill_chunk = report.options.prefill_chunk;
  return options;
}

Status FindWhatFits(const PlanFlags& flags, PlanReport& report) {
  QUIRE_ASSIGN_OR_RETURN(report.memory, OptionalSize(flags.memory));
  QUIRE_ASSIGN_OR_RETURN(report.kv_memory, OptionalSize(flags.kv_memory));
  if (report.memory) {
    QUIRE_ASSIGN_OR_RETURN(report.largest_context,
                           LargestContext(report.shape, report.options, *report.memory));
    QUIRE_ASSIGN_OR_RETURN(report.sequences,
                           SequencesThatFit(report.shape, report.options, *report.memory));
    QUIRE_ASSIGN_OR_RETURN(report.by_kv_type,
                           FitByKvType(report.shape, report.options, *report.memory));
  }
  std::optional<uint64_t> kv = report.kv_memory;
  if (!kv && report.memory) {
    QUIRE_ASSIGN_OR_RETURN(kv, KvBytesThatFit(report.shape, report.options, *report.memory));
  }
  if (!kv) return {};
  const auto largest = [&](KvBasis basis) {
    return report.cost.LargestContext(basis, *kv, report.options.num_sequences,
                                      report.options.prefill_chunk);
  };
  report.formula_context = largest(KvBasis::kFormula);
  report.block_context = largest(KvBasis::kBlocks);
  QUIRE_ASSIGN_OR_RETURN(report.concurrency,
                         PlanConcurrency(report.cost, *kv, LengthsOf(flags, report)));
  return {};
}

// What only a file can be asked, and a plan that speaks of something else.
Status CheckVerified(const PlanFlags& flags, const FoundShape& found) {
  if (!flags.verify && !flags.floors) return {};
  const char* flag = flags.verify ? "--verify" : "--floors";
  if (found.file.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "{} needs a GGUF file; {} is {}", flag,
                     flags.model, found.source);
  }
  if (FindKvElement(flags.kv_type)->planned_only()) {
    return MakeError(ErrorCode::kInvalidArgument, "{}: Quire does not store {}", flag,
                     flags.kv_type);
  }
  if (flags.verify && (!flags.overhead.empty() || !flags.weights_bytes.empty() ||
                       flags.weight_bits > 0 || flags.options.logits_rows > 0)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--verify compares the plan itself; leave --overhead, --weights-bytes, "
                     "--weight-bits and --logits-rows out");
  }
  return {};
}

// What takes seconds, and the machine.
Status FindWhatIsReal(const PlanFlags& flags, const fs::path& file, PlanReport& report) {
  const auto go_on = [] { return !Interrupted(); };
  if (!flags.verify) {
    if (!flags.floors) return {};
    QUIRE_ASSIGN_OR_RETURN(report.floors,
                           PredictFloors({.path = file,
                                          .kv_type = *report.options.kv_element.type,
                                          .context_tokens = report.plan.context_tokens,
                                          .prefill_chunk = report.options.prefill_chunk,
                                          .num_threads = report.options.num_threads},
                                         go_on));
    return {};
  }
  ProgressLine progress;
  EngineFlags engine;
  engine.model = flags.model;
  engine.threads = report.options.num_threads;
  engine.max_batched_tokens = report.options.prefill_chunk;
  engine.kv_type = flags.kv_type;
  QUIRE_ASSIGN_OR_RETURN(report.verify,
                         VerifyPlan({.engine = engine,
                                     .plan = report.plan,
                                     .with_floors = flags.floors,
                                     .go_on = go_on,
                                     .show = [&](std::string_view text) { progress.Show(text); }}));
  return {};
}

Result<PlanReport> MakeReport(const PlanFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(FoundShape found, FindShape(flags.model));
  QUIRE_RETURN_IF_ERROR(CheckVerified(flags, found));
  ModelShape& shape = found.shape;
  QUIRE_RETURN_IF_ERROR(SetWeights(flags, shape));
  PlanOptions options = flags.options;
  options.kv_element = *FindKvElement(flags.kv_type);
  options.num_threads = flags.threads > 0 ? flags.threads : AvailableProcessors();
  const int made_for = shape.config.context_length;
  if (flags.verify && options.context_tokens == 0) {
    options.context_tokens = std::min(kUsualVerifiedContext, made_for);
  }
  QUIRE_ASSIGN_OR_RETURN(options.overhead_bytes, OptionalSize(flags.overhead));
  QUIRE_ASSIGN_OR_RETURN(MemoryPlan plan, PlanMemory(shape, options));
  QUIRE_ASSIGN_OR_RETURN(KvCost cost, KvCost::Make(shape.config, options.kv_element));
  PlanReport report{.source = std::move(found.source),
                    .shape = std::move(shape),
                    .options = options,
                    .plan = plan,
                    .cost = std::move(cost),
                    .memory = {},
                    .kv_memory = {},
                    .by_kv_type = {},
                    .concurrency = {},
                    .lengths = flags.concurrency.lengths,
                    .shared_prefix = flags.concurrency.shared_prefix,
                    .break_even = {},
                    .floors = {},
                    .verify = {}};
  // Also where no size asks for them: what is wrong is told before anything takes its time.
  QUIRE_RETURN_IF_ERROR(CheckConcurrency(LengthsOf(flags, report)));
  QUIRE_RETURN_IF_ERROR(FindWhatIsReal(flags, found.file, report));
  QUIRE_RETURN_IF_ERROR(FindWhatFits(flags, report));
  QUIRE_ASSIGN_OR_RETURN(report.break_even,
                         FindBreakEven(flags.break_even, report.cost, report.plan.context_tokens));
  return report;
}

// The exit code.
Result<int> Plan(const PlanFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const PlanReport report, MakeReport(flags));
  fmt::print("{}", flags.json ? PlanAsJson(report) + "\n" : PlanAsText(report));
  // Said after the figures, which show where the memory goes.
  if (report.verify && !report.verify->holds()) {
    fmt::print(stderr, "quire: the plan is off: {}\n", report.verify->Faults());
    return kIsOff;
  }
  if (report.memory) {
    QUIRE_RETURN_IF_ERROR(CheckFits(report.shape, report.options, *report.memory));
  }
  return 0;
}

void AddLengthFlags(CLI::App& verb, ConcurrencyOptions& options) {
  verb.add_option("--shared-prefix", options.shared_prefix,
                  "tokens that every sequence begins with")
      ->capture_default_str();
  verb.add_option("--mean-input", options.lengths.mean_input, "mean tokens of a prompt")
      ->capture_default_str();
  verb.add_option("--mean-output", options.lengths.mean_output, "mean tokens of an answer")
      ->capture_default_str();
  verb.add_option("--sigma", options.lengths.sigma, "of the lengths' logarithms")
      ->capture_default_str();
  verb.add_option("--max-total", options.lengths.max_total, "tokens where sequences are cut")
      ->capture_default_str();
}

void AddBreakEvenFlags(CLI::App& verb, BreakEvenFlags& flags) {
  verb.add_option("--prefill-speed", flags.prefill_speeds,
                  "tokens a second that prefill computes, as `quire bench` tells; one or several; "
                  "rows for 20, 100 and 500 where none is given")
      ->delimiter(',');
  verb.add_option("--tier-bandwidth", flags.bandwidths,
                  "bytes a second that a tier is read at, as in 500MB; one or several; rows for "
                  "10MB, 100MB and 1GB where none is given")
      ->delimiter(',');
  verb.add_option("--tier-latency-ms", flags.latency_ms, "until the first byte is there, in ms")
      ->capture_default_str();
  verb.add_option("--kv-disk", flags.directory,
                  "a directory whose speed is measured, with a file of 64 MiB that is gone "
                  "afterwards");
}

}  // namespace

void AddPlanVerb(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("plan", "What a model takes in memory, and what fits");
  auto flags = std::make_shared<PlanFlags>();
  verb->add_option("MODEL", flags->model,
                   "a GGUF file, a name that `quire models` lists, a config.json or a folder with "
                   "one, or a published shape such as llama-3-8b")
      ->required();
  verb->add_option("-c,--ctx-size", flags->options.context_tokens,
                   "context in tokens, prompt and answer together; 0 = what the model was made "
                   "for, and with --verify at most 1024 of it")
      ->capture_default_str();
  verb->add_option("--parallel,--sequences,--max-num-seqs", flags->options.num_sequences,
                   "sequences at once")
      ->capture_default_str();
  std::vector<std::string> names;
  for (const KvElement& element : kKvElements) names.emplace_back(element.name);
  verb->add_option("--kv-type,--kv-cache-dtype", flags->kv_type, "type of stored keys and values")
      ->check(CLI::IsMember(names))
      ->capture_default_str();
  verb->add_option("--prefill-chunk,--max-batched-tokens,--ubatch-size",
                   flags->options.prefill_chunk, "tokens computed in one step at most")
      ->capture_default_str();
  verb->add_option("-t,--threads", flags->threads,
                   "threads that compute; 0 = all this process may use")
      ->check(CLI::Range(0, ThreadPool::kMaxThreads))
      ->capture_default_str();
  verb->add_option("--logits-rows", flags->options.logits_rows,
                   "rows of logits held at once; 0 = one a sequence")
      ->capture_default_str();
  verb->add_option("--memory", flags->memory, "memory in all, as in 8GB (8e9) or 8GiB (8 * 2^30)");
  verb->add_option("--kv-size", flags->kv_memory, "memory for keys and values alone");
  verb->add_option("--weights-bytes", flags->weights_bytes, "size of the weights, as in 15.44GB");
  verb->add_option("--weight-bits", flags->weight_bits, "bits a parameter")
      ->check(CLI::Range(0.5, 64.0));
  verb->add_option("--overhead", flags->overhead,
                   "size of everything beside weights, keys and values, in place of the estimate");
  AddLengthFlags(*verb, flags->concurrency);
  AddBreakEvenFlags(*verb, flags->break_even);
  verb->add_flag("--floors", flags->floors,
                 "measures what this machine reads and computes at best, and adds the least TTFT "
                 "and TPOT that it allows at depths of 0, 2048 and 8192 tokens, in ms; with "
                 "--verify beside what they are");
  verb->add_flag("--verify", flags->verify,
                 "loads the model, fills the context of all sequences and compares what that takes "
                 "with the plan; an item that is off by more than the larger of 5 % and 1 MiB is "
                 "named, and the exit code is 1");
  verb->add_flag("--json", flags->json, "for programs");
  verb->callback([flags, &exit_code] {
    const Result<int> code = Plan(*flags);
    exit_code = code.ok() ? *code : Report(code.error());
  });
}

}  // namespace quire
