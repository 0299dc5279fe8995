// `quire cache warm`: computes the prompts of a file ahead of time, and stores them.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <memory>

#include "cli/batch_input.h"
#include "cli/batch_record.h"
#include "cli/cache/cache_verbs.h"
#include "cli/cache/store_flags.h"
#include "cli/engine_flags.h"
#include "cli/flush_tiers.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "engine/generation.h"
#include "formats/printable.h"
#include "server/openai/prompts.h"

namespace quire {
namespace {

struct WarmFlags {
  EngineFlags engine;
  std::string file;
  bool json = false;
};

struct WarmSummary {
  int64_t prompts = 0;
  int64_t refused = 0;
  int64_t prompt_tokens = 0;
  CachedTokens found{};

  int64_t computed() const { return prompt_tokens - found.sum(); }
};

// A line of text is a prompt as it is; one that begins with { is a body of the OpenAI API, as in
// `quire batch`.
std::variant<std::vector<EngineRequest>, ApiError> PromptsOf(const BatchLine& line,
                                                             Engine& engine) {
  if (line.is_too_long) {
    return ApiError{.message = fmt::format("longer than {} bytes", BatchInput::kMaxLineBytes)};
  }
  const size_t first = line.text.find_first_not_of(" \t");
  if (first == std::string::npos || line.text[first] != '{') {
    OpenAiRequest body;
    body.endpoint = OpenAiEndpoint::kCompletions;
    body.prompts.emplace_back(line.text);
    return EngineRequestsOf(body, PromptSourceOf(engine));
  }
  OpenAiLimits limits;
  limits.max_body_bytes = BatchInput::kMaxLineBytes;
  limits.vocab_size = engine.vocab_size();
  auto parsed = ParseBatchLine(line.text, line.number, limits);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  auto& request = std::get<BatchRequest>(parsed);
  if (auto* error = std::get_if<ApiError>(&request.body)) return std::move(*error);
  return EngineRequestsOf(std::get<OpenAiRequest>(request.body), PromptSourceOf(engine));
}

// Reads, computes and stores, a prompt after another: of many that begin alike, each finds what the
// last has left.
class WarmRun {
 public:
  explicit WarmRun(Engine& engine) : engine_(engine) {}

  Status Run(BatchInput& input) {
    ProgressLine progress;
    while (!Interrupted()) {
      BatchLine line;
      QUIRE_ASSIGN_OR_RETURN(const LineState state, input.Next(line, /*may_wait=*/true));
      if (state == LineState::kEnd) break;
      if (state != LineState::kLine) continue;
      progress.Show(
          fmt::format("{} prompts, {} tokens computed", summary_.prompts, summary_.computed()));
      auto prompts = PromptsOf(line, engine_);
      if (const auto* error = std::get_if<ApiError>(&prompts)) {
        progress.Clear();
        Refuse(line.number, error->message);
        continue;
      }
      for (EngineRequest& prompt : std::get<std::vector<EngineRequest>>(prompts)) {
        Compute(prompt.request, line.number);
      }
    }
    return {};
  }

  const WarmSummary& summary() const { return summary_; }

 private:
  void Refuse(int64_t line, const std::string& why) {
    ++summary_.refused;
    fmt::print(stderr, "quire: line {}: {}\n", line, Printable(why, 400));
  }

  // What goes out of memory is dropped where it comes faster than it can be stored, so that what
  // has been computed is stored before memory is full.
  void MakeRoom(size_t num_tokens) {
    const auto& cache = engine_.cache();
    const int64_t room = cache.usage().total_blocks * kBlockSlots / 2 / cache.layout().num_groups();
    if (unstored_tokens_ + static_cast<int64_t>(num_tokens) < room) return;
    unstored_tokens_ = 0;
    engine_.FlushTiers();
  }

