// --trace: a run told to a file, event by event (docs/trace-format.md).
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "trace/trace_file.h"

namespace CLI {
class App;
}

namespace quire {

struct TraceFlags {
  std::string file{};  // empty = no trace
  std::vector<std::string> detail{};
};

// Declares them; `flags` outlives the parse.
void AddTraceFlags(CLI::App& app, TraceFlags& flags);

// The file that they ask for, to be told to by the engine, which it outlives; null without --trace.
Result<std::unique_ptr<TraceFile>> OpenTrace(const TraceFlags& flags);

// kInvalidArgument where what `flag` names is to be written over the trace that it is made of.
Status CheckKeepsTrace(const std::filesystem::path& trace, std::string_view flag,
                       const std::filesystem::path& output);

// kInvalidArgument where the trace would be written over `what` of the same run, at `path`; neither
// needs to be there yet.
Status CheckIsApart(const TraceFlags& flags, std::string_view what,
                    const std::filesystem::path& path);

// Ends the trace, which may be null, once the engine tells no more. What the verb came to; where
// that is a success, what is lacking of the trace.
Status EndTrace(TraceFile* trace, Status verb);

}  // namespace quire
