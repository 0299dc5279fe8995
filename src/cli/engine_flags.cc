#include "cli/engine_flags.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "cli/interrupt.h"
#include "cli/model_path.h"
#include "cli/progress.h"
#include "plan/byte_size.h"

namespace quire {

void AddEngineFlags(CLI::App& app, EngineFlags& flags) {
  app.add_option("MODEL", flags.model, "a GGUF file, or a name that `quire models` lists")
      ->required();
  AddComputeFlags(app, flags);
}

void AddComputeFlags(CLI::App& app, EngineFlags& flags) {
  app.add_option("-t,--threads", flags.threads,
                 "threads that compute; 0 = all this process may use")
      ->check(CLI::Range(0, ThreadPool::kMaxThreads))
      ->capture_default_str();
  app.add_option("-c,--ctx-size,--max-model-len", flags.context,
                 "context in tokens, prompt and answer together; 0 = what the model was made for")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--prefill-chunk,--max-batched-tokens,--max-num-batched-tokens,--ubatch-size",
                 flags.max_batched_tokens,
                 "tokens computed in one step at most; never changes the output")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option(
      "--kernels", flags.kernels,
      "kernel set: reference, avx2 or avx512 (default: the fastest this processor runs); "
      "never changes the output");
  app.add_option("--kv-type,--kv-cache-dtype", flags.kv_type,
                 "type of stored keys and values: f16, bf16, f32 or q8_0")
      ->check(CLI::IsMember({"f16", "bf16", "f32", "q8_0"}))
      ->capture_default_str();
  app.add_option("--kv-size", flags.kv_size,
                 "memory for keys and values, such as 512MiB or 4GiB (default: enough for the "
                 "context and the sequences at once, at most half of the free memory)");
  app.add_flag("--no-pack-cache", flags.no_pack_cache,
               "pack the weights in memory and keep no file of them");
}

void AddSpeculationFlags(CLI::App& app, EngineFlags& flags, const std::string& type) {
  flags.speculation = type;
  app.add_option("--spec-type", flags.speculation,
                 "drafts of the next tokens, computed in one step where it was measured to pay: "
                 "ngram (from the sequence's own text), ngram-cache (also from what the KV cache "
                 "holds of others that began alike) or none; never changes the output")
      ->check(CLI::IsMember({"ngram", "ngram-cache", "none"}))
      ->capture_default_str();
  app.add_option("--draft-max,--draft,--draft-n", flags.max_drafts,
                 "drafts of a sequence in a step at most")
      ->check(CLI::Range(1, kMostDrafts))
      ->capture_default_str();
}

void AddBatchingFlags(CLI::App& app, EngineFlags& flags) {
  app.add_option("--parallel,--max-num-seqs", flags.max_sequences,
                 "sequences that run at once at most")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--max-step-ms", flags.max_step_ms,
                 "time that prefill may make a step last while others decode, in ms; 0 = twice "
                 "what the decodes take alone, and in `quire batch` no limit")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_flag("--no-sampled-ids", flags.no_sampled_ids,
               "tokenize an earlier answer that comes back as text anew, instead of taking the ids "
               "that were sampled");
}

Result<EngineOptions> EngineOptionsOf(const EngineFlags& flags) {
  EngineOptions options{.runner = {.kernels = flags.kernels,
                                   .num_threads = flags.threads,
                                   .context_length = flags.context,
                                   .kv_type = ParseKvType(flags.kv_type).value_or(KvType::kF16),
                                   .num_sequences = flags.max_sequences,
                                   .load = {}},
                        .scheduler = {.max_sequences = flags.max_sequences,
                                      .max_batched_tokens = flags.max_batched_tokens,
                                      .target_step_ms = flags.max_step_ms},
                        .max_queue = flags.max_queue,
                        .reuse_sampled_ids = !flags.no_sampled_ids,
                        .speculation = {.max_drafts = flags.max_drafts}};
  if (flags.speculation == "ngram") options.speculation.type = SpeculationType::kNgram;
  if (flags.speculation == "ngram-cache") options.speculation.type = SpeculationType::kNgramCache;
  if (!flags.kv_size.empty()) {
    QUIRE_ASSIGN_OR_RETURN(options.runner.kv_bytes, ParseByteSize(flags.kv_size));
  }
  if (!flags.memory.empty()) {
    QUIRE_ASSIGN_OR_RETURN(options.runner.budget_bytes, ParseByteSize(flags.memory));
  }
  if (flags.tiers) {
    QUIRE_ASSIGN_OR_RETURN(options.tiers, TierOptionsOf(*flags.tiers));
  }
  return options;
}

Result<std::unique_ptr<Engine>> MakeEngine(const EngineFlags& flags, TraceSink* trace) {
  QUIRE_ASSIGN_OR_RETURN(const std::filesystem::path path, ResolveModel(flags.model));
  QUIRE_ASSIGN_OR_RETURN(EngineOptions options, EngineOptionsOf(flags));
  options.trace = trace;
  if (!flags.no_pack_cache) {
    // Without a home to keep packs in, they live in memory alone.
    if (const auto cache = CacheDirectory(); cache.ok()) {
      options.runner.load.pack_directory = *cache / "packs";
    }
  }
  ProgressLine progress;
  options.runner.load.progress = [&progress](size_t done, size_t total) {
    progress.Update("packing the weights", done, total);
    return !Interrupted();
  };
  options.runner.load.interrupted = Interrupted;
  options.runner.load.notice = [](const std::string& message) {
    fmt::print(stderr, "quire: {}\n", message);
  };
  return Engine::Create(path, options);
}

}  // namespace quire
