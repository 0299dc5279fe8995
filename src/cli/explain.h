// The subjects of `quire explain`, a file each. Every function declares one below the verb; parsing
// it runs it and sets the process's exit code.
#pragma once

namespace CLI {
class App;
}

namespace quire {

// The two phases of inference, measured beside what this machine can do at best.
void AddExplainPhases(CLI::App& verb, int& exit_code);
// The same generation with and without the KV cache.
void AddExplainCache(CLI::App& verb, int& exit_code);

}  // namespace quire
