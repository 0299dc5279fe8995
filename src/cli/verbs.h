// The verbs of `quire`, a file each. Every function declares one verb with its flags; parsing it
// runs it and sets the process's exit code.
#pragma once

#include "base/result.h"

namespace CLI {
class App;
}

namespace quire {

void AddRunVerb(CLI::App& app, int& exit_code);
void AddBatchVerb(CLI::App& app, int& exit_code);
void AddServeVerb(CLI::App& app, int& exit_code);
void AddPullVerb(CLI::App& app, int& exit_code);
void AddModelsVerb(CLI::App& app, int& exit_code);
void AddInspectVerb(CLI::App& app, int& exit_code);
void AddTokenizeVerb(CLI::App& app, int& exit_code);
void AddExplainVerb(CLI::App& app, int& exit_code);
void AddPerplexityVerb(CLI::App& app, int& exit_code);
void AddPacksVerb(CLI::App& app, int& exit_code);
void AddCacheVerb(CLI::App& app, int& exit_code);
void AddBenchVerb(CLI::App& app, int& exit_code);
void AddPlanVerb(CLI::App& app, int& exit_code);
void AddTopVerb(CLI::App& app, int& exit_code);

// Prints "quire: MESSAGE" on standard error for an error, behind all that was printed on standard
// output; returns the exit code. Throws nothing, whatever becomes of the message.
int Report(const Status& status);

// Hands over what was printed on standard output. 0, or the errno of what failed; -1 where an
// earlier write has failed and its reason is gone.
int FlushStdout();
// kIo, of such a number.
Error OutputError(int error);
// Both at once.
Status FlushOutput();

}  // namespace quire
