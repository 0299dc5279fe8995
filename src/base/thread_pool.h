// A fixed pool of threads that compute inside one step of the engine.
//
// Invariants:
//   1. num_threads() threads take part in every Run: the caller is thread 0, the pool owns the
//   rest.
//   2. Run returns after every thread has returned from the task; nothing of a task outlives it.
//   3. Idle workers spin for a few microseconds and then sleep: an idle engine uses no processor.
//   4. Results never depend on num_threads(): callers split work into rows, heads or whole spans.
// One thread at a time may call Run or ParallelFor.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/wake_placement.h"

namespace quire {

class ThreadPool {
 public:
  // num_threads in 1..kMaxThreads; one means that the caller does all the work. Where the system
  // refuses more threads, the pool has fewer.
  static constexpr int kMaxThreads = 256;
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls task(thread_idx) once on each thread.
  template <typename Task>
  void Run(const Task& task) {
    RunErased(
        [](const void* object, int thread_idx) { (*static_cast<const Task*>(object))(thread_idx); },
        &task);
  }

  // Calls body(begin, end, thread_idx) over pieces of at most `grain` that cover 0..count; the
  // threads take pieces as they come free, so a busy neighbour costs one piece and not the step.
  template <typename Body>
  void ParallelFor(size_t count, size_t grain, const Body& body) {
    if (count == 0) return;
    if (num_threads() == 1 || count <= grain) {
      for (size_t begin = 0; begin < count; begin += grain) {
        body(begin, begin + grain < count ? begin + grain : count, 0);
      }
      return;
    }
    std::atomic<size_t> next{0};
    Run([&](int thread_idx) {
      for (;;) {
        const size_t begin = next.fetch_add(grain, std::memory_order_relaxed);
        if (begin >= count) return;
        body(begin, begin + grain < count ? begin + grain : count, thread_idx);
      }
    });
  }

  // The same with pieces that shrink, from a part of a thread's share down to `grain`: the first
  // are long, so that memory streams, and the last short, so that all threads end together.
  template <typename Body>
  void ParallelForShrinking(size_t count, size_t grain, const Body& body) {
    if (count == 0) return;
    if (num_threads() == 1 || count <= grain) {
      body(0, count, 0);
      return;
    }
    const size_t parts = 2 * static_cast<size_t>(num_threads());
    std::atomic<size_t> next{0};
    Run([&](int thread_idx) {
      size_t begin = next.load(std::memory_order_relaxed);
      while (begin < count) {
        const size_t left = count - begin;
        const size_t piece = left / parts > grain ? left / parts : grain < left ? grain : left;
        if (!next.compare_exchange_weak(begin, begin + piece, std::memory_order_relaxed)) continue;
        body(begin, begin + piece, thread_idx);
        begin = next.load(std::memory_order_relaxed);
      }
    });
  }

 private:
  using ErasedTask = void (*)(const void* object, int thread_idx);

  void RunErased(ErasedTask task, const void* object);
  void WorkerLoop(int thread_idx);

  std::vector<std::thread> workers_;
  ErasedTask task_ = nullptr;
  const void* object_ = nullptr;
  bool stopping_ = false;
  const bool is_placed_ = WakePlacement::IsNeeded();
  WakePlacement placement_;
  bool was_kept_off_ = false;  // the workers, before the task
  alignas(64) std::atomic<uint32_t> generation_{0};
  alignas(64) std::atomic<uint32_t> pending_{0};
  std::atomic<int> num_asleep_{0};
};

// The processors this process may use: its affinity mask, cut by its cgroup's quota. At least 1.
int AvailableProcessors();

}  // namespace quire
