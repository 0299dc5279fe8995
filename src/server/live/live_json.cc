#include "server/live/live_json.h"

#include <cmath>
#include <string_view>
#include <utility>
#include <variant>

#include "base/utf8.h"
#include "server/openai/json_writer.h"
#include "trace/event_json.h"

namespace quire {
namespace {

std::string_view NameOf(LiveRequest::State state) {
  switch (state) {
    case LiveRequest::State::kWaiting:
      return "waiting";
    case LiveRequest::State::kRunning:
      return "running";
    case LiveRequest::State::kEnded:
      return "ended";
  }
  return "";
}

void Int(std::string_view name, int64_t value, JsonWriter& json) {
  json.Key(name);
  json.Int(value);
}

// Microseconds are enough.
void Rounded(std::string_view name, double value, JsonWriter& json) {
  json.Key(name);
  json.Number(std::round(value * 1000) / 1000);
}

void WriteRequest(const LiveRequest& request, JsonWriter& json) {
  json.BeginObject();
  Int("request", request.asked.request, json);
  json.Key("name");
  json.String(RepairUtf8(request.asked.name));
  Int("prompt_tokens", request.asked.prompt_tokens, json);
  Int("max_tokens", request.asked.max_tokens, json);
  json.Key("state");
  json.String(NameOf(request.state));
  Rounded("arrived_ms", request.asked.ms, json);
  Int("cached", request.cached_tokens, json);
  Rounded("first_token_ms", request.first_token_ms, json);
  if (request.end) {
    json.Key("end");
    json.Raw(EventAsJson(*request.end));
  }
  json.EndObject();
}

void WriteStatus(const LiveStatus& status, double tokens_per_second, JsonWriter& json) {
  json.BeginObject();
  Int("running", status.num_running, json);
  Int("waiting", status.num_waiting, json);
  Int("used_blocks", status.used_blocks, json);
  Int("cached_blocks", status.cached_blocks, json);
  Int("free_blocks", status.free_blocks, json);
  Rounded("tokens_per_second", tokens_per_second, json);
  json.EndObject();
}

// The event with nothing in it that was not asked for; empty where nothing is left.
std::string AsAskedFor(const TraceEvent& event, const LiveDetail& detail) {
  if (std::holds_alternative<BlockEvent>(event) && !detail.blocks) return "";
  if (const auto* step = std::get_if<StepEvent>(&event);
      step != nullptr && !step->operators.empty() && !detail.operators) {
    StepEvent less = *step;
    less.operators.clear();
    return EventAsJson(less);
  }
  if (const auto* token = std::get_if<TokenEvent>(&event);
      token != nullptr && !token->candidates.empty() && !detail.candidates) {
    TokenEvent less = *token;
    less.candidates.clear();
    return EventAsJson(less);
  }
  return EventAsJson(event);
}

}  // namespace

std::string SnapshotMessage(const LiveSnapshot& snapshot, const LiveStatus& status) {
  std::string message = "event: snapshot\ndata: ";
  JsonWriter json(message);
  json.BeginObject();
  json.Key("run");
  json.Raw(EventAsJson(snapshot.run));
  Rounded("now_ms", snapshot.now_ms, json);
  json.Key("requests");
  json.BeginArray();
  for (const LiveRequest& request : snapshot.requests) WriteRequest(request, json);
  json.EndArray();
  json.Key("status");
  WriteStatus(status, snapshot.tokens_per_second, json);
  json.EndObject();
  message += "\n\n";
  return message;
}

std::string EventsMessage(std::span<const std::shared_ptr<const TraceEvent>> events,
                          uint64_t dropped, const LiveDetail& detail) {
  std::string list;
  JsonWriter json(list);
  json.BeginArray();
  bool is_empty = dropped == 0;
  if (dropped > 0) {
    json.BeginObject();
    json.Key("event");
    json.String("dropped");
    Int("count", static_cast<int64_t>(dropped), json);
    json.EndObject();
  }
  for (const auto& event : events) {
    const std::string text = AsAskedFor(*event, detail);
    if (text.empty()) continue;
    json.Raw(text);
    is_empty = false;
  }
  json.EndArray();
  return is_empty ? "" : "event: events\ndata: " + list + "\n\n";
}

}  // namespace quire
