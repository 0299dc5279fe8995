// A sink that keeps what it is told, and engines that tell it.
#pragma once

#include <memory>
#include <vector>

#include "engine/request_runs.h"
#include "engine/requests_fixture.h"
#include "trace/trace_sink.h"

namespace quire::testing {

class TraceKeeper : public TraceSink {
 public:
  explicit TraceKeeper(TraceDetail detail = {}) : detail_(detail) {}

  TraceDetail detail() const override { return detail_; }
  void Add(const TraceEvent& event) override { events.push_back(event); }

  template <typename Event>
  std::vector<Event> All() const {
    std::vector<Event> all;
    for (const TraceEvent& event : events) {
      if (const auto* one = std::get_if<Event>(&event)) all.push_back(*one);
    }
    return all;
  }

  std::vector<TraceEvent> events;

 private:
  TraceDetail detail_;
};

class TraceFixture : public RequestsFixture {
 protected:
  // With a pool of so many blocks; 0 = enough.
  static std::unique_ptr<Engine> Traced(TraceSink& sink, int num_blocks = 0,
                                        EngineOptions options = {}) {
    const std::filesystem::path path = TinyModel(kRequestsModel);
    options.runner = {.num_threads = 1, .context_length = 128, .num_sequences = 16};
    if (num_blocks > 0) options.runner.kv_bytes = PoolBytes(path, num_blocks);
    if (options.scheduler.max_batched_tokens == SchedulerOptions{}.max_batched_tokens) {
      options.scheduler.max_batched_tokens = 64;
    }
    options.trace = &sink;
    return MakeTestEngine(path, options);
  }
};

}  // namespace quire::testing