  void Compute(const Request& wanted, int64_t line) {
    Request request;
    request.prompt = wanted.prompt;
    request.cache_salt = wanted.cache_salt;
    request.max_tokens = 1;
    MakeRoom(request.prompt.size());
    const auto result = Generate(engine_, std::move(request), {.interrupted = Interrupted});
    if (!result.ok()) {
      return Refuse(line, result.error().message);
    }
    if (result->choices[0].finish_reason == FinishReason::kAborted) return;
    ++summary_.prompts;
    summary_.prompt_tokens += result->prompt_tokens;
    summary_.found.memory += result->cached_by_tier.memory;
    summary_.found.disk += result->cached_by_tier.disk;
    summary_.found.remote += result->cached_by_tier.remote;
    unstored_tokens_ += result->prompt_tokens - result->cached_tokens;
  }

  Engine& engine_;
  WarmSummary summary_;
  int64_t unstored_tokens_ = 0;
};

void PrintSummary(const WarmSummary& summary, bool json) {
  if (!json) {
    fmt::print(
        "{} prompts, {} tokens: {} computed, {} found on disk, {} remote, {} in memory; "
        "{} lines refused\n",
        summary.prompts, summary.prompt_tokens, summary.computed(), summary.found.disk,
        summary.found.remote, summary.found.memory, summary.refused);
    return;
  }
  const boost::json::object result = {{"prompts", summary.prompts},
                                      {"tokens", summary.prompt_tokens},
                                      {"computed", summary.computed()},
                                      {"found",
                                       {{"memory", summary.found.memory},
                                        {"disk", summary.found.disk},
                                        {"remote", summary.found.remote}}},
                                      {"refused", summary.refused}};
  fmt::print("{}\n", boost::json::serialize(result));
}

Status Warm(WarmFlags& flags) {
  TierFlags& tiers = *flags.engine.tiers;
  if (tiers.disk.empty() && !tiers.redis) {
    QUIRE_ASSIGN_OR_RETURN(const std::filesystem::path directory, StoreDirectory({}));
    tiers.disk = directory.string();
  }
  if (tiers.disk_read_only) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "cache warm: --kv-disk-read-only leaves nothing to do");
  }
  QUIRE_ASSIGN_OR_RETURN(BatchInput input, BatchInput::Open(flags.file));
  QUIRE_ASSIGN_OR_RETURN(const auto engine, MakeEngine(flags.engine));
  WarmRun run(*engine);
  const Status status = run.Run(input);
  const int64_t num_left = FlushTiers(*engine);
  PrintSummary(run.summary(), flags.json);
  QUIRE_RETURN_IF_ERROR(status);
  if (Interrupted()) return MakeError(ErrorCode::kInterrupted, "interrupted");
  if (num_left > 0) {
    return MakeError(ErrorCode::kResourceExhausted, "{} blocks found no room", num_left);
  }
  if (run.summary().refused == 0) return {};
  return MakeError(ErrorCode::kCorrupt, "{} lines were refused", run.summary().refused);
}

}  // namespace

void AddCacheWarmVerb(CLI::App& cache, int& exit_code) {
  CLI::App* verb =
      cache.add_subcommand("warm", "Compute the prompts of a file ahead of time, and store them");
  auto flags = std::make_shared<WarmFlags>();
  verb->add_option("FILE", flags->file,
                   "a prompt a line, or a JSON object with `prompt` or `messages` as in `quire "
                   "batch`; - is standard input")
      ->required();
  verb->add_option("--model", flags->engine.model,
                   "the model: a GGUF file, or a name that `quire models` lists")
      ->required();
  AddComputeFlags(*verb, flags->engine);
  AddTierFlags(*verb, flags->engine.tiers.emplace());
  verb->get_option("--kv-disk")
      ->description(
          "the directory that keeps them (default: kv in the cache directory, "
          "QUIRE_CACHE or ~/.cache/quire, unless --kv-redis is given)");
  verb->add_flag("--json", flags->json, "one JSON object on standard output");
  verb->callback([flags, &exit_code] { exit_code = Report(Warm(*flags)); });
}

}  // namespace quire
