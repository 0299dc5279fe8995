// Tasks for the network thread, from any thread, in order: one wake-up for all that gather.
//
// Outlives the server with whoever holds it: after Close tasks are dropped.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "server/task_queue.h"

namespace quire {

class NetworkQueue : public TaskQueue {
 public:
  // wake makes the network thread call RunTasks, soon; any thread.
  explicit NetworkQueue(std::function<void()> wake) : wake_(std::move(wake)) {}

  void Post(std::function<void()> task) override;
  // Those posted before; what they post themselves comes with the next call, so that sockets get
  // their turn. Network thread.
  void RunTasks();
  void Close();

 private:
  std::mutex mutex_;  // of all that follows
  std::function<void()> wake_;
  std::vector<std::function<void()>> tasks_;
  std::vector<std::function<void()>> running_;  // RunTasks alone, without the mutex
  bool is_closed_ = false;
};

}  // namespace quire
