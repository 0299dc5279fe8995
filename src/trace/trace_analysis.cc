#include "trace/trace_analysis.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace quire {
namespace {

// A pause between two steps that is worth a span of its own: planning and telling take less.
constexpr double kShortPauseMs = 1;
constexpr double kShortPauseFraction = .1;  // of the step behind it
constexpr std::string_view kStepUnderWay = "step_under_way";
constexpr std::string_view kBehind = "behind";
constexpr size_t kMaxReasonBytes = 64;
constexpr size_t kMaxReasons = 64;

double& TotalOf(RequestLife& life, LifeKind kind) {
  return life.total_ms[static_cast<size_t>(kind)];
}

// Of sequences that wait, one that lost its blocks is told before one that has had none, and that
// before one that has some.
int RankOf(LifeKind wait) {
  return wait == LifeKind::kPreempted ? 2 : wait == LifeKind::kQueued ? 1 : 0;
}

void CountReason(const std::string& reason, std::map<std::string, int64_t>& counts) {
  const bool is_kept =
      reason.size() <= kMaxReasonBytes && (counts.size() < kMaxReasons || counts.contains(reason));
  ++counts[is_kept ? reason : "other"];
}

}  // namespace

std::string_view NameOf(LifeKind kind) {
  static constexpr std::array<std::string_view, kNumLifeKinds> kNames = {
      "queued", "waits_for_tier", "prefill", "decode", "between", "preempted"};
  return kNames[static_cast<size_t>(kind)];
}

// What a step says of one request: its sequences' lines together.
struct TraceAnalysis::Part {
  const StepLine* computes = nullptr;  // prefill before decode
  const StepLine* preempts = nullptr;
  const StepLine* waits = nullptr;
  LifeKind wait = LifeKind::kBetween;  // what that line comes to
  int64_t num_tokens = 0;
};

void TraceAnalysis::Add(const TraceEvent& event) {
  if (const auto* request = std::get_if<RequestEvent>(&event)) {
    AddRequest(*request);
  } else if (const auto* step = std::get_if<StepEvent>(&event)) {
    AddStep(*step);
  } else if (const auto* end = std::get_if<EndEvent>(&event)) {
    Count(*end);
    AddEnd(*end);
  } else if (std::holds_alternative<TokenEvent>(event)) {
    ++counters_.generated_tokens;
  } else if (const auto* block = std::get_if<BlockEvent>(&event)) {
    ++counters_.block_changes[std::string(NameOf(block->change))];
  } else if (const auto* dropped = std::get_if<DroppedEvent>(&event)) {
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    counters_.dropped_events = dropped->count > kMost - counters_.dropped_events
                                   ? kMost
                                   : counters_.dropped_events + dropped->count;
  }
}

void TraceAnalysis::AddRequest(const RequestEvent& event) {
  if (!event.is_pin) ++counters_.requests;
  last_ms_ = std::max(last_ms_, event.ms);
  if (!options_.keeps_lives) return;
  const std::string& only = options_.only_request;
  if (!only.empty() && only != event.name && only != std::to_string(event.request)) return;
  Track& track = tracks_[event.request];
  track = {};
  track.life.request = event;
  track.told_ms = event.ms;
  track.reason = kStepUnderWay;
  track.last_step = step_idx_;
}

void TraceAnalysis::AddStep(const StepEvent& step) {
  ++step_idx_;
  last_ms_ = std::max(last_ms_, step.ms + step.total_ms);
  counters_.steps += step.step > 0 ? 1 : 0;
  counters_.computed_tokens += step.num_tokens;
  std::unordered_map<int64_t, Part> parts;
  for (const StepLine& line : step.lines) {
    const bool preempts = line.action == "preempt";
    counters_.preemptions += preempts ? 1 : 0;
    if (!options_.keeps_spans) continue;
    const auto track = tracks_.find(line.request);
    if (track != tracks_.end()) Gather(line, track->second, parts[line.request]);
  }
  for (const auto& [request, part] : parts) Follow(tracks_.at(request), part, step);
}

void TraceAnalysis::Gather(const StepLine& line, Track& track, Part& part) {
  part.num_tokens += line.num_tokens;
  if (line.num_tokens > 0) {
    track.computed.insert(line.sequence);
    track.out.erase(line.sequence);
    const bool is_first = part.computes == nullptr;
    if (is_first || (line.action == "prefill" && part.computes->action != "prefill")) {
      part.computes = &line;
    }
  } else if (line.action == "preempt") {
    track.out.insert(line.sequence);
    part.preempts = &line;
  } else if (line.action == "wait") {
    // A fork that found no place has had no step, however long others of its request have run.
    const LifeKind wait = track.out.contains(line.sequence)         ? LifeKind::kPreempted
                          : !track.computed.contains(line.sequence) ? LifeKind::kQueued
                                                                    : LifeKind::kBetween;
    if (RankOf(wait) < RankOf(part.wait)) return;
    part.waits = &line;
    part.wait = wait;
  }
}

void TraceAnalysis::Follow(Track& track, const Part& part, const StepEvent& step) {
  TellWait(track, step.ms);
  track.last_step = step_idx_;
  if (part.computes != nullptr) {
    TellStep(track, part, step);
    track.waits = LifeKind::kBetween;
    track.reason.clear();
    track.other = 0;
    return;
  }
  const StepLine* line = part.preempts != nullptr ? part.preempts : part.waits;
  if (line == nullptr) return;
  if (part.preempts != nullptr) {
    track.waits = LifeKind::kPreempted;
  } else if (line->reason == "tier_load") {
    track.waits = LifeKind::kWaitsForTier;
  } else {
    track.waits = part.wait;
  }
  track.reason = line->reason;
  track.other = line->other;
}

