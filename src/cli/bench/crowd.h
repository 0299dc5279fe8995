// Requests under way on an engine that is stepped here: how many tokens each has, how often they
// were preempted, and the first failure.
//
// Several may be there at once: a step of one is a step of all. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/engine.h"

namespace quire {

class Crowd {
 public:
  // Both outlive it. A step is begun only where `go_on` says so.
  Crowd(Engine& engine, const std::function<bool()>& go_on) : engine_(engine), go_on_(go_on) {}
  // Its requests end here, and whatever else runs runs to its end.
  ~Crowd();
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  // `on_token` may be empty. Errors are those of Engine::Submit.
  Status Add(Request request, std::function<void()> on_token = {});

  // Steps until `done`, which is asked before each step, or nothing is left to do. kInterrupted,
  // or how the first of the requests failed.
  Status StepUntil(const std::function<bool()>& done);
  Status StepToTheEnd() {
    return StepUntil([] { return false; });
  }

  // Sampled, of the request that has fewest; there is one.
  int fewest_tokens() const;
  int64_t num_tokens() const;
  // Of those that have ended.
  int num_preemptions() const { return num_preemptions_; }

 private:
  struct Member {
    RequestId id = 0;
    int num_tokens = 0;
    bool has_ended = false;
  };

  Engine& engine_;
  const std::function<bool()>& go_on_;
  std::vector<Member> members_;
  int num_preemptions_ = 0;
  Status failure_{};
};

}  // namespace quire
