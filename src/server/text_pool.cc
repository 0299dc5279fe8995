#include "server/text_pool.h"

#include <algorithm>
#include <utility>

#include "base/thread_name.h"

namespace quire {

TextPool::TextPool(int num_threads) : max_long_running_(std::max(num_threads - 1, 1)) {
  for (int i = 0; i < std::max(num_threads, 1); ++i) threads_.emplace_back([this] { Loop(); });
}

TextPool::~TextPool() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void TextPool::Post(std::function<void()> task) {
  {
    const std::scoped_lock lock(mutex_);
    if (stopping_) return;
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
}

void TextPool::PostLong(std::function<void()> task) {
  {
    const std::scoped_lock lock(mutex_);
    if (stopping_) return;
    long_tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
}

std::function<void()> TextPool::TakeTask(bool& is_long) {
  is_long = tasks_.empty() && !long_tasks_.empty() && num_long_running_ < max_long_running_;
  if (tasks_.empty() && !is_long) return {};
  std::deque<std::function<void()>>& from = is_long ? long_tasks_ : tasks_;
  std::function<void()> task = std::move(from.front());
  from.pop_front();
  num_long_running_ += is_long ? 1 : 0;
  return task;
}

void TextPool::Loop() {
  NameThisThread("quire-text");
  std::unique_lock lock(mutex_);
  while (true) {
    std::function<void()> task;
    bool is_long = false;
    wake_.wait(lock, [&] { return stopping_ || (task = TakeTask(is_long)) != nullptr; });
    if (stopping_) return;
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
    if (!is_long) continue;
    --num_long_running_;
    // One that was passed over may run.
    wake_.notify_one();
  }
}

}  // namespace quire
