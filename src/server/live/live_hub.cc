#include "server/live/live_hub.h"

#include <algorithm>
#include <map>
#include <variant>

#include "base/check.h"
#include "server/live/live_json.h"

namespace quire {
namespace {

constexpr uint8_t kBlocks = 1;
constexpr uint8_t kOperators = 2;
constexpr uint8_t kCandidateLists = 4;

uint8_t BitsOf(const LiveDetail& detail) {
  return static_cast<uint8_t>((detail.blocks ? kBlocks : 0) | (detail.operators ? kOperators : 0) |
                              (detail.candidates ? kCandidateLists : 0));
}

double UnixMs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

// What keeping an event takes in memory, about.
size_t BytesOf(const TraceEvent& event) {
  size_t bytes = sizeof(TraceEvent) + 64;
  if (const auto* step = std::get_if<StepEvent>(&event)) {
    bytes += step->lines.size() * sizeof(StepLine);
    bytes += step->operators.size() * sizeof(OperatorTime);
  } else if (const auto* token = std::get_if<TokenEvent>(&event)) {
    bytes += token->text.size() + token->candidates.size() * sizeof(TraceCandidate);
  } else if (const auto* end = std::get_if<EndEvent>(&event)) {
    bytes += end->error.size() + end->miss_text.size();
  }
  return bytes;
}

}  // namespace

TraceDetail LiveHub::detail() const {
  const uint8_t wanted = wanted_.load(std::memory_order_relaxed);
  return {.operators = (wanted & kOperators) != 0,
          .blocks = (wanted & kBlocks) != 0,
          .candidates = (wanted & kCandidateLists) != 0 ? kCandidates : 0};
}

void LiveHub::Add(const TraceEvent& event) {
  SharedEvent kept;  // copied before the lock
  if (has_listeners_.load(std::memory_order_relaxed)) {
    kept = std::make_shared<const TraceEvent>(event);
  }
  bool schedules = false;
  {
    const std::scoped_lock lock(mutex_);
    if (const auto* run = std::get_if<RunEvent>(&event)) NoteRun(*run);
    requests_.Note(event);
    if (listeners_.empty()) return;
    // Somebody has joined meanwhile.
    if (kept == nullptr) kept = std::make_shared<const TraceEvent>(event);
    const size_t bytes = BytesOf(event);
    events_.emplace_back(std::move(kept), bytes);
    event_bytes_ += bytes;
    while (events_.size() > kMaxEvents || event_bytes_ > kMaxEventBytes) DropOldest();
    schedules = !std::exchange(is_scheduled_, true);
  }
  if (schedules) Schedule();
}

void LiveHub::NoteRun(const RunEvent& run) {
  run_ = run;
  const double age_ms = run.unix_time > 0 ? std::max(UnixMs() - run.unix_time * 1000, 0.0) : 0;
  start_ = Clock::now() - std::chrono::duration_cast<Clock::duration>(
                              std::chrono::duration<double, std::milli>(age_ms));
}

void LiveHub::DropOldest() {
  event_bytes_ -= events_.front().second;
  events_.pop_front();
  ++first_event_;
}

void LiveHub::Open(Options options) {
  QUIRE_CHECK(options_.text == nullptr && options.text != nullptr, "a hub is opened once");
  options_ = std::move(options);
}

LiveHub::Joined LiveHub::Join(const std::shared_ptr<HttpExchange>& exchange,
                              const LiveDetail& detail, const LiveStatus& status) {
  const std::scoped_lock writing(write_mutex_);
  LiveSnapshot snapshot;
  int64_t id = 0;
  {
    const std::scoped_lock lock(mutex_);
    if (is_closed_) return Joined::kClosed;
    if (listeners_.size() >= kMaxListeners) return Joined::kTooMany;
    snapshot = SnapshotLocked();
    id = next_id_++;
    listeners_.push_back({.id = id,
                          .exchange = exchange,
                          .detail = detail,
                          .next = first_event_ + events_.size(),
                          .last_write = Clock::now()});
    UpdateDetail();
  }
  // Neither a cache nor nginx may hold events back.
  exchange->BeginStream({.content_type = "text/event-stream; charset=utf-8",
                         .body = SnapshotMessage(snapshot, status),
                         .headers = {{"Cache-Control", "no-store"}, {"X-Accel-Buffering", "no"}}});
  exchange->OnGone([this, id] { Leave(id); });
  WatchComments();
  return Joined::kYes;
}

void LiveHub::Leave(int64_t id) {
  std::shared_ptr<HttpExchange> gone;  // ends outside the lock
  std::deque<std::pair<SharedEvent, size_t>> events;
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find(listeners_, id, &Listener::id);
  if (found == listeners_.end()) return;
  gone = std::move(found->exchange);
  listeners_.erase(found);
  UpdateDetail();
  if (!listeners_.empty()) return;
  first_event_ += events_.size();
  events_.swap(events);
  event_bytes_ = 0;
}

void LiveHub::UpdateDetail() {
  uint8_t wanted = 0;
  for (const Listener& listener : listeners_) wanted |= BitsOf(listener.detail);
  wanted_.store(wanted, std::memory_order_relaxed);
  has_listeners_.store(!listeners_.empty(), std::memory_order_relaxed);
}

void LiveHub::Close() {
  Flush();
  const std::scoped_lock writing(write_mutex_);
  std::vector<Listener> listeners;
  {
    const std::scoped_lock lock(mutex_);
    is_closed_ = true;
    listeners.swap(listeners_);
    UpdateDetail();
  }
  for (const Listener& listener : listeners) listener.exchange->EndStream();
}

void LiveHub::Schedule() {
  const auto flush = [this] { options_.text->Post([this] { Flush(); }); };
  if (options_.post_after) {
    options_.post_after(kFlushInterval, flush);
  } else {
    flush();
  }
}

void LiveHub::Flush() {
  const std::scoped_lock writing(write_mutex_);
  std::vector<SharedEvent> events;
  const std::vector<Delivery> deliveries = TakeDeliveries(events);
  // Mostly all listeners want the same of the same events.
  std::map<std::tuple<uint8_t, uint64_t, size_t>, std::string> messages;
  for (const Delivery& delivery : deliveries) {
    std::string& message = messages[{BitsOf(delivery.detail), delivery.dropped, delivery.first}];
    if (message.empty()) {
      message = EventsMessage(std::span(events).subspan(delivery.first), delivery.dropped,
                              delivery.detail);
    }
    if (!message.empty()) delivery.exchange->Write(message);
  }
  bool is_left = false;
  {
    const std::scoped_lock lock(mutex_);
    const uint64_t end = first_event_ + events_.size();
    is_left = std::ranges::any_of(listeners_,
                                  [end](const Listener& listener) { return listener.next < end; });
    is_scheduled_ = is_left;
  }
  // Without a timer the next event tells the rest.
  if (is_left && options_.post_after) return Schedule();
  if (is_left) {
    const std::scoped_lock lock(mutex_);
    is_scheduled_ = false;
  }
}

std::vector<LiveHub::Delivery> LiveHub::TakeDeliveries(std::vector<SharedEvent>& events) {
  std::vector<Delivery> deliveries;
  const std::scoped_lock lock(mutex_);
  const Clock::time_point now = Clock::now();
  const uint64_t end = first_event_ + events_.size();
  uint64_t first_taken = end;
  for (Listener& listener : listeners_) {
    if (listener.next == end || listener.exchange->unsent_bytes() > kMaxUnsentBytes) continue;
    const uint64_t first = std::max(listener.next, first_event_);
    deliveries.push_back({.exchange = listener.exchange,
                          .detail = listener.detail,
                          .dropped = first - listener.next,
                          .first = static_cast<size_t>(first)});
    first_taken = std::min(first_taken, first);
    listener.next = end;
    listener.last_write = now;
  }
  for (uint64_t number = first_taken; number < end; ++number) {
    events.push_back(events_[static_cast<size_t>(number - first_event_)].first);
  }
  for (Delivery& delivery : deliveries) delivery.first -= static_cast<size_t>(first_taken);
  uint64_t first_needed = end;
  for (const Listener& listener : listeners_) first_needed = std::min(first_needed, listener.next);
  while (!events_.empty() && first_event_ < first_needed) DropOldest();
  return deliveries;
}

void LiveHub::WatchComments() {
  if (!options_.post_after || options_.comment_interval.count() <= 0) return;
  {
    const std::scoped_lock lock(mutex_);
    if (listeners_.empty() || std::exchange(has_comment_timer_, true)) return;
  }
  options_.post_after(options_.comment_interval,
                      [this] { options_.text->Post([this] { WriteComments(); }); });
}

void LiveHub::WriteComments() {
  {
    const std::scoped_lock writing(write_mutex_);
    std::vector<std::shared_ptr<HttpExchange>> silent;
    {
      const std::scoped_lock lock(mutex_);
      has_comment_timer_ = false;
      const Clock::time_point now = Clock::now();
      for (Listener& listener : listeners_) {
        // Somewhat sooner than due is better than a whole round too late.
        if (now - listener.last_write < options_.comment_interval / 2) continue;
        listener.last_write = now;
        if (listener.exchange->unsent_bytes() == 0) silent.push_back(listener.exchange);
      }
    }
    for (const auto& exchange : silent) exchange->Write(": keep-alive\n\n");
  }
  WatchComments();
}

LiveSnapshot LiveHub::Snapshot() const {
  const std::scoped_lock lock(mutex_);
  return SnapshotLocked();
}

LiveSnapshot LiveHub::SnapshotLocked() const {
  const double now_ms = NowMsLocked();
  return {.run = run_,
          .now_ms = now_ms,
          .requests = requests_.List(),
          .tokens_per_second = requests_.TokensPerSecond(now_ms)};
}

size_t LiveHub::num_listeners() const {
  const std::scoped_lock lock(mutex_);
  return listeners_.size();
}

double LiveHub::NowMs() const {
  const std::scoped_lock lock(mutex_);
  return NowMsLocked();
}

double LiveHub::NowMsLocked() const {
  return std::chrono::duration<double, std::milli>(Clock::now() - start_).count();
}

}  // namespace quire
