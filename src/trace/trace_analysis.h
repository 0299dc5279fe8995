// What a trace comes to: the counts of the run, and the life of each request.
//
// Counts are those that the engine and /metrics keep of the same run. A life is the time from a
// request's coming to its end as consecutive spans, each with what it was spent on; they add up to
// the whole. Thread-compatible.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "trace/events.h"

namespace quire {

// Named and meant as in EngineCounters (engine/engine.h) and docs/metrics.md. Reasons come from the
// file: what is longer than any of ours, or one too many, counts as "other".
struct TraceCounters {
  int64_t requests = 0;  // that came; pins aside here and in the next three
  int64_t requests_finished = 0;
  std::map<std::string, int64_t> ends{};  // by reason
  int64_t completion_tokens = 0;
  // Of requests whose prompt was computed.
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t cached_memory = 0;
  int64_t cached_disk = 0;
  int64_t cached_remote = 0;
  int64_t prefix_cache_queries = 0;
  int64_t prefix_cache_hits = 0;
  std::map<std::string, int64_t> misses{};  // by reason, "none" included
  double tier_wait_ms = 0;

  int64_t steps = 0;
  int64_t computed_tokens = 0;
  int64_t generated_tokens = 0;
  int64_t preemptions = 0;
  int64_t draft_tokens = 0;
  int64_t accepted_draft_tokens = 0;
  std::map<std::string, int64_t> block_changes{};  // by BlockChange, where blocks are traced
  int64_t dropped_events = 0;                      // with any, the counts above are too low
};

enum class LifeKind : uint8_t {
  kQueued,        // what waits of it has had no step: it came, or an answer parted from another
  kWaitsForTier,  // a tier has some of its prompt
  kPrefill,       // a chunk of its prompt, or of what it had to compute again
  kDecode,        // one or more steps that draw its tokens
  kBetween,       // it runs, and no step computes anything of it
  kPreempted,     // what waits of it has run, and gave its blocks back
};
inline constexpr int kNumLifeKinds = 6;
// "queued", "waits_for_tier", "prefill", "decode", "between", "preempted"
std::string_view NameOf(LifeKind kind);

struct LifeSpan {
  LifeKind kind = LifeKind::kQueued;
  double begin_ms = 0;
  double end_ms = 0;
  // Why it waits: a PlanReason, or "step_under_way" before the first plan that saw it. Of a chunk:
  // what held it to its size.
  std::string reason{};
  int64_t other = 0;  // the sequence that it waits for or yields to; 0 = none, or several
  // Of steps.
  int64_t first_step = 0;
  int64_t last_step = 0;
  int num_steps = 0;
  int first_position = 0;    // of the first of its sequences that a step names
  int64_t line_tokens = 0;   // of that sequence, from there on
  int64_t num_tokens = 0;    // computed of all its sequences, drafts left out
  double between_steps = 0;  // ms inside the span that lie between its steps

  double ms() const { return end_ms - begin_ms; }
};

struct RequestLife {
  RequestEvent request{};
  std::optional<EndEvent> end{};                 // nothing: the trace ends before
  std::vector<LifeSpan> spans{};                 // consecutive, the first begins with request.ms
  std::array<double, kNumLifeKinds> total_ms{};  // by LifeKind; the time between steps apart

  double sum_ms() const {
    double sum = 0;
    for (const double ms : total_ms) sum += ms;
    return sum;
  }
};

struct AnalysisOptions {
  bool keeps_lives = true;
  bool keeps_spans = true;  // else a life is its request and its end
  // Of all requests but this one, by number or name, no life is kept; empty = of all it is.
  std::string only_request{};
};

class TraceAnalysis {
 public:
  explicit TraceAnalysis(const AnalysisOptions& options = {}) : options_(options) {}

  // In the order of the trace; the run event may be left out.
  void Add(const TraceEvent& event);

  const TraceCounters& counters() const { return counters_; }
  // The lives that have ended since the last call, in the order of their ends.
  std::vector<RequestLife> TakeEnded();
  // Those under way: what is known of them. Ends the analysis.
  std::vector<RequestLife> TakeRest();

 private:
  struct Track {
    RequestLife life{};
    double told_ms = 0;  // spans reach to here
    // What it does from there on.
    LifeKind waits = LifeKind::kQueued;
    std::string reason{};
    int64_t other = 0;
    int64_t last_step = 0;                   // index of the last step that named it
    std::unordered_set<int64_t> computed{};  // sequences that have
    std::unordered_set<int64_t> out{};       // those that were preempted and have not run since
  };
  struct Part;  // of a request in a step

  void AddRequest(const RequestEvent& event);
  void AddStep(const StepEvent& step);
  void AddEnd(const EndEvent& event);
  void Count(const EndEvent& event);
  static void Gather(const StepLine& line, Track& track, Part& part);
  void Follow(Track& track, const Part& part, const StepEvent& step);
  void TellWait(Track& track, double until_ms) const;
  static void TellStep(Track& track, const Part& part, const StepEvent& step);
  static void CutAt(RequestLife& life, double end_ms);

  AnalysisOptions options_;
  TraceCounters counters_;
  std::unordered_map<int64_t, Track> tracks_;  // by request
  std::vector<RequestLife> ended_;
  int64_t step_idx_ = 0;  // of all step events
  double last_ms_ = 0;
};

}  // namespace quire
