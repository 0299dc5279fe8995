// What a run's requests are doing at this moment, gathered from its events: what somebody who comes
// late is told first.
//
// Those under way, the last kMaxEnded that have ended, and the tokens of the last seconds. A
// request is waiting until a step computes something of it or one of its tokens comes, and again
// once it was preempted. Used by one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trace/events.h"

namespace quire {

struct LiveRequest {
  enum class State : uint8_t { kWaiting, kRunning, kEnded };

  RequestEvent asked{};
  State state = State::kWaiting;
  int cached_tokens = 0;      // of the prompt, found when it was first admitted
  double first_token_ms = 0;  // from its arrival; 0 = none has come
  std::optional<EndEvent> end{};
};

class LiveRequests {
 public:
  static constexpr size_t kMaxEnded = 200;

  // Block events and the run's own tell it nothing.
  void Note(const TraceEvent& event);

  // The ended ones in the order of their ends, then those under way as they came.
  std::vector<LiveRequest> List() const;
  // Drawn in the last seconds, a second.
  double TokensPerSecond(double now_ms) const;

 private:
  struct Second {
    int64_t second = -1;  // since the run began
    int64_t tokens = 0;
  };
  static constexpr int kSeconds = 5;

  void Note(const StepLine& line);
  void NoteToken(const TokenEvent& token);
  void NoteEnd(const EndEvent& end);

  std::map<int64_t, LiveRequest> live_;
  std::deque<LiveRequest> ended_;
  std::array<Second, kSeconds> seconds_{};  // by second % kSeconds
};

}  // namespace quire
