// The threads for what can be long and computes no model: JSON of a body, templates, tokenizing.
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

 private:
  void Loop();

  std::mutex mutex_;  // of all that follows
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;  // last: they use the rest
};

}  // namespace quire
