// Somewhere else to run a task.
#pragma once

#include <functional>

namespace quire {

class TaskQueue {
 public:
  virtual ~TaskQueue() = default;
  // Any thread; does not wait for the task. Tasks that have not begun when the queue ends are
  // dropped.
  virtual void Post(std::function<void()> task) = 0;
};

// Runs tasks at once, for tests and for work that has nowhere else to go.
class InlineTaskQueue : public TaskQueue {
 public:
  void Post(std::function<void()> task) override { task(); }
};

}  // namespace quire
