#include "server/http/network_queue.h"

#include <utility>

namespace quire {

void NetworkQueue::Post(std::function<void()> task) {
  const std::scoped_lock lock(mutex_);
  if (is_closed_) return;
  tasks_.push_back(std::move(task));
  if (tasks_.size() == 1) wake_();
}

void NetworkQueue::RunTasks() {
  {
    const std::scoped_lock lock(mutex_);
    running_.swap(tasks_);
  }
  for (std::function<void()>& task : running_) {
    task();
    task = nullptr;  // what it holds ends with it, and may post
  }
  running_.clear();
}

void NetworkQueue::Close() {
  std::vector<std::function<void()>> dropped;  // outside the lock: what they hold may post
  const std::scoped_lock lock(mutex_);
  is_closed_ = true;
  dropped.swap(tasks_);
}

}  // namespace quire
