// `quire explain trace FILE`: what a trace comes to, and the same for Perfetto.
#include <fcntl.h>
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "cli/explain.h"
#include "cli/posix_file.h"
#include "cli/trace_flags.h"
#include "cli/verbs.h"
#include "formats/printable.h"
#include "trace/chrome_trace.h"
#include "trace/trace_reader.h"

namespace quire {
namespace {

constexpr int kShownRequests = 20;
constexpr size_t kWriteBytes = size_t{1} << 20;

struct ExplainTraceFlags {
  std::string file;
  std::string chrome;
  int num_shown = kShownRequests;  // 0 = all
  bool json = false;
};

// Of a request that has ended: what the list shows.
struct Ended {
  int64_t request = 0;
  std::string name{};
  bool is_pin = false;
  EndEvent end{};
};

struct TraceReport {
  RunEvent run{};
  TraceCounters counters{};
  std::vector<Ended> slowest{};
  int64_t num_ended = 0;  // pins and all, as in the list
  int64_t num_pins = 0;
  bool ends_within_a_line = false;
};

// Leaves the slowest, longest first, at most `most`.
void KeepSlowest(std::vector<Ended>& list, size_t most) {
  std::ranges::sort(list, std::less(), [](const Ended& ended) {
    return std::pair(-ended.end.total_ms, ended.request);
  });
  if (list.size() > most) list.erase(list.begin() + static_cast<ptrdiff_t>(most), list.end());
}

void Keep(const RequestLife& life, size_t most, TraceReport& report) {
  if (!life.end) return;
  ++report.num_ended;
  if (life.request.is_pin) ++report.num_pins;
  report.slowest.push_back({.request = life.request.request,
                            .name = life.request.name,
                            .is_pin = life.request.is_pin,
                            .end = *life.end});
  if (report.slowest.size() / 2 > most) KeepSlowest(report.slowest, most);
}

Result<TraceReport> Summarise(const ExplainTraceFlags& flags) {
  const size_t most = flags.num_shown == 0 ? std::numeric_limits<size_t>::max()
                                           : static_cast<size_t>(flags.num_shown);
  QUIRE_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::Open(flags.file));
  TraceReport report{.run = reader.run()};
  TraceAnalysis analysis({.keeps_spans = false});
  while (true) {
    QUIRE_ASSIGN_OR_RETURN(const std::optional<TraceEvent> event, reader.Next());
    if (!event) break;
    analysis.Add(*event);
    for (const RequestLife& life : analysis.TakeEnded()) Keep(life, most, report);
  }
  KeepSlowest(report.slowest, most);
  report.counters = analysis.counters();
  report.ends_within_a_line = reader.ends_within_a_line();
  return report;
}

Status CheckChromeFile(const std::string& path) {
  return CheckMayReplace(path, kChromeTraceBegins, "a Chrome trace of Quire");
}

Status WriteChrome(const ExplainTraceFlags& flags) {
  QUIRE_RETURN_IF_ERROR(CheckKeepsTrace(flags.file, "--chrome", flags.chrome));
  QUIRE_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::Open(flags.file));
  const std::string& path = flags.chrome;
  QUIRE_RETURN_IF_ERROR(CheckChromeFile(path));
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (file.fd() < 0) {
    return MakeError(ErrorCode::kIo, "cannot write {}: {}", path, std::strerror(errno));
  }
  std::string text;
  const auto write = [&] {
    const Status written = WriteOutput(file.fd(), std::as_bytes(std::span(text)), path);
    text.clear();
    return written;
  };
  ChromeTrace chrome(reader.run(), text);
  while (true) {
    QUIRE_ASSIGN_OR_RETURN(const std::optional<TraceEvent> event, reader.Next());
    if (!event) break;
    chrome.Add(*event);
    if (text.size() >= kWriteBytes) QUIRE_RETURN_IF_ERROR(write());
  }
  chrome.End();
  return write();
}

std::string Joined(const std::map<std::string, int64_t>& counts) {
  std::string text;
  for (const auto& [name, count] : counts) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", Printable(name, 40), count);
  }
  return text;
}

std::string EndedText(const TraceReport& report) {
  const int64_t requests = report.num_ended - report.num_pins;
  std::string text = fmt::format("{} request{}", requests, requests == 1 ? "" : "s");
  if (report.num_pins > 0) {
    text += fmt::format(" and {} pin{}", report.num_pins, report.num_pins == 1 ? "" : "s");
  }
  return text;
}

