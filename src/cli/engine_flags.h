// The flags that every verb with an engine has, and the engine they make.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/tier_flags.h"
#include "engine/engine.h"

namespace CLI {
class App;
}

namespace quire {

struct EngineFlags {
  std::string model;
  std::string kernels;
  int threads = 0;
  int context = 0;
  int max_batched_tokens = 512;
  int max_sequences = 1;   // that run at once
  double max_step_ms = 0;  // SchedulerOptions::target_step_ms
  std::string kv_type = "f16";
  std::string kv_size;  // bytes with a unit; empty = RunnerOptions::kv_bytes of 0
  std::string memory;   // RunnerOptions::budget_bytes, with a unit; empty = none
  int max_queue = 0;    // EngineOptions::max_queue
  bool no_pack_cache = false;
  bool no_sampled_ids = false;
  std::optional<TierFlags> tiers{};  // of the verbs that have them
  std::string speculation = "none";  // SpeculationOptions::type; of the verbs that have the flags
  int max_drafts = 15;
};

// Declares MODEL and the flags; `flags` outlives the parse.
void AddEngineFlags(CLI::App& app, EngineFlags& flags);
// As above, without MODEL.
void AddComputeFlags(CLI::App& app, EngineFlags& flags);
// Declares those of drafts; `type` is what they begin with.
void AddSpeculationFlags(CLI::App& app, EngineFlags& flags, const std::string& type);
// Declares those that only an engine for many requests needs.
void AddBatchingFlags(CLI::App& app, EngineFlags& flags);

// What the flags ask for. Fails for a size that is not one, and where TierOptionsOf does.
Result<EngineOptions> EngineOptionsOf(const EngineFlags& flags);

// Finds the model and loads it, with progress on a terminal. What happens is told to `trace`, which
// outlives the engine; null = to nobody.
Result<std::unique_ptr<Engine>> MakeEngine(const EngineFlags& flags, TraceSink* trace = nullptr);

}  // namespace quire
