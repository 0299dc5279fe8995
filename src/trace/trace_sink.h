// Who is told what happens in a run. The engine calls it on its own thread, between and inside
// steps: an implementation copies what it needs and returns at once.
#pragma once

#include "trace/events.h"

namespace quire {

// What a sink wants to be told; the rest is neither measured nor built.
struct TraceDetail {
  bool operators = false;  // StepEvent::operators: a few clock reads a layer
  bool blocks = false;     // BlockEvents
  int candidates = 0;      // TokenEvent::candidates, at most so many; costs a pass over the logits
};

class TraceSink {
 public:
  virtual ~TraceSink() = default;
  // May change while the engine runs; asked once a step.
  virtual TraceDetail detail() const = 0;
  // The event is the caller's: what is kept is copied.
  virtual void Add(const TraceEvent& event) = 0;
};

}  // namespace quire
