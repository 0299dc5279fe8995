// The promise, on tiny models: whatever else runs, every token and every log-probability of an
// answer is, bit for bit, what its request would have got alone on a cold engine.
//
//   QUIRE_EQUALITY_LOADS=200   how many random loads
//   QUIRE_EQUALITY_SEED=17     that load alone
//   QUIRE_EQUALITY_PLANS=1     prints the plan of every step
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "engine/engine_fixture.h"
#include "engine/equality_run.h"
#include "support/rigs.h"
#include "support/sanitizers.h"
#include "support/scratch_directory.h"

namespace quire {
namespace {

using testing::Load;
using testing::LoadAnswer;
using testing::LoadEvents;
using testing::LoadLimits;
using testing::LoadModel;

constexpr int kCountTokens = 16;
constexpr int kTinyTokens = 300;
constexpr int kUsualLoads = testing::kHasThreadSanitizer ? 4 : testing::kHasSanitizer ? 12 : 40;
// Of so many loads, each kind of event is among what happens.
constexpr int kTellingLoads = 40;

int FromEnvironment(const char* name, int otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoi(value);
}

class EqualityTest : public ::testing::Test {
 protected:
  EqualityTest() {
    for (const std::string& name : testing::TinyModels()) {
      models_.push_back(
          {.name = name, .path = testing::TinyModel(name), .vocab_size = kTinyTokens});
    }
    const std::filesystem::path count = directory_.path() / "count.gguf";
    testing::WriteCountModel(count, kCountTokens, 256);
    models_.push_back({.name = "count", .path = count, .vocab_size = kCountTokens});
  }

  // Seeds go through the models in turn.
  const LoadModel& ModelOf(uint64_t seed) const { return models_[seed % models_.size()]; }

  ScratchDirectory directory_;
  std::vector<LoadModel> models_;
};

TEST_F(EqualityTest, EveryAnswerIsWhatItsRequestGetsAlone) {
  const int only = FromEnvironment("QUIRE_EQUALITY_SEED", -1);
  const int num_loads = only >= 0 ? 1 : FromEnvironment("QUIRE_EQUALITY_LOADS", kUsualLoads);
  LoadEvents events;
  for (int i = 0; i < num_loads; ++i) {
    const auto seed = static_cast<uint64_t>(only >= 0 ? only : i);
    const Load load = testing::MakeLoad(seed, ModelOf(seed), {});
    SCOPED_TRACE(testing::Describe(load));
    const std::vector<LoadAnswer> answers = testing::RunLoad(load, &events);
    ASSERT_EQ(answers.size(), load.requests.size());
    testing::ExpectAnswersAsAlone(load, answers);
    ASSERT_FALSE(HasFailure());
  }
  fmt::print("{} loads: {}\n", num_loads, testing::ToString(events));
  if (num_loads < kTellingLoads) return;
  EXPECT_GT(events.prefix_hits, 0);
  EXPECT_GT(events.partial_hits, 0);
  EXPECT_GT(events.evictions, 0);
  EXPECT_GT(events.preemptions, 0);
  EXPECT_GT(events.forks, 0);
  EXPECT_GT(events.copies_on_write, 0);
  EXPECT_GT(events.window_releases, 0);
  EXPECT_GT(events.shared_waits, 0);
  EXPECT_GT(events.aborts, 0);
  EXPECT_GT(events.drafts_accepted, 100);
  EXPECT_GT(events.drafts_refused, 1000);
}

TEST_F(EqualityTest, KernelSetsGiveTheSameAnswersToTheSameLoad) {
  for (const LoadModel& model : models_) {
    Load load = testing::MakeLoad(1000, model, {.num_requests = 6, .max_tokens = 12});
    load.options.runner.kernels = std::string(AvailableKernels().back()->name);
    const std::vector<LoadAnswer> expected = testing::RunLoad(load, nullptr);
    for (const KernelSet* set : AvailableKernels()) {
      // The scalar program takes its time, and its bits are compared elsewhere.
      if (set->name == "reference" && &model != &models_.front()) continue;
      load.options.runner.kernels = std::string(set->name);
      SCOPED_TRACE(testing::Describe(load));
      testing::ExpectSameAnswers(testing::RunLoad(load, nullptr), expected);
      ASSERT_FALSE(HasFailure());
    }
  }
}

TEST_F(EqualityTest, NumbersOfThreadsGiveTheSameAnswersToTheSameLoad) {
  for (const LoadModel& model : models_) {
    Load load = testing::MakeLoad(2000, model, {.num_requests = 6, .max_tokens = 12});
    load.options.runner.num_threads = 1;
    const std::vector<LoadAnswer> expected = testing::RunLoad(load, nullptr);
    for (const int threads : {2, 5}) {
      load.options.runner.num_threads = threads;
      SCOPED_TRACE(testing::Describe(load));
      testing::ExpectSameAnswers(testing::RunLoad(load, nullptr), expected);
      ASSERT_FALSE(HasFailure());
    }
  }
}

TEST_F(EqualityTest, EveryKvTypeIsAmongTheLoads) {
  for (const KvType type : {KvType::kF16, KvType::kBF16, KvType::kF32, KvType::kQ8_0}) {
    int count = 0;
    for (uint64_t seed = 0; seed < kTellingLoads; ++seed) {
      count += testing::MakeLoad(seed, ModelOf(seed), {}).options.runner.kv_type == type;
    }
    EXPECT_GT(count, 0) << NameOf(type);
  }
}

}  // namespace
}  // namespace quire
