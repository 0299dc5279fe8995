// When a benchmark hands its requests to the engine.
//
// Continuous batching leaves that to the engine's scheduler: a request is submitted when it
// arrives. Static batching, which only benchmarks know, submits a batch, and the next one when the
// last request of that batch has ended.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace quire {

enum class Batching : uint8_t { kContinuous, kStatic };

class SubmissionGate {
 public:
  // max_in_flight: requests submitted and not ended; 0 = no limit.
  SubmissionGate(Batching batching, int max_in_flight)
      : batching_(batching), max_in_flight_(max_in_flight) {}

  // A request wants to run.
  void Arrive(int request) { waiting_.push_back(request); }
  // One that was submitted has ended.
  void End() { --in_flight_; }
  // The request to submit next, in order of arrival; nothing = none may go.
  std::optional<int> Next();

  int in_flight() const { return in_flight_; }
  int num_waiting() const { return static_cast<int>(waiting_.size()); }

 private:
  Batching batching_;
  int max_in_flight_;
  std::deque<int> waiting_;
  int in_flight_ = 0;
  bool is_batch_open_ = false;  // static: the batch takes more
};

}  // namespace quire
