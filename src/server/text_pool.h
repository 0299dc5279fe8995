// The threads for what can be long and computes no model: JSON of a body, templates, tokenizing.
//
// Invariant: with two threads or more, one never runs a long task, so that a short one waits for
// short ones alone.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "server/task_queue.h"

namespace quire {

class TextPool : public TaskQueue {
 public:
  // At least one thread.
  explicit TextPool(int num_threads);
  // Waits for the tasks that have begun.
  ~TextPool() override;
  void Post(std::function<void()> task) override;
  void PostLong(std::function<void()> task) override;

 private:
  void Loop();
  // The next task for a thread that is free; none where it has to wait.
  std::function<void()> TakeTask(bool& is_long);

  std::mutex mutex_;  // of all that follows
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  std::deque<std::function<void()>> long_tasks_;
  int num_long_running_ = 0;
  int max_long_running_ = 1;
  bool stopping_ = false;
  std::vector<std::thread> threads_;  // last: they use the rest
};

}  // namespace quire