void Print(const TraceReport& report) {
  const RunEvent& run = report.run;
  const TraceCounters& counters = report.counters;
  fmt::print("{} ({}), {} layers, context {}, KV {} in {} blocks of {} bytes, {} thread{}, {}\n",
             Printable(run.model, 80), Printable(run.family, 40), run.num_layers,
             run.context_length, Printable(run.kv_type, 20), run.num_blocks, run.block_bytes,
             run.num_threads, run.num_threads == 1 ? "" : "s", Printable(run.kernels, 20));
  fmt::print("{} requests came, {} ended: {}\n", counters.requests, counters.requests_finished,
             Joined(counters.ends));
  fmt::print("{} prompt tokens, {} cached ({} memory, {} disk, {} remote); why not more: {}\n",
             counters.prompt_tokens, counters.cached_tokens, counters.cached_memory,
             counters.cached_disk, counters.cached_remote, Joined(counters.misses));
  fmt::print("{} steps computed {} tokens and drew {}; {} preemptions; {} of {} drafts came true\n",
             counters.steps, counters.computed_tokens, counters.generated_tokens,
             counters.preemptions, counters.accepted_draft_tokens, counters.draft_tokens);
  if (!counters.block_changes.empty()) {
    fmt::print("blocks: {}\n", Joined(counters.block_changes));
  }
  if (!report.slowest.empty()) {
    const auto num_shown = static_cast<int64_t>(report.slowest.size());
    fmt::print("\n{}{}, longest first{} (`quire explain request ID` tells why)\n",
               num_shown < report.num_ended ? fmt::format("the {} slowest of ", num_shown) : "",
               EndedText(report), num_shown < report.num_ended ? "; -n 0 shows all" : "");
    fmt::print("{:>8}{:>12}{:>12}{:>12}{:>8}{:>8}{:>8}  {}\n", "ID", "total ms", "queue ms",
               "first ms", "prompt", "cached", "tokens", "name");
  }
  for (const Ended& ended : report.slowest) {
    const EndEvent& end = ended.end;
    const std::string first =
        end.first_token_ms > 0 ? fmt::format("{:.1f}", end.first_token_ms) : "-";
    fmt::print("{:>8}{:>12.1f}{:>12.1f}{:>12}{:>8}{:>8}{:>8}  {}\n", ended.request, end.total_ms,
               end.queue_ms, first, end.prompt_tokens,
               int64_t{end.cached_memory} + end.cached_disk + end.cached_remote,
               end.completion_tokens, (ended.is_pin ? "(pin) " : "") + Printable(ended.name, 60));
  }
}

boost::json::object CountsAsJson(const std::map<std::string, int64_t>& counts) {
  boost::json::object object;
  for (const auto& [name, count] : counts) object[name] = count;
  return object;
}

void PrintJson(const TraceReport& report) {
  const TraceCounters& counters = report.counters;
  const boost::json::object object = {{"model", report.run.model},
                                      {"requests", counters.requests},
                                      {"requests_finished", counters.requests_finished},
                                      {"ends", CountsAsJson(counters.ends)},
                                      {"completion_tokens", counters.completion_tokens},
                                      {"prompt_tokens", counters.prompt_tokens},
                                      {"cached_tokens", counters.cached_tokens},
                                      {"cached_memory", counters.cached_memory},
                                      {"cached_disk", counters.cached_disk},
                                      {"cached_remote", counters.cached_remote},
                                      {"prefix_cache_queries", counters.prefix_cache_queries},
                                      {"prefix_cache_hits", counters.prefix_cache_hits},
                                      {"misses", CountsAsJson(counters.misses)},
                                      {"tier_wait_ms", counters.tier_wait_ms},
                                      {"steps", counters.steps},
                                      {"computed_tokens", counters.computed_tokens},
                                      {"generated_tokens", counters.generated_tokens},
                                      {"preemptions", counters.preemptions},
                                      {"draft_tokens", counters.draft_tokens},
                                      {"accepted_draft_tokens", counters.accepted_draft_tokens},
                                      {"block_changes", CountsAsJson(counters.block_changes)},
                                      {"dropped_events", counters.dropped_events},
                                      {"ends_within_a_line", report.ends_within_a_line}};
  fmt::print("{}\n", boost::json::serialize(object));
}

Status ExplainTrace(const ExplainTraceFlags& flags) {
  if (!flags.chrome.empty()) QUIRE_RETURN_IF_ERROR(WriteChrome(flags));
  if (!flags.chrome.empty() && !flags.json) return {};
  QUIRE_ASSIGN_OR_RETURN(const TraceReport report, Summarise(flags));
  if (report.counters.dropped_events > 0) {
    fmt::print(stderr, "quire: the trace lacks {} events: the counts are too low\n",
               report.counters.dropped_events);
  }
  if (report.ends_within_a_line) {
    fmt::print(stderr, "quire: the trace ends within a line: its program was ended\n");
  }
  if (flags.json) {
    PrintJson(report);
  } else {
    Print(report);
  }
  return {};
}

}  // namespace

void AddExplainTrace(CLI::App& verb, int& exit_code) {
  CLI::App* subject = verb.add_subcommand(
      "trace", "What a trace comes to: its counts and slowest requests; and the same for Perfetto");
  auto flags = std::make_shared<ExplainTraceFlags>();
  subject->add_option("FILE", flags->file, "that --trace of the run wrote")->required();
  subject
      ->add_option("--chrome", flags->chrome,
                   "write it in Chrome's trace format to this file, for ui.perfetto.dev: a lane of "
                   "the engine's steps, and one of each request")
      ->check([](const std::string& path) {
        const Status status = CheckChromeFile(path);
        return status.ok() ? std::string() : status.error().message;
      });
  subject
      ->add_option("-n", flags->num_shown,
                   "of the requests that ended, the slowest so many are shown; 0 = all")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  subject->add_flag("--json", flags->json, "the counts, for programs");
  subject->callback([flags, &exit_code] { exit_code = Report(ExplainTrace(*flags)); });
}

}  // namespace quire
