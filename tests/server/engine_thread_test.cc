#include "engine/engine_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "engine/engine_fixture.h"
#include "server/support/serving_rig.h"
#include "server/text_pool.h"

namespace quire::testing {
namespace {

using ::testing::ElementsAre;
using namespace std::chrono_literals;

class EngineThreadTest : public ::testing::Test {
 protected:
  std::unique_ptr<EngineThread> Letters() {
    const auto path = directory_.path() / "rig.gguf";
    WriteLettersModel(path);
    return std::make_unique<EngineThread>(MakeTestEngine(path));
  }
  static Request Ask(int max_tokens) { return GreedyRequest({1}, max_tokens); }

  ScratchDirectory directory_;
};

TEST_F(EngineThreadTest, RunsTasksInOrderOnOneThreadOnceItHasStarted) {
  const auto engine = Letters();
  std::vector<int> order;
  std::set<std::thread::id> threads;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(engine->Post([&, i](Engine&) {
      order.push_back(i);
      threads.insert(std::this_thread::get_id());
    }));
  }
  EXPECT_TRUE(order.empty());
  engine->Start();
  engine->Stop();
  EXPECT_THAT(order, ElementsAre(0, 1, 2));
  EXPECT_EQ(threads.size(), 1u);
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
}

TEST_F(EngineThreadTest, StopRunsWhatWasPostedAndTakesNoMore) {
  const auto engine = Letters();
  engine->Start();
  std::atomic<int> num_run = 0;
  for (int i = 0; i < 100; ++i) engine->Post([&](Engine&) { ++num_run; });
  engine->Stop();
  EXPECT_EQ(num_run, 100);
  EXPECT_FALSE(engine->Post([&](Engine&) { ++num_run; }));
  engine->Stop();
  EXPECT_EQ(num_run, 100);
}

TEST_F(EngineThreadTest, StopTellsEveryRequestOfItsEnd) {
  const auto engine = Letters();
  Gate steps;
  std::vector<FinishReason> reasons;
  steps.Shut();
  engine->Post([&](Engine& inner) {
    inner.SetStepObserver([&](const StepReport&) { steps.Pass(); });
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(inner
                      .Submit(Ask(400), {.on_finish =
                                             [&](const RequestResult& result) {
                                               reasons.push_back(result.choices[0].finish_reason);
                                             }})
                      .ok());
    }
  });
  engine->Start();
  std::thread stopper([&] { engine->Stop(); });
  while (engine->Post([](Engine&) {})) std::this_thread::yield();
  steps.Open();
  stopper.join();
  EXPECT_THAT(reasons,
              ElementsAre(FinishReason::kAborted, FinishReason::kAborted, FinishReason::kAborted));
  EXPECT_EQ(engine->status().num_running, 0);
  EXPECT_EQ(engine->status().kv.used_blocks, 0);
}

TEST_F(EngineThreadTest, SleepsWhenThereIsNothingToDo) {
  const auto engine = Letters();
  std::atomic<int> num_turns = 0;
  engine->SetAfterStep([&] { ++num_turns; });
  engine->Start();
  Gate done;
  done.Shut();
  engine->Post([&](Engine& inner) {
    ASSERT_TRUE(
        inner.Submit(Ask(5), {.on_finish = [&](const RequestResult&) { done.Open(); }}).ok());
  });
  done.Pass();
  std::this_thread::sleep_for(20ms);
  const int turns = num_turns;
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(num_turns, turns);
  EXPECT_LE(turns, 5 + 4);
}

TEST_F(EngineThreadTest, StepsAndRunsOtherTasksWhileOneYields) {
  const auto engine = Letters();
  Gate ended;
  ended.Shut();
  std::vector<int> order;
  bool is_finished = false;
  int num_yields = 0;
  engine->Post([&](Engine&) {
    // Submits while this task is under way, behind one that waits its turn.
    EXPECT_TRUE(engine->Post([&](Engine& inner) {
      order.push_back(2);
      ASSERT_TRUE(
          inner.Submit(Ask(5), {.on_finish = [&](const RequestResult&) { is_finished = true; }})
              .ok());
    }));
    order.push_back(0);
    while (!is_finished && num_yields < 100) {
      ++num_yields;
      EXPECT_TRUE(engine->Yield());
    }
    order.push_back(3);
    ended.Open();
  });
  engine->Post([&](Engine&) { order.push_back(1); });
  engine->Start();
  ended.Pass();
  engine->Stop();
  EXPECT_TRUE(is_finished);
  EXPECT_GE(num_yields, 5);
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3));
}

