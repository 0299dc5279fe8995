#include "cli/trace_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/flag_checks.h"
#include "cli/posix_file.h"
#include "cli/verbs.h"

namespace quire {
namespace {

constexpr int kCandidates = 5;

}  // namespace

void AddTraceFlags(CLI::App& app, TraceFlags& flags) {
  constexpr auto kGroup = "Trace";
  CLI::Option* file =
      app.add_option("--trace", flags.file,
                     "write what happens to this file, a JSON object a line; an earlier trace "
                     "there is replaced (default: no trace)")
          ->group(kGroup);
  RefuseEmpty(*file);
  app.add_option(
         "--trace-detail", flags.detail,
         "beside requests, steps and tokens: operators (time, operations and bytes by kind; "
         "the machine's ceilings, measured at the start), blocks (what happens to each), "
         "candidates (the best tokens of each draw), all; a list with commas "
         "(default: none of them)")
      ->delimiter(',')
      ->check(CLI::IsMember({"operators", "blocks", "candidates", "all"}))
      ->needs(file)
      ->group(kGroup);
}

Result<std::unique_ptr<TraceFile>> OpenTrace(const TraceFlags& flags) {
  if (flags.file.empty()) return std::unique_ptr<TraceFile>();
  const auto asks_for = [&](std::string_view name) {
    return std::ranges::any_of(
        flags.detail, [&](const std::string& detail) { return detail == name || detail == "all"; });
  };
  return TraceFile::Create(flags.file,
                           {.detail = {.operators = asks_for("operators"),
                                       .blocks = asks_for("blocks"),
                                       .candidates = asks_for("candidates") ? kCandidates : 0}});
}

Status CheckKeepsTrace(const std::filesystem::path& trace, std::string_view flag,
                       const std::filesystem::path& output) {
  if (!IsSameFile(trace, output)) return {};
  return MakeError(ErrorCode::kInvalidArgument,
                   "{} {} is the trace {} itself, which would be lost; name another file", flag,
                   output.string(), trace.string());
}

Status CheckIsApart(const TraceFlags& flags, std::string_view what,
                    const std::filesystem::path& path) {
  if (flags.file.empty() || !IsSameFile(flags.file, path)) return {};
  return MakeError(ErrorCode::kInvalidArgument,
                   "--trace {} is {} too, which would be lost; name another file", flags.file,
                   what);
}

Status EndTrace(TraceFile* trace, Status verb) {
  if (trace == nullptr) return verb;
  Status written = trace->Close();
  if (verb.ok()) return written;
  (void)Report(written);
  return verb;
}

}  // namespace quire
