// Several sinks as one: a file and a live page are fed by the same events.
#pragma once

#include <algorithm>
#include <variant>
#include <vector>

#include "trace/trace_sink.h"

namespace quire {

// Asks for what any of them asks for. A sink is told no blocks where it asks for none; of steps and
// tokens it may be told more than it asks for. The sinks outlive the engine.
class TraceTee : public TraceSink {
 public:
  // Before the engine is made. Null ones are passed over.
  void AddSink(TraceSink* sink) {
    if (sink != nullptr) sinks_.push_back(sink);
  }

  TraceDetail detail() const override {
    TraceDetail all;
    for (const TraceSink* sink : sinks_) {
      const TraceDetail detail = sink->detail();
      all.operators |= detail.operators;
      all.blocks |= detail.blocks;
      all.candidates = std::max(all.candidates, detail.candidates);
    }
    return all;
  }

  void Add(const TraceEvent& event) override {
    const bool is_block = std::holds_alternative<BlockEvent>(event);
    for (TraceSink* sink : sinks_) {
      if (!is_block || sink->detail().blocks) sink->Add(event);
    }
  }

 private:
  std::vector<TraceSink*> sinks_;
};

}  // namespace quire
