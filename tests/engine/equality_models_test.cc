// The promise on real models: random loads over SmolLM2 and Gemma 3 270M, whose windows are
// hundreds of tokens long. QUIRE_EQUALITY_SEED=17 runs one load alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "engine/equality_run.h"
#include "support/model_cache.h"

namespace quire {
namespace {

using testing::Load;
using testing::LoadAnswer;
using testing::LoadEvents;
using testing::LoadLimits;
using testing::LoadModel;

constexpr int kLoads = 20;
constexpr int kMostLong = 8;

LoadModel SmolLm2() {
  return {.name = "smollm2-135m-instruct",
          .path = testing::CachedModel("SmolLM2-135M-Instruct.Q4_1.gguf"),
          .vocab_size = 49152};
}
LoadModel Gemma() {
  return {.name = "gemma-3-270m",
          .path = testing::CachedModel("gemma-3-270m-q4_k_m.gguf"),
          .vocab_size = 262144};
}

LoadLimits Limits(int num_requests, int context_length) {
  return {.num_requests = num_requests,
          .context_length = context_length,
          .max_tokens = 12,
          .max_batched_tokens = 128,
          .threads = {2, 5},
          .with_reference_kernels = false,
          .has_fresh_engines = false};
}

// Every model's file must be there.
void RunLoads(const std::vector<Load>& loads, LoadEvents* events) {
  const char* only = std::getenv("QUIRE_EQUALITY_SEED");
  for (const Load& load : loads) {
    if (only != nullptr && std::strtoull(only, nullptr, 10) != load.seed) continue;
    SCOPED_TRACE(testing::Describe(load));
    const std::vector<LoadAnswer> answers = testing::RunLoad(load, events);
    ASSERT_EQ(answers.size(), load.requests.size());
    testing::ExpectAnswersAsAlone(load, answers);
    ASSERT_FALSE(::testing::Test::HasFailure());
  }
  fmt::print("{} loads: {}\n", loads.size(), testing::ToString(*events));
}

TEST(SmolLm2EqualityTest, EveryAnswerIsWhatItsRequestGetsAlone) {
  if (!std::filesystem::exists(SmolLm2().path)) {
    GTEST_FAIL() << "`quire pull smollm2-135m-instruct` first";
  }
  LoadEvents events;
  std::vector<Load> loads;
  for (const uint64_t seed : {1, 2, 3}) {
    loads.push_back(testing::MakeLoad(seed, SmolLm2(), Limits(6, 96)));
  }
  RunLoads(loads, &events);
}

TEST(RealModelEqualityTest, EveryAnswerIsWhatItsRequestGetsAlone) {
  for (const LoadModel& model : {SmolLm2(), Gemma()}) {
    if (!std::filesystem::exists(model.path)) GTEST_FAIL() << "`quire pull " << model.name;
  }
  std::vector<Load> loads;
  for (uint64_t seed = 0; seed < kLoads; ++seed) {
    loads.push_back(testing::MakeLoad(seed, seed % 2 == 0 ? SmolLm2() : Gemma(), Limits(8, 192)));
  }
  LoadEvents events;
  RunLoads(loads, &events);
  if (std::getenv("QUIRE_EQUALITY_SEED") != nullptr) return;
  // Gemma's windows are 512 tokens: some loads with longer prompts, until one left its window.
  for (uint64_t seed = kLoads; events.window_releases == 0 && seed < kLoads + kMostLong; ++seed) {
    RunLoads({testing::MakeLoad(seed, Gemma(), Limits(4, 1500))}, &events);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(events.prefix_hits, 0);
  EXPECT_GT(events.partial_hits, 0);
  EXPECT_GT(events.evictions, 0);
  EXPECT_GT(events.preemptions, 0);
  EXPECT_GT(events.forks, 0);
  EXPECT_GT(events.window_releases, 0);
}

}  // namespace
}  // namespace quire
