// The engine's side of a trace: what it does, as events (trace/events.h).
//
//   TellRun                                           once, when the model is loaded
//   BeginStep, Admitted, Computed, (tokens, ends)*, EndStep      of each step
//   RequestCame, RequestEnded, BlockChanged           at any time
//
// Invariants:
//   1. Of a step, block events come first, then its StepEvent, then what was drawn, came and ended
//      in it.
//   2. A step that computes nothing and says just what the last one of that kind said is not told.
//   3. What the sink does not ask for is neither measured nor built.
// Used by the thread that steps the engine.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/batch.h"
#include "engine/request_state.h"
#include "kv/block_watch.h"
#include "models/operator_times.h"
#include "sampling/log_probs.h"
#include "trace/trace_sink.h"

namespace quire {

class ModelRunner;

class EngineTrace {
 public:
  using Clock = std::chrono::steady_clock;
  // Sequences, whose they are, and which of the request's members.
  using Owners = std::unordered_map<SequenceId, std::pair<RequestState*, int>>;

  // `start`: when ms was 0. The sink and the runner outlive it.
  EngineTrace(TraceSink& sink, ModelRunner& runner, Clock::time_point start);

  // What the sink asks for, as of the last step's begin.
  const TraceDetail& detail() const { return detail_; }
  // What a forward pass is to measure into, once a pass; null where nobody asks. A step that needs
  // a second one, because something in it cannot be computed, tells no operators.
  OperatorTimes* TimesOfPass() {
    ++num_passes_;
    return detail_.operators ? &times_ : nullptr;
  }

  // The ceilings of the machine are measured where operators are asked for: part of a second.
  void TellRun(std::string_view name);
  void RequestCame(const RequestState& request);
  // Before it is carried out.
  void BeginStep(const StepPlan& plan, const Owners& owners);
  // It has been carried out as far as the forward pass.
  void Admitted(const Batch& batch);
  // The forward pass has computed these, and so many rows of logits. Not called where there was
  // nothing to compute.
  void Computed(std::span<const StepItem> items, size_t num_logits_rows, double forward_ms);
  // As the request's `choice`th answer goes on. candidates: best first.
  void TokenDrawn(const RequestState& request, int choice, int position, int32_t token,
                  bool was_drafted, std::span<const TokenLogProb> candidates);
  void EndStep(int64_t steps_computed);
  // `reason` as it was ended with. The request lives on until the step has been told.
  void RequestEnded(const RequestState& request, FinishReason reason);
  void BlockChanged(const BlockNote& note);

 private:
  double NowMs() const;
  void Tell(TraceEvent event);
  void AddOperators(std::span<const StepItem> items, size_t num_logits_rows);
  bool SaysWhatTheLastSaid();

  TraceSink& sink_;
  ModelRunner& runner_;
  Clock::time_point start_;
  TraceDetail detail_{};
  OperatorTimes times_{};
  int num_passes_ = 0;  // of the step under way
  StepEvent step_{};    // under way
  bool in_step_ = false;
  bool has_computed_ = false;       // the step under way
  std::vector<TraceEvent> held_{};  // until the step has been told
  // Requests that ended in the step, and their events in held_: drafts of their last rows are
  // counted behind their end.
  std::vector<std::pair<size_t, const RequestState*>> held_ends_{};
  // Of the last step, where it computed nothing: who waited, and for what.
  std::optional<std::vector<StepLine>> last_waits_{};
  std::unordered_set<RequestId> waiting_{};  // came, and have had no step
  int64_t num_live_ = 0;                     // requests under way
};

}  // namespace quire
