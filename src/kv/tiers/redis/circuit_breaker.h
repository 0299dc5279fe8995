// When to leave a server alone that fails again and again, and when to try it once more.
//
// Closed: everybody may ask. After `max_failures` in a row it opens: nobody may, until the rest is
// over; then it is half open, and one caller makes a trial. A trial that succeeds closes it; one
// that fails opens it for twice the last rest, up to a longest one.
// Reads no clock: `now_ms` is an argument, and never goes back. Thread-compatible.
//
// Invariants:
//   1. Half open, at most one trial is under way.
//   2. Every Admit that did not refuse is followed by just one of Succeed, Fail and Abandon, which
//      are told what it said.
#pragma once

#include <algorithm>
#include <cstdint>

namespace quire {

enum class Admission : uint8_t { kRefused, kAdmitted, kTrial };

class CircuitBreaker {
 public:
  explicit CircuitBreaker(int max_failures, double first_rest_ms = 1000,
                          double longest_rest_ms = 60'000)
      : max_failures_(max_failures),
        first_rest_ms_(first_rest_ms),
        longest_rest_ms_(longest_rest_ms) {}

  // Whether Admit would not refuse.
  bool IsReady(double now_ms) const {
    return !is_open_ || (now_ms >= rest_until_ms_ && !trial_under_way_);
  }
  Admission Admit(double now_ms) {
    if (!IsReady(now_ms)) return Admission::kRefused;
    if (!is_open_) return Admission::kAdmitted;
    trial_under_way_ = true;
    return Admission::kTrial;
  }

  void Succeed() {
    is_open_ = trial_under_way_ = false;
    num_failures_ = 0;
    rest_ms_ = 0;
  }
  // True where this opened it.
  bool Fail(Admission admission, double now_ms) {
    ++num_failures_;
    // What began before it opened says nothing that is not known.
    if (is_open_ && admission != Admission::kTrial) return false;
    if (!is_open_ && num_failures_ < max_failures_) return false;
    return Open(now_ms);
  }
  // What was admitted told nothing about the server.
  void Abandon(Admission admission) {
    if (admission == Admission::kTrial) trial_under_way_ = false;
  }
  // Opens it whatever came before; true where it was closed.
  bool Trip(double now_ms) { return Open(now_ms); }

  // Since it opened, failed trials included; 0 while closed.
  double OpenForMs(double now_ms) const { return is_open_ ? now_ms - open_since_ms_ : 0; }

 private:
  bool Open(double now_ms) {
    const bool opens = !is_open_;
    if (opens) open_since_ms_ = now_ms;
    rest_ms_ = rest_ms_ == 0 ? first_rest_ms_ : std::min(2 * rest_ms_, longest_rest_ms_);
    rest_until_ms_ = now_ms + rest_ms_;
    is_open_ = true;
    trial_under_way_ = false;
    return opens;
  }

  int max_failures_;
  double first_rest_ms_;
  double longest_rest_ms_;

  int num_failures_ = 0;
  bool is_open_ = false;
  bool trial_under_way_ = false;
  double open_since_ms_ = 0;
  double rest_ms_ = 0;
  double rest_until_ms_ = 0;
};

}  // namespace quire
