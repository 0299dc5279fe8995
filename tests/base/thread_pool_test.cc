#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace quire {
namespace {

TEST(ThreadPool, RunCallsTheTaskOnceOnEveryThread) {
  for (const int num_threads : {1, 2, 3, 7}) {
    ThreadPool pool(num_threads);
    EXPECT_EQ(pool.num_threads(), num_threads);
    std::vector<int> calls(num_threads, 0);
    std::vector<std::thread::id> ids(num_threads);
    pool.Run([&](int thread_idx) {
      ++calls[thread_idx];
      ids[thread_idx] = std::this_thread::get_id();
    });
    EXPECT_EQ(calls, std::vector<int>(num_threads, 1));
    EXPECT_EQ(ids[0], std::this_thread::get_id());
    for (int i = 1; i < num_threads; ++i) EXPECT_NE(ids[i], ids[i - 1]);
  }
}

// run(pool, count, grain, body) has to call body for pieces that cover 0..count once, none of which
// is_wrong(begin, end, count, grain).
template <typename Run, typename IsWrong>
void ExpectCovered(const Run& run, const IsWrong& is_wrong) {
  for (const int num_threads : {1, 2, 5}) {
    ThreadPool pool(num_threads);
    for (const size_t count : {0, 1, 2, 9, 100, 1001}) {
      for (const size_t grain : {1, 3, 100, 5000}) {
        std::vector<int> visits(count, 0);
        std::atomic<int> wrong_pieces = 0;
        run(pool, count, grain, [&](size_t begin, size_t end, int thread_idx) {
          if (begin >= end || is_wrong(begin, end, count, grain) || thread_idx < 0 ||
              thread_idx >= num_threads) {
            ++wrong_pieces;
          }
          for (size_t i = begin; i < end; ++i) ++visits[i];
        });
        ASSERT_EQ(visits, std::vector<int>(count, 1)) << count << " by " << grain;
        ASSERT_EQ(wrong_pieces, 0);
      }
    }
  }
}

TEST(ThreadPool, ParallelForCoversEveryIndexOnceInPiecesOfTheGrain) {
  ExpectCovered([](ThreadPool& pool, size_t count, size_t grain,
                   const auto& body) { pool.ParallelFor(count, grain, body); },
                [](size_t begin, size_t end, size_t, size_t grain) { return end - begin > grain; });
}

TEST(ThreadPool, ShrinkingPiecesCoverEveryIndexOnceAndNeverGoBelowTheGrainBeforeTheEnd) {
  ExpectCovered([](ThreadPool& pool, size_t count, size_t grain,
                   const auto& body) { pool.ParallelForShrinking(count, grain, body); },
                [](size_t begin, size_t end, size_t count, size_t grain) {
                  return end - begin < grain && end != count;
                });
}

// A plain variable that the next run reads on another thread: a missing fence is a race that the
// thread sanitizer reports, and a lost wake-up hangs.
TEST(ThreadPool, ManyShortRunsSeeOneAnothersWrites) {
  ThreadPool pool(3);
  std::vector<int> counters(3, 0);
  for (int run = 0; run < 2000; ++run) {
    pool.Run([&](int thread_idx) { ++counters[(thread_idx + run) % 3]; });
  }
  EXPECT_EQ(counters, std::vector<int>(3, 2000));
}

TEST(ThreadPool, WakesUpAfterItSlept) {
  ThreadPool pool(2);
  for (int run = 0; run < 3; ++run) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::atomic<int> calls = 0;
    pool.Run([&](int) { ++calls; });
    EXPECT_EQ(calls, 2);
  }
}

cpu_set_t MayRunOn() {
  cpu_set_t processors;
  CPU_ZERO(&processors);
  ::sched_getaffinity(0, sizeof(processors), &processors);
  return processors;
}

TEST(ThreadPool, ThreadsMayRunWhereTheirCallerMayAlsoAfterTheySlept) {
  ThreadPool pool(3);
  const cpu_set_t callers = MayRunOn();
  for (int pause = 0; pause < 3; ++pause) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic<int> num_right = 0;
    pool.Run([&](int) {
      const cpu_set_t own = MayRunOn();
      num_right += CPU_EQUAL(&own, &callers);
    });
    EXPECT_EQ(num_right, 3);
  }
}

TEST(ThreadPool, ThreadsThatSleptWakeOnAnotherProcessorThanTheirCaller) {
  WakePlacement placement;
  std::atomic<bool> may_end = false;
  std::vector<std::thread> sleepers;
  sleepers.emplace_back([&] { may_end.wait(false); });
  const bool was_kept_off = placement.KeepOff(sleepers);
  cpu_set_t left;
  ASSERT_EQ(::pthread_getaffinity_np(sleepers[0].native_handle(), sizeof(left), &left), 0);
  const cpu_set_t callers = MayRunOn();
  EXPECT_EQ(was_kept_off, CPU_COUNT(&callers) > 1);
  EXPECT_EQ(CPU_COUNT(&left), std::max(CPU_COUNT(&callers) - 1, 1));
  may_end = true;
  may_end.notify_all();
  sleepers[0].join();
}

TEST(ThreadPool, RunReturnsAfterTheSlowestThread) {
  ThreadPool pool(2);
  bool done = false;
  pool.Run([&](int thread_idx) {
    if (thread_idx == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    done = true;
  });
  EXPECT_TRUE(done);
}

TEST(ThreadPool, DestructionWithoutARunEndsTheThreads) {
  for (int i = 0; i < 20; ++i) ThreadPool pool(4);
}

TEST(ThreadPoolDeathTest, RefusesNoThreads) {
  EXPECT_DEATH(ThreadPool(0), "0 threads");
  EXPECT_DEATH(ThreadPool(ThreadPool::kMaxThreads + 1), "257 threads");
}

TEST(AvailableProcessors, IsAtLeastOneAndAtMostWhatThePoolTakes) {
  EXPECT_GE(AvailableProcessors(), 1);
  EXPECT_LE(AvailableProcessors(), ThreadPool::kMaxThreads);
  EXPECT_LE(AvailableProcessors(), static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace quire
