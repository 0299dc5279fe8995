// Tells whoever listens what the engine does, as it does it: server-sent events.
//
//   engine's thread: Add --> the last events, bounded --(a timer)--> text pool: Flush --> listeners
//
// A listener gets an event "snapshot" (the run, its requests, the state of the cache) and then
// events "events": arrays of what has happened since (docs/serving.md, "The page").
//
// Invariants:
//   1. Without listeners no event is kept, no timer is set, and the engine is asked for no detail.
//   2. With listeners a timer is set only while something waits to be told, and one for comments.
//      Batches are at least kFlushInterval apart.
//   3. The engine's thread never waits for a listener: it holds the hub's lock to note one event,
//      and text and JSON are made elsewhere.
//   4. What waits to be told is at most kMaxEvents events of kMaxEventBytes together. The oldest
//      go first, and whoever missed them is told how many ("dropped"). A listener that is slow to
//      read is passed over until it has read: it costs kMaxUnsentBytes and a batch at most.
//   5. A listener is told no detail that it has not asked for.
// Add and detail are the engine's thread's; all else is any thread's. Outlives the engine, the
// tasks that it posts and its listeners' connections.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/http/http_exchange.h"
#include "server/live/live_requests.h"
#include "server/task_queue.h"
#include "trace/trace_sink.h"

namespace quire {

// What a listener wants to be told beyond requests, steps and tokens.
struct LiveDetail {
  bool blocks = false;
  bool operators = false;
  bool candidates = false;

  friend bool operator==(const LiveDetail&, const LiveDetail&) = default;
};

// Where the engine stands, for a listener's first event.
struct LiveStatus {
  int num_running = 0;
  int num_waiting = 0;
  int64_t used_blocks = 0;
  int64_t cached_blocks = 0;
  int64_t free_blocks = 0;
};

struct LiveSnapshot {
  RunEvent run{};
  double now_ms = 0;
  std::vector<LiveRequest> requests{};
  double tokens_per_second = 0;
};

class LiveHub : public TraceSink {
 public:
  static constexpr size_t kMaxListeners = 16;
  static constexpr size_t kMaxEvents = 2000;
  static constexpr size_t kMaxEventBytes = size_t{4} << 20;
  static constexpr size_t kMaxUnsentBytes = size_t{256} << 10;
  static constexpr int kCandidates = 5;  // of a token, for whoever asks for them
  static constexpr std::chrono::milliseconds kFlushInterval{100};

  struct Options {
    TaskQueue* text = nullptr;
    // HttpServer::PostAfter; empty: events are told as they come, and there are no comments.
    std::function<void(std::chrono::milliseconds, std::function<void()>)> post_after{};
    std::chrono::milliseconds comment_interval{15'000};  // 0 = no comments
  };

  TraceDetail detail() const override;
  void Add(const TraceEvent& event) override;

  // Once, before the first listener.
  void Open(Options options);

  enum class Joined : uint8_t { kYes, kTooMany, kClosed };
  // Begins a stream on the exchange, unless it is refused; then the exchange is untouched.
  Joined Join(const std::shared_ptr<HttpExchange>& exchange, const LiveDetail& detail,
              const LiveStatus& status);
  // Tells what waits to be told and ends all streams; nobody joins any more.
  void Close();

  LiveSnapshot Snapshot() const;
  size_t num_listeners() const;
  // Of the run, which a hub that was told of none counts from its own beginning.
  double NowMs() const;

 private:
  using Clock = std::chrono::steady_clock;
  using SharedEvent = std::shared_ptr<const TraceEvent>;
  struct Listener {
    int64_t id = 0;
    std::shared_ptr<HttpExchange> exchange{};
    LiveDetail detail{};
    uint64_t next = 0;  // event to be told
    Clock::time_point last_write{};
  };
  // What one listener is told at once.
  struct Delivery {
    std::shared_ptr<HttpExchange> exchange{};
    LiveDetail detail{};
    uint64_t dropped = 0;
    size_t first = 0;  // of the events taken
  };

  void NoteRun(const RunEvent& run);
  LiveSnapshot SnapshotLocked() const;
  void Schedule();
  void Flush();
  std::vector<Delivery> TakeDeliveries(std::vector<SharedEvent>& events);
  void DropOldest();
  void Leave(int64_t id);
  void UpdateDetail();
  void WatchComments();
  void WriteComments();
  double NowMsLocked() const;

  Options options_;
  std::atomic<bool> has_listeners_ = false;
  std::atomic<uint8_t> wanted_ = 0;  // details, or'ed

  // Held by whoever writes to listeners, so that each gets things in order. Before mutex_.
  std::mutex write_mutex_;

  mutable std::mutex mutex_;  // of all that follows
  Clock::time_point start_ = Clock::now();
  RunEvent run_{};
  LiveRequests requests_;
  std::vector<Listener> listeners_;
  int64_t next_id_ = 1;
  std::deque<std::pair<SharedEvent, size_t>> events_;  // and their bytes, about
  uint64_t first_event_ = 0;                           // number of events_.front()
  size_t event_bytes_ = 0;
  bool is_scheduled_ = false;  // a flush is, or is under way
  bool has_comment_timer_ = false;
  bool is_closed_ = false;
};

}  // namespace quire
