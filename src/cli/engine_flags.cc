#include "cli/engine_flags.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "cli/interrupt.h"
#include "cli/model_path.h"
#include "cli/progress.h"

namespace quire {

void AddEngineFlags(CLI::App& app, EngineFlags& flags) {
  app.add_option("MODEL", flags.model, "a GGUF file, or a name that `quire models` lists")
      ->required();
  app.add_option("-t,--threads", flags.threads,
                 "threads that compute; 0 = all this process may use")
      ->check(CLI::Range(0, ThreadPool::kMaxThreads))
      ->capture_default_str();
  app.add_option("-c,--ctx-size", flags.context,
                 "context in tokens, prompt and answer together; 0 = what the model was made for")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--prefill-chunk", flags.prefill_chunk,
                 "prompt tokens computed in one step; never changes the output")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option(
      "--kernels", flags.kernels,
      "kernel set: reference, avx2 or avx512 (default: the fastest this processor runs); "
      "never changes the output");
  app.add_option("--kv-type", flags.kv_type, "type of stored keys and values: f16 or f32")
      ->check(CLI::IsMember({"f16", "f32"}))
      ->capture_default_str();
  app.add_flag("--no-pack-cache", flags.no_pack_cache,
               "pack the weights in memory and keep no file of them");
}

Result<std::unique_ptr<Engine>> MakeEngine(const EngineFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const std::filesystem::path path, ResolveModel(flags.model));
  EngineOptions options{.kernels = flags.kernels,
                        .num_threads = flags.threads,
                        .context_length = flags.context,
                        .prefill_chunk = flags.prefill_chunk,
                        .kv_type = flags.kv_type == "f32" ? KvType::kF32 : KvType::kF16,
                        .load = {}};
  if (!flags.no_pack_cache) {
    // Without a home to keep packs in, they live in memory alone.
    if (const auto cache = CacheDirectory(); cache.ok()) {
      options.load.pack_directory = *cache / "packs";
    }
  }
  ProgressLine progress;
  options.load.progress = [&progress](size_t done, size_t total) {
    progress.Update("packing the weights", done, total);
    return !Interrupted();
  };
  options.load.interrupted = Interrupted;
  options.load.notice = [](const std::string& message) {
    fmt::print(stderr, "quire: {}\n", message);
  };
  return Engine::Create(path, options);
}

}  // namespace quire
