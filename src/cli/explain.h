// The subjects of `quire explain`, a file each. Every function declares one below the verb; parsing
// it runs it and sets the process's exit code.
#pragma once

namespace CLI {
class App;
}

namespace quire {

// The two phases of inference, measured beside what this machine can do at best.
void AddExplainPhases(CLI::App& verb, int& exit_code);
// Every stage of the forward pass, with its shapes.
void AddExplainShapes(CLI::App& verb, int& exit_code);
// This machine's ceilings, and where operations sit under them.
void AddExplainRoofline(CLI::App& verb, int& exit_code);
// Keys and values over tokens.
void AddExplainGrowth(CLI::App& verb, int& exit_code);
// The same generation with and without the KV cache.
void AddExplainCache(CLI::App& verb, int& exit_code);
// One request of a trace: its life, and why more of its prompt was not found.
void AddExplainRequest(CLI::App& verb, int& exit_code);
// What a trace comes to.
void AddExplainTrace(CLI::App& verb, int& exit_code);

}  // namespace quire
