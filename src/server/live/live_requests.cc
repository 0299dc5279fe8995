#include "server/live/live_requests.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

namespace quire {

void LiveRequests::Note(const TraceEvent& event) {
  if (const auto* asked = std::get_if<RequestEvent>(&event)) {
    live_.insert_or_assign(asked->request, LiveRequest{.asked = *asked});
  } else if (const auto* step = std::get_if<StepEvent>(&event)) {
    for (const StepLine& line : step->lines) Note(line);
  } else if (const auto* token = std::get_if<TokenEvent>(&event)) {
    NoteToken(*token);
  } else if (const auto* end = std::get_if<EndEvent>(&event)) {
    NoteEnd(*end);
  }
}

void LiveRequests::Note(const StepLine& line) {
  const auto found = live_.find(line.request);
  if (found == live_.end()) return;
  LiveRequest& request = found->second;
  if (line.action == "preempt") {
    request.state = LiveRequest::State::kWaiting;
  } else if (line.action == "decode" || line.action == "prefill") {
    // What is found again after a preemption was its own.
    const bool is_first = request.first_token_ms == 0 && request.cached_tokens == 0;
    if (line.is_admission && is_first) request.cached_tokens = line.cached_tokens;
    request.state = LiveRequest::State::kRunning;
  }
}

void LiveRequests::NoteToken(const TokenEvent& token) {
  const auto second = static_cast<int64_t>(std::max(token.ms, 0.0) / 1000);
  Second& bucket = seconds_[static_cast<size_t>(second % kSeconds)];
  if (bucket.second != second) bucket = {.second = second};
  ++bucket.tokens;
  const auto found = live_.find(token.request);
  if (found == live_.end()) return;
  LiveRequest& request = found->second;
  request.state = LiveRequest::State::kRunning;
  if (request.first_token_ms == 0) request.first_token_ms = token.ms - request.asked.ms;
}

void LiveRequests::NoteEnd(const EndEvent& end) {
  const auto found = live_.find(end.request);
  if (found == live_.end()) return;
  LiveRequest request = std::move(found->second);
  live_.erase(found);
  request.state = LiveRequest::State::kEnded;
  request.cached_tokens = end.cached_memory + end.cached_disk + end.cached_remote;
  if (end.first_token_ms > 0) request.first_token_ms = end.first_token_ms;
  request.end = end;
  ended_.push_back(std::move(request));
  if (ended_.size() > kMaxEnded) ended_.pop_front();
}

std::vector<LiveRequest> LiveRequests::List() const {
  std::vector<LiveRequest> list(ended_.begin(), ended_.end());
  list.reserve(ended_.size() + live_.size());
  for (const auto& [id, request] : live_) list.push_back(request);
  return list;
}

double LiveRequests::TokensPerSecond(double now_ms) const {
  const auto now = static_cast<int64_t>(std::max(now_ms, 0.0) / 1000);
  int64_t tokens = 0;
  for (const Second& bucket : seconds_) {
    if (bucket.second > now - kSeconds && bucket.second <= now) tokens += bucket.tokens;
  }
  // Of the present second as much as has passed, and of a run's beginning what there was.
  const double whole_seconds = static_cast<double>(std::min<int64_t>(now, kSeconds - 1));
  const double passed = whole_seconds + std::max(now_ms, 0.0) / 1000 - static_cast<double>(now);
  return static_cast<double>(tokens) / std::max(passed, .1);
}

}  // namespace quire
