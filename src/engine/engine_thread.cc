#include "engine/engine_thread.h"

#include <utility>

#include "base/thread_name.h"

namespace quire {

EngineThread::EngineThread(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {
  Publish();
}

EngineThread::~EngineThread() { Stop(); }

void EngineThread::SetAfterStep(std::function<void()> after_step) {
  QUIRE_CHECK(!thread_.joinable(), "the after-step hook is set before Start");
  after_step_ = std::move(after_step);
}

void EngineThread::Start() {
  QUIRE_CHECK(!thread_.joinable(), "an engine's thread is started once");
  thread_ = std::thread([this] { Loop(); });
}

void EngineThread::Stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

bool EngineThread::Post(Task task) {
  {
    const std::scoped_lock lock(mutex_);
    if (stopping_) return false;
    tasks_.push_back(std::move(task));
    if (tasks_.size() > 1) return true;  // the first of them has woken the thread
  }
  wake_.notify_one();
  return true;
}

EngineStatus EngineThread::status() const {
  const std::scoped_lock lock(mutex_);
  return status_;
}

std::vector<int32_t> EngineThread::EncodePrompt(std::span<const PromptPiece> pieces,
                                                std::string_view salt) const {
  return engine_->EncodePrompt(pieces, salt);
}

bool EngineThread::TakeTasks(std::vector<Task>& tasks, bool may_wait) {
  std::unique_lock lock(mutex_);
  if (may_wait) wake_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
  tasks.swap(tasks_);
  return stopping_;
}

void EngineThread::Loop() {
  NameThisThread("quire-engine");
  const auto end_of_turn = [this] {
    Publish();
    if (after_step_) after_step_();
  };
  bool is_idle = true;
  bool is_stopping = false;
  std::vector<Task> tasks;
  while (!is_stopping) {
    is_stopping = TakeTasks(tasks, /*may_wait=*/is_idle);
    if (!tasks.empty()) {
      for (Task& task : tasks) task(*engine_);
      tasks.clear();
      end_of_turn();
    }
    if (is_stopping) break;
    // The step that finds nothing to do gives memory back, and is the last before the sleep.
    is_idle = !engine_->Step();
    end_of_turn();
  }
  engine_->AbortAll();
  end_of_turn();
}

void EngineThread::Publish() {
  const EngineStatus status{.num_waiting = engine_->num_waiting(),
                            .num_running = engine_->num_running(),
                            .kv = engine_->cache().usage(),
                            .num_pinned_blocks = engine_->num_pinned_blocks(),
                            .kv_counters = engine_->cache().counters(),
                            .counters = engine_->counters(),
                            .batch_counters = engine_->batch().counters()};
  const std::scoped_lock lock(mutex_);
  status_ = status;
}

}  // namespace quire
