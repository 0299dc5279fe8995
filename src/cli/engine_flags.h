// The flags that every verb with an engine has, and the engine they make.
#pragma once

#include <memory>
#include <string>

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
  int prefill_chunk = 256;
  std::string kv_type = "f16";
  bool no_pack_cache = false;
};

// Declares MODEL and the flags; `flags` outlives the parse.
void AddEngineFlags(CLI::App& app, EngineFlags& flags);

// Finds the model and loads it, with progress on a terminal.
Result<std::unique_ptr<Engine>> MakeEngine(const EngineFlags& flags);

}  // namespace quire
