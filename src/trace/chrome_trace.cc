#include "trace/chrome_trace.h"

#include <algorithm>

#include "trace/json_text.h"

namespace quire {
namespace {

constexpr int kEngine = 1;
constexpr int kRequests = 2;
constexpr int64_t kSteps = 1;
constexpr int64_t kBlocks = 2;

std::string LaneOf(const RequestEvent& request) {
  std::string name = (request.is_pin ? "pin " : "request ") + std::to_string(request.request);
  if (!request.name.empty()) name += " (" + request.name + ")";
  return name;
}

}  // namespace

ChromeTrace::ChromeTrace(const RunEvent& run, std::string& text) : text_(text) {
  text_ += kChromeTraceBegins;
  AppendJson(std::string_view(run.model), text_);
  text_ += R"(,"quire":)";
  AppendJson(std::string_view(run.quire), text_);
  text_ += "},\"traceEvents\":[\n";
  NameProcess(kEngine, "engine");
  NameLane(kEngine, kSteps, "steps");
  NameLane(kEngine, kBlocks, "blocks");
  NameProcess(kRequests, "requests");
}

void ChromeTrace::Add(const TraceEvent& event) {
  analysis_.Add(event);
  if (const auto* step = std::get_if<StepEvent>(&event)) AddStep(*step);
  if (const auto* block = std::get_if<BlockEvent>(&event)) AddBlock(*block);
  for (const RequestLife& life : analysis_.TakeEnded()) AddLife(life);
}

void ChromeTrace::End() {
  for (const RequestLife& life : analysis_.TakeRest()) AddLife(life);
  text_ += "\n]}\n";
}

// An event up to its time, without its closing brace. Times are microseconds there.
void ChromeTrace::Open(std::string_view phase, int process, int64_t lane, double ms) {
  text_ += is_first_ ? "" : ",\n";
  is_first_ = false;
  text_ += R"({"ph":)";
  AppendJson(phase, text_);
  text_ += R"(,"pid":)";
  AppendJson(int64_t{process}, text_);
  text_ += R"(,"tid":)";
  AppendJson(lane, text_);
  text_ += R"(,"ts":)";
  AppendMs(ms * 1000, text_);
}

void ChromeTrace::NameProcess(int process, std::string_view name) {
  Open("M", process, 0, 0);
  text_ += R"(,"name":"process_name","args":{"name":)";
  AppendJson(name, text_);
  text_ += "}}";
}

void ChromeTrace::NameLane(int process, int64_t lane, std::string_view name) {
  Open("M", process, lane, 0);
  text_ += R"(,"name":"thread_name","args":{"name":)";
  AppendJson(name, text_);
  text_ += "}}";
}

void ChromeTrace::BeginSlice(const Slice& slice) {
  Open("B", slice.process, slice.lane, slice.begin_ms);
  text_ += R"(,"name":)";
  AppendJson(slice.name, text_);
  text_ += R"(,"args":{)";
  has_arguments_ = false;
}

void ChromeTrace::EndSlice(const Slice& slice) {
  Open("E", slice.process, slice.lane, std::max(slice.begin_ms, slice.end_ms));
  text_ += '}';
}

void ChromeTrace::Argument(std::string_view name, int64_t value) {
  text_ += has_arguments_ ? "," : "";
  has_arguments_ = true;
  AppendJson(name, text_);
  text_ += ':';
  AppendJson(value, text_);
}

void ChromeTrace::Argument(std::string_view name, double value) {
  text_ += has_arguments_ ? "," : "";
  has_arguments_ = true;
  AppendJson(name, text_);
  text_ += ':';
  AppendMs(value, text_);
}

void ChromeTrace::Argument(std::string_view name, std::string_view value) {
  if (value.empty()) return;
  text_ += has_arguments_ ? "," : "";
  has_arguments_ = true;
  AppendJson(name, text_);
  text_ += ':';
  AppendJson(value, text_);
}

void ChromeTrace::CloseArguments() { text_ += "}}"; }

void ChromeTrace::AddStep(const StepEvent& step) {
  AddCounter("blocks", step, {"used", step.used_blocks}, {"cached", step.cached_blocks});
  AddCounter("requests", step, {"running", step.num_running}, {"waiting", step.num_waiting});
  if (step.step == 0) return;
  const std::string name = "step " + std::to_string(step.step);
  const Slice slice{.process = kEngine,
                    .lane = kSteps,
                    .name = name,
                    .begin_ms = step.ms,
                    .end_ms = step.ms + step.total_ms};
  BeginSlice(slice);
  Argument("tokens", int64_t{step.num_tokens});
  Argument("sequences", std::ranges::count_if(
                            step.lines, [](const StepLine& line) { return line.num_tokens > 0; }));
  Argument("forward_ms", step.forward_ms);
  CloseArguments();
  AddOperators(step, slice.end_ms);
  EndSlice(slice);
}

// By kind, one behind the other: layer by layer they take turns.
void ChromeTrace::AddOperators(const StepEvent& step, double end_ms) {
  double begin = step.ms;
  for (const OperatorTime& time : step.operators) {
    const double end = std::min(begin + std::max(0.0, time.ms), end_ms);
    const Slice slice{.process = kEngine,
                      .lane = kSteps,
                      .name = NameOf(time.operators),
                      .begin_ms = begin,
                      .end_ms = std::max(begin, end)};
    BeginSlice(slice);
    Argument("gops", time.ops / 1e9);
    Argument("mbytes", time.bytes / 1e6);
    CloseArguments();
    EndSlice(slice);
    begin = slice.end_ms;
  }
}

void ChromeTrace::AddCounter(std::string_view name, const StepEvent& step,
                             std::pair<std::string_view, int64_t> first,
                             std::pair<std::string_view, int64_t> second) {
  Open("C", kEngine, 0, step.ms + step.total_ms);
  text_ += R"(,"name":)";
  AppendJson(name, text_);
  text_ += R"(,"args":{)";
  has_arguments_ = false;
  Argument(first.first, first.second);
  Argument(second.first, second.second);
  CloseArguments();
}

// What costs something, or is lost: the rest is in the counters.
void ChromeTrace::AddBlock(const BlockEvent& block) {
  switch (block.change) {
    case BlockChange::kCopyOnWrite:
    case BlockChange::kEvict:
    case BlockChange::kOffload:
    case BlockChange::kRestore:
      break;
    default:
      return;
  }
  Open("i", kEngine, kBlocks, block.ms);
  text_ += R"(,"s":"t","name":)";
  AppendJson(NameOf(block.change), text_);
  text_ += R"(,"args":{)";
  has_arguments_ = false;
  Argument("block", int64_t{block.block});
  Argument("sequence", block.sequence);
  Argument("reason", block.reason);
  CloseArguments();
}

void ChromeTrace::AddLife(const RequestLife& life) {
  const int64_t lane = life.request.request;
  NameLane(kRequests, lane, LaneOf(life.request));
  for (const LifeSpan& span : life.spans) {
    const Slice slice{.process = kRequests,
                      .lane = lane,
                      .name = NameOf(span.kind),
                      .begin_ms = span.begin_ms,
                      .end_ms = span.end_ms};
    BeginSlice(slice);
    Argument("reason", span.reason);
    if (span.other != 0) Argument("other", span.other);
    if (span.num_steps > 0) {
      Argument("first_step", span.first_step);
      Argument("last_step", span.last_step);
      Argument("first_position", int64_t{span.first_position});
      Argument("tokens", span.num_tokens);
    }
    CloseArguments();
    EndSlice(slice);
  }
}

}  // namespace quire