// What it did since the last that was told of it, until a step or its end.
void TraceAnalysis::TellWait(Track& track, double until_ms) const {
  const double begin = track.told_ms;
  if (!options_.keeps_spans || until_ms <= begin) return;
  track.told_ms = until_ms;
  TotalOf(track.life, track.waits) += until_ms - begin;
  // Steps went by and none named it: a plan does not tell of all that stand far back in the queue.
  if (track.reason == kStepUnderWay && step_idx_ - track.last_step > 1) track.reason = kBehind;
  std::vector<LifeSpan>& spans = track.life.spans;
  const bool goes_on = !spans.empty() && spans.back().kind == track.waits &&
                       spans.back().num_steps == 0 && spans.back().reason == track.reason;
  // Who stands before it in the queue changes as that moves on: one wait all the same.
  if (goes_on && (spans.back().other == track.other || track.reason == kBehind)) {
    if (spans.back().other != track.other) spans.back().other = 0;
    spans.back().end_ms = until_ms;
    return;
  }
  spans.push_back({.kind = track.waits,
                   .begin_ms = begin,
                   .end_ms = until_ms,
                   .reason = track.reason,
                   .other = track.other});
}

void TraceAnalysis::TellStep(Track& track, const Part& part, const StepEvent& step) {
  const double begin = track.told_ms;
  const double end = std::max(begin, step.ms + step.total_ms);
  track.told_ms = end;
  const bool is_prefill = part.computes->action == "prefill";
  LifeSpan span{.kind = is_prefill ? LifeKind::kPrefill : LifeKind::kDecode,
                .begin_ms = begin,
                .end_ms = end,
                .reason = is_prefill ? part.computes->reason : std::string(),
                .first_step = step.step,
                .last_step = step.step,
                .num_steps = 1,
                .first_position = part.computes->first_position,
                .line_tokens = part.computes->num_tokens,
                .num_tokens = part.num_tokens};
  TotalOf(track.life, span.kind) += end - begin;
  std::vector<LifeSpan>& spans = track.life.spans;
  // A short pause is no span of its own: it goes with the step behind it.
  const double short_pause = std::max(kShortPauseMs, kShortPauseFraction * (end - begin));
  if (!spans.empty() && spans.back().kind == LifeKind::kBetween && spans.back().reason.empty() &&
      spans.back().ms() <= short_pause) {
    span.begin_ms = spans.back().begin_ms;
    span.between_steps = spans.back().ms();
    spans.pop_back();
  }
  if (is_prefill || spans.empty() || spans.back().kind != LifeKind::kDecode) {
    spans.push_back(std::move(span));
    return;
  }
  LifeSpan& decode = spans.back();
  decode.end_ms = span.end_ms;
  decode.last_step = span.last_step;
  decode.num_steps += 1;
  decode.num_tokens += span.num_tokens;
  decode.between_steps += span.between_steps;
}

// The request ended within its last step.
void TraceAnalysis::CutAt(RequestLife& life, double end_ms) {
  while (!life.spans.empty() && life.spans.back().end_ms > end_ms) {
    LifeSpan& last = life.spans.back();
    const double least = std::min(last.end_ms, std::max(last.begin_ms, end_ms));
    double& total = TotalOf(life, last.kind);
    total = std::max(0.0, total - (last.end_ms - least));
    last.end_ms = least;
    if (last.begin_ms <= end_ms) return;
    life.spans.pop_back();
  }
}

void TraceAnalysis::AddEnd(const EndEvent& event) {
  last_ms_ = std::max(last_ms_, event.ms);
  const auto found = tracks_.find(event.request);
  if (found == tracks_.end()) return;
  Track& track = found->second;
  TellWait(track, event.ms);
  CutAt(track.life, event.ms);
  track.life.end = event;
  ended_.push_back(std::move(track.life));
  tracks_.erase(found);
}

void TraceAnalysis::Count(const EndEvent& event) {
  counters_.draft_tokens += event.draft_tokens;
  counters_.accepted_draft_tokens += event.accepted_draft_tokens;
  if (!event.is_pin) {
    ++counters_.requests_finished;
    CountReason(event.reason, counters_.ends);
    counters_.completion_tokens += event.completion_tokens;
  }
  if (!event.prompt_computed) return;
  const int64_t cached = int64_t{event.cached_memory} + event.cached_disk + event.cached_remote;
  counters_.prompt_tokens += event.prompt_tokens;
  counters_.cached_tokens += cached;
  counters_.cached_memory += event.cached_memory;
  counters_.cached_disk += event.cached_disk;
  counters_.cached_remote += event.cached_remote;
  counters_.tier_wait_ms += event.tier_wait_ms;
  CountReason(event.miss, counters_.misses);
  if (event.miss == "not_read") return;
  counters_.prefix_cache_queries += event.prompt_tokens;
  counters_.prefix_cache_hits += cached;
}

std::vector<RequestLife> TraceAnalysis::TakeEnded() { return std::exchange(ended_, {}); }

std::vector<RequestLife> TraceAnalysis::TakeRest() {
  std::vector<RequestLife> rest;
  for (auto& [request, track] : tracks_) {
    TellWait(track, last_ms_);
    rest.push_back(std::move(track.life));
  }
  tracks_.clear();
  std::ranges::sort(rest, {}, [](const RequestLife& life) { return life.request.request; });
  return rest;
}

}  // namespace quire
