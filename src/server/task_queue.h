// Somewhere else to run a task.
#pragma once

#include <functional>
#include <utility>

namespace quire {

class TaskQueue {
 public:
  virtual ~TaskQueue() = default;
  // Any thread; does not wait for the task. Tasks that have not begun when the queue ends are
  // dropped.
  virtual void Post(std::function<void()> task) = 0;
  // For a task that may take seconds: others do not wait for all of its kind.
  virtual void PostLong(std::function<void()> task) { Post(std::move(task)); }
};

// Runs tasks at once, for tests and for work that has nowhere else to go.
class InlineTaskQueue : public TaskQueue {
 public:
  void Post(std::function<void()> task) override { task(); }
};

}  // namespace quire
