// `quire plan`: what a model takes in memory and what fits, by a header, a configuration or a name.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/thread_pool.h"
#include "cli/catalogue.h"
#include "cli/model_path.h"
#include "cli/plan_report.h"
#include "cli/verbs.h"
#include "formats/gguf.h"
#include "plan/byte_size.h"
#include "plan/presets.h"

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
  bool json = false;
};

// A shape and where it comes from.
struct FoundShape {
  ModelShape shape;
  std::string source;
};

Result<FoundShape> ShapeOfConfig(const fs::path& path) {
  QUIRE_ASSIGN_OR_RETURN(const HfConfig config, ReadHfConfig(path));
  return FoundShape{ShapeOfHfConfig(config, path.string()), path.string()};
}

bool IsConfig(const fs::path& path) {
  std::error_code error;
  return path.extension() == ".json" ||
         (fs::is_directory(path, error) && fs::exists(path / "config.json", error));
}

// A file comes before a published shape of the same name: it says what its weights take.
Result<FoundShape> FindShape(const std::string& model) {
  if (IsConfig(model)) return ShapeOfConfig(model);
  const Result<fs::path> path = ResolveModel(model);
  if (!path.ok()) {
    if (auto preset = FindPreset(model)) {
      return FoundShape{*std::move(preset), "the published shape of this name; no file was read"};
    }
    if (path.error().code == ErrorCode::kNotFound && FindInCatalogue(model) == nullptr) {
      return MakeError(ErrorCode::kNotFound, "{}; known shapes: {}", path.error().message,
                       fmt::join(PresetNames(), ", "));
    }
    return path.error();
  }
  QUIRE_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(*path));
  QUIRE_ASSIGN_OR_RETURN(ModelShape shape, ShapeOfFile(file));
  return FoundShape{std::move(shape), path->string()};
}

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

Status FindWhatFits(const PlanFlags& flags, PlanReport& report) {
  QUIRE_ASSIGN_OR_RETURN(report.memory, OptionalSize(flags.memory));
  QUIRE_ASSIGN_OR_RETURN(report.kv_memory, OptionalSize(flags.kv_memory));
  if (report.memory) {
    QUIRE_ASSIGN_OR_RETURN(report.largest_context,
                           LargestContext(report.shape, report.options, *report.memory));
    QUIRE_ASSIGN_OR_RETURN(report.sequences,
                           SequencesThatFit(report.shape, report.options, *report.memory));
  }
  std::optional<uint64_t> kv = report.kv_memory;
  if (!kv && report.memory) {
    const uint64_t others = report.plan.bytes_without_kv();
    kv = *report.memory - std::min(*report.memory, others);
  }
  if (!kv) return {};
  const auto largest = [&](KvBasis basis) {
    return report.cost.LargestContext(basis, *kv, report.options.num_sequences,
                                      report.options.prefill_chunk);
  };
  report.formula_context = largest(KvBasis::kFormula);
  report.block_context = largest(KvBasis::kBlocks);
  ConcurrencyOptions options = flags.concurrency;
  options.context_tokens = report.plan.context_tokens;
  options.prefill_chunk = report.options.prefill_chunk;
  QUIRE_ASSIGN_OR_RETURN(report.concurrency, PlanConcurrency(report.cost, *kv, options));
  return {};
}

Result<PlanReport> MakeReport(const PlanFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(FoundShape found, FindShape(flags.model));
  ModelShape& shape = found.shape;
  QUIRE_RETURN_IF_ERROR(SetWeights(flags, shape));
  PlanOptions options = flags.options;
  options.kv_element = *FindKvElement(flags.kv_type);
  options.num_threads = flags.threads > 0 ? flags.threads : AvailableProcessors();
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
                    .concurrency = {},
                    .lengths = flags.concurrency.lengths,
                    .shared_prefix = flags.concurrency.shared_prefix,
                    .break_even = {}};
  QUIRE_RETURN_IF_ERROR(FindWhatFits(flags, report));
  QUIRE_ASSIGN_OR_RETURN(report.break_even,
                         FindBreakEven(flags.break_even, report.cost, report.plan.context_tokens));
  return report;
}

Status Plan(const PlanFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const PlanReport report, MakeReport(flags));
  fmt::print("{}", flags.json ? PlanAsJson(report) + "\n" : PlanAsText(report));
  // Said after the figures, which show where the memory goes.
  if (report.memory) return CheckFits(report.shape, report.options, *report.memory);
  return {};
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
                   "context in tokens, prompt and answer together; 0 = what the model was made for")
      ->capture_default_str();
  verb->add_option("--parallel,--max-num-seqs", flags->options.num_sequences, "sequences at once")
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
  verb->add_flag("--json", flags->json, "for programs");
  verb->callback([flags, &exit_code] { exit_code = Report(Plan(*flags)); });
}

}  // namespace quire