TEST_F(EngineThreadTest, ATaskThatYieldsIsToldToEndOnceItIsStopped) {
  const auto engine = Letters();
  Gate begun;
  begun.Shut();
  int64_t steps_at_end = -1;
  int64_t num_steps = 0;
  engine->Post([&](Engine& inner) {
    inner.SetStepObserver([&](const StepReport&) { ++num_steps; });
    ASSERT_TRUE(inner.Submit(Ask(400)).ok());
    begun.Open();
    while (engine->Yield()) {
    }
    steps_at_end = num_steps;
  });
  engine->Start();
  begun.Pass();
  engine->Stop();
  EXPECT_EQ(num_steps, steps_at_end);
}

TEST_F(EngineThreadTest, TellsItsStatusAfterEveryStep) {
  const auto engine = Letters();
  EXPECT_GT(engine->status().kv.total_blocks, 0);
  engine->Start();
  Gate done;
  done.Shut();
  engine->Post([&](Engine& inner) {
    ASSERT_TRUE(
        inner.Submit(Ask(5), {.on_finish = [&](const RequestResult&) { done.Open(); }}).ok());
  });
  done.Pass();
  engine->Stop();
  const EngineStatus status = engine->status();
  EXPECT_EQ(status.counters.generated_tokens, 5);
  EXPECT_EQ(status.counters.requests_finished, 1);
  EXPECT_EQ(status.num_running + status.num_waiting, 0);
}

TEST_F(EngineThreadTest, TakesTasksFromManyThreads) {
  const auto engine = Letters();
  engine->Start();
  std::atomic<int> num_finished = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 5; ++k) {
        engine->Post([&](Engine& inner) {
          ASSERT_TRUE(
              inner.Submit(Ask(4), {.on_finish = [&](const RequestResult&) { ++num_finished; }})
                  .ok());
        });
        const std::vector<PromptPiece> pieces = {{"abc", true}};
        EXPECT_EQ(engine->EncodePrompt(pieces, "").size(), 3u);
        EXPECT_GE(engine->status().num_running, 0);
      }
    });
  }
  threads.clear();
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (num_finished < 20 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(num_finished, 20);
}

TEST(TextPool, RunsTasksOnItsThreads) {
  std::atomic<int> num_run = 0;
  TextPool pool(3);
  for (int i = 0; i < 1000; ++i) pool.Post([&] { ++num_run; });
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (num_run < 1000 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_EQ(num_run, 1000);
}

TEST(TextPool, AShortTaskDoesNotWaitForLongOnes) {
  Gate gate;
  gate.Shut();
  std::atomic<int> num_long = 0;
  std::atomic<bool> has_run = false;
  TextPool pool(2);
  for (int i = 0; i < 3; ++i) {
    pool.PostLong([&] {
      gate.Pass();
      ++num_long;
    });
  }
  pool.Post([&] { has_run = true; });
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (!has_run && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_TRUE(has_run);
  EXPECT_EQ(num_long, 0);
  gate.Open();
  while (num_long < 3 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_EQ(num_long, 3);
}

TEST(TextPool, EndsWithTheTasksThatHaveBegun) {
  Gate gate;
  gate.Shut();
  std::atomic<bool> has_begun = false;
  std::atomic<int> num_run = 0;
  {
    TextPool pool(1);
    pool.Post([&] {
      has_begun = true;
      gate.Pass();
      ++num_run;
      // Nothing is taken any more, or it waits behind this and is dropped.
      pool.Post([&] { ++num_run; });
    });
    while (!has_begun) std::this_thread::yield();
    std::jthread opener([&] {
      std::this_thread::sleep_for(5ms);
      gate.Open();
    });
  }
  EXPECT_GE(num_run, 1);
}

}  // namespace
}  // namespace quire::testing
