// A trace in Chrome's trace event format, for Perfetto (ui.perfetto.dev) and chrome://tracing.
//
// Two processes: the engine, with a lane of its steps (the operators of each inside it, where they
// were traced), a lane of what happened to blocks, and counters; and the requests, with a lane each
// of its life. The format is that of "Trace Event Format" (Google, 2016), JSON object form.
// Thread-compatible.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "trace/trace_analysis.h"

namespace quire {

// How every one begins.
inline constexpr std::string_view kChromeTraceBegins =
    R"({"displayTimeUnit":"ms","otherData":{"model":)";

class ChromeTrace {
 public:
  // Appends to `text`, which outlives it; whoever owns the text may empty it between two calls.
  ChromeTrace(const RunEvent& run, std::string& text);

  void Add(const TraceEvent& event);
  // Requests under way are told as far as they came. Once, at last.
  void End();

 private:
  struct Slice {
    int process = 0;
    int64_t lane = 0;
    std::string_view name{};
    double begin_ms = 0;
    double end_ms = 0;
  };

  void Open(std::string_view phase, int process, int64_t lane, double ms);
  void NameLane(int process, int64_t lane, std::string_view name);
  void NameProcess(int process, std::string_view name);
  // Begins a slice; what is appended until CloseSlice is its arguments and the slices inside it.
  void BeginSlice(const Slice& slice);
  void EndSlice(const Slice& slice);
  void Argument(std::string_view name, int64_t value);
  void Argument(std::string_view name, double value);
  void Argument(std::string_view name, std::string_view value);
  void CloseArguments();

  void AddStep(const StepEvent& step);
  void AddOperators(const StepEvent& step, double end_ms);
  void AddCounter(std::string_view name, const StepEvent& step,
                  std::pair<std::string_view, int64_t> first,
                  std::pair<std::string_view, int64_t> second);
  void AddBlock(const BlockEvent& block);
  void AddLife(const RequestLife& life);

  std::string& text_;
  bool has_arguments_ = false;
  bool is_first_ = true;
  TraceAnalysis analysis_;
};

}  // namespace quire
