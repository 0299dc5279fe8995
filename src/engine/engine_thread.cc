#include "engine/engine_thread.h"

#include <algorithm>
#include <iterator>
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
  EngineStatus status;
  {
    const std::scoped_lock lock(mutex_);
    status = status_;
  }
  status.tiers = engine_->TierStatuses();
  return status;
}

std::vector<int32_t> EngineThread::EncodePrompt(std::span<const PromptPiece> pieces,
                                                std::string_view salt) const {
  return engine_->EncodePrompt(pieces, salt);
}

bool EngineThread::TakeTasks(std::optional<double> at_most_ms) {
  std::unique_lock lock(mutex_);
  const auto has_come = [this] { return stopping_ || !tasks_.empty(); };
  if (!at_most_ms) {
    wake_.wait(lock, has_come);
  } else if (*at_most_ms > 0) {
    wake_.wait_for(lock, std::chrono::duration<double, std::milli>(*at_most_ms), has_come);
  }
  std::ranges::move(tasks_, std::back_inserter(turn_));
  tasks_.clear();
  return stopping_;
}

bool EngineThread::Turn(std::optional<double> at_most_ms) {
  const auto end_of_turn = [this] {
    Publish();
    if (after_step_) after_step_();
  };
  if (TakeTasks(at_most_ms)) is_over_ = true;
  if (!turn_.empty()) {
    // One at a time: a task that yields lets those behind it go first.
    while (!turn_.empty()) {
      const Task task = std::move(turn_.front());
      turn_.pop_front();
      task(*engine_);
    }
    end_of_turn();
  }
  if (is_over_) return false;
  // The step that finds nothing to do gives memory back, and is the last before the sleep.
  is_idle_ = !engine_->Step();
  end_of_turn();
  return true;
}

bool EngineThread::Yield() { return Turn(0); }

void EngineThread::Loop() {
  NameThisThread("quire-engine");
  while (Turn(is_idle_ ? engine_->RunIdle() : std::optional<double>(0))) {
  }
  engine_->AbortAll();
  Publish();
  if (after_step_) after_step_();
  engine_->FlushTiers();
}

void EngineThread::Publish() {
  EngineStatus status{.num_waiting = engine_->num_waiting(),
                      .num_running = engine_->num_running(),
                      .kv = engine_->cache().usage(),
                      .num_pinned_blocks = engine_->num_pinned_blocks(),
                      .kv_counters = engine_->cache().counters(),
                      .counters = engine_->counters(),
                      .batch_counters = engine_->batch().counters(),
                      .prefill = engine_->prefill_cost()};
  const std::scoped_lock lock(mutex_);
  status_ = std::move(status);
}

}  // namespace quire
