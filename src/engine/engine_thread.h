// The thread that steps the engine, and the only way to it from other threads.
//
//   other threads --Post--> tasks --+
//                                   v
//   loop: run the tasks, in order; Engine::Step; publish the status; when there is nothing to do,
//         Engine::RunIdle and sleep, until a task comes
//   a task that takes long: Yield between its parts, which is a turn of the loop that does not
//   sleep
//
// Invariants:
//   1. Tasks, hooks of requests and the after-step hook run on this thread alone, never at once;
//   but
//      a task that yields lets others run meanwhile, and is prepared for what they change.
//   2. A task that was posted between Start and Stop runs; one posted after Stop does not, and Post
//      says false.
//   3. The status is as of the end of the last step or of the tasks before it; that of tiers, which
//      have threads of their own, as of the call.
//   4. The after-step hook runs after every step and after every batch of tasks, so after whatever
//      can have called a request's hooks.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "plan/load_plan.h"

namespace quire {

// What others may know of the engine at any moment: plain data.
struct EngineStatus {
  int num_waiting = 0;
  int num_running = 0;
  KvUsage kv{};
  int64_t num_pinned_blocks = 0;  // of the used ones
  KvCounters kv_counters{};
  EngineCounters counters{};
  BatchCounters batch_counters{};
  std::vector<TierStatus> tiers{};
  PrefillCost prefill{};  // measured; what loads are weighed against
};

class EngineThread {
 public:
  using Task = std::function<void(Engine& engine)>;

  explicit EngineThread(std::unique_ptr<Engine> engine);
  // Stops.
  ~EngineThread();
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  // Set before Start.
  void SetAfterStep(std::function<void()> after_step);
  void Start();
  // Ends after the step under way; requests under way are aborted, so that each gets its on_finish,
  // and what only memory holds is written to the tiers. Any thread but the engine's.
  void Stop();

  // Runs `task` between two steps. Any thread. Tasks that are posted before Start wait for it.
  bool Post(Task task);

  // By a task: runs those that have come, and a step. False once Stop has been called: then nothing
  // more is stepped, and the task should end.
  bool Yield();

  EngineStatus status() const;

  // What never changes after loading: the model, limits, and EncodePrompt, which locks by itself.
  // Any thread.
  const LoadedModel& model() const { return engine_->model(); }
  int context_length() const { return engine_->context_length(); }
  int vocab_size() const { return engine_->vocab_size(); }
  const KvLayout& layout() const { return engine_->cache().layout(); }
  std::vector<int32_t> EncodePrompt(std::span<const PromptPiece> pieces,
                                    std::string_view salt) const;

 private:
  void Loop();
  // The tasks that have come, waiting for one at most so long (nothing = for ever), and a step.
  // False once Stop has been called.
  bool Turn(std::optional<double> at_most_ms);
  // True once Stop has been called.
  bool TakeTasks(std::optional<double> at_most_ms);
  void Publish();

  std::unique_ptr<Engine> engine_;
  std::function<void()> after_step_;
  std::thread thread_;
  std::deque<Task> turn_;  // taken, not begun; the engine's thread's, as what follows
  bool is_idle_ = true;    // the last step found nothing to do
  bool is_over_ = false;   // a turn has seen that Stop was called

  mutable std::mutex mutex_;  // of all that follows
  std::condition_variable wake_;
  std::vector<Task> tasks_;
  bool stopping_ = false;
  EngineStatus status_{};
};

}  // namespace quire
