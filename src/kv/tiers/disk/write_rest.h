// When a disk that could not be written to again and again is left alone, and why.
//
// From kMaxFailures in a row on each failure begins a rest, in which nothing is written; the first
// is short, each further one twice as long, up to a longest. A success ends the row. What is there
// may be read all the while.
// Unlike the breaker of a server (kv/tiers/redis/circuit_breaker.h) it hands out no trials: one
// thread writes, and what it does after a rest is the trial.
// Reads no clock: `now_s` is an argument, of the system's time, which may be set back: a rest that
// is yet to begin keeps nobody from writing. Thread-compatible.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

namespace quire {

class WriteRest {
 public:
  static constexpr int kMaxFailures = 3;
  static constexpr double kFirstRestS = 1;
  static constexpr double kLongestRestS = 60;

  bool MayWrite(double now_s) const { return now_s < since_s_ || now_s >= until_s_; }
  // Since the first rest of the row; and why, of the last failure: one line for people.
  double ForMs(double now_s) const { return std::max(0.0, (now_s - since_s_) * 1e3); }
  const std::string& reason() const { return reason_; }

  void Succeed() {
    num_failures_ = 0;
    next_rest_s_ = kFirstRestS;
    until_s_ = 0;
  }
  // True where this begins a rest.
  bool Fail(double now_s, std::string reason) {
    if (++num_failures_ < kMaxFailures) return false;
    if (next_rest_s_ == kFirstRestS || now_s < since_s_) since_s_ = now_s;
    until_s_ = now_s + next_rest_s_;
    next_rest_s_ = std::min(2 * next_rest_s_, kLongestRestS);
    reason_ = std::move(reason);
    return true;
  }

 private:
  int num_failures_ = 0;  // in a row
  double next_rest_s_ = kFirstRestS;
  double since_s_ = 0;
  double until_s_ = 0;
  std::string reason_;
};

}  // namespace quire
