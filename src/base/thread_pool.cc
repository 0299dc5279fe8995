#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <system_error>

#include "base/check.h"
#include "base/thread_name.h"

namespace quire {
namespace {

// Long enough to bridge the gap between two operators of a step, short enough to be free when idle.
constexpr int kSpins = 4000;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

ThreadPool::ThreadPool(int num_threads) {
  QUIRE_CHECK(num_threads >= 1 && num_threads <= kMaxThreads, "{} threads", num_threads);
  workers_.reserve(num_threads - 1);
  try {
    for (int thread_idx = 1; thread_idx < num_threads; ++thread_idx) {
      workers_.emplace_back([this, thread_idx] {
        NameThisThread("quire-worker");
        WorkerLoop(thread_idx);
      });
    }
  } catch (const std::system_error&) {
    // No more threads to be had: those that there are do the work.
  }
}

ThreadPool::~ThreadPool() {
  stopping_ = true;
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::RunErased(ErasedTask task, const void* object) {
  if (workers_.empty()) {
    task(object, 0);
    return;
  }
  task_ = task;
  object_ = object;
  was_kept_off_ =
      is_placed_ && num_asleep_.load(std::memory_order_relaxed) > 0 && placement_.KeepOff(workers_);
  pending_.store(static_cast<uint32_t>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  task(object, 0);
  for (int spin = 0;; ++spin) {
    const uint32_t left = pending_.load(std::memory_order_acquire);
    if (left == 0) return;
    if (spin < kSpins) {
      Pause();
    } else {
      pending_.wait(left, std::memory_order_acquire);
    }
  }
}

void ThreadPool::WorkerLoop(int thread_idx) {
  uint32_t seen = 0;
  for (;;) {
    for (int spin = 0; generation_.load(std::memory_order_acquire) == seen; ++spin) {
      if (spin < kSpins) {
        Pause();
      } else {
        num_asleep_.fetch_add(1, std::memory_order_relaxed);
        generation_.wait(seen, std::memory_order_acquire);
        num_asleep_.fetch_sub(1, std::memory_order_relaxed);
      }
    }
    ++seen;
    if (stopping_) return;
    if (was_kept_off_) placement_.Settle();
    task_(object_, thread_idx);
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
  }
}

int AvailableProcessors() {
  int count = 1;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (::sched_getaffinity(0, sizeof(mask), &mask) == 0) count = std::max(1, CPU_COUNT(&mask));
  // cgroup v2: "max 100000" or "200000 100000" (microseconds of processor time per period).
  if (std::ifstream file("/sys/fs/cgroup/cpu.max"); file) {
    std::string quota;
    double period = 0;
    if (file >> quota >> period && quota != "max" && period > 0) {
      const double processors = std::strtod(quota.c_str(), nullptr) / period;
      count = std::clamp(static_cast<int>(std::ceil(processors)), 1, count);
    }
  }
  return std::min(count, ThreadPool::kMaxThreads);
}

}  // namespace quire
