// Faults that tiers of KV caches are known for, on a model that counts: an entry that is missing,
// foreign, stale or doubled changes log-probabilities by a known amount
// (tests/engine/kv_cases_test.cc).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "engine/engine_fixture.h"
#include "engine/request_runs.h"
#include "kv/tiers/disk/disk_tier.h"
#include "support/rigs.h"
#include "support/sanitizers.h"
#include "support/scratch_directory.h"

namespace quire {
namespace {

using testing::Repeated;
using testing::RunOne;

constexpr int kTokens = 18;
constexpr int kContext = 2304;

Request Counting(std::vector<int32_t> prompt, int max_tokens) {
  Request request = testing::GreedyRequest(std::move(prompt), max_tokens);
  request.sampling.logprobs = kTokens;
  request.ignore_end_of_text = true;
  return request;
}

class TierCasesTest : public ::testing::Test {
 protected:
  TierCasesTest() { testing::WriteCountModel(Path(), kTokens, kContext); }

  std::filesystem::path Path() const { return directory_.path() / "count.gguf"; }
  std::filesystem::path Store() const { return directory_.path() / "kv"; }

  // num_blocks: of the pool; 0 = plenty. Over the one directory.
  std::unique_ptr<Engine> Make(int num_blocks = 0) const {
    RunnerOptions runner{.num_threads = 1, .context_length = kContext, .num_sequences = 4};
    if (num_blocks > 0) runner.kv_bytes = testing::PoolBytes(Path(), num_blocks);
    EngineOptions options{.runner = runner};
    options.tiers.idle_ms = 0;
    options.tiers.factories.push_back([this](std::shared_ptr<const RecordCodec> codec) {
      return OpenDiskTier(
          codec, {.directory = Store(), .max_bytes = uint64_t{256} << 20, .min_free_bytes = 0});
    });
    return testing::MakeTestEngine(Path(), options);
  }
  RequestResult Cold(const Request& request) const {
    return RunOne(*testing::MakeTestEngine(
                      Path(), {.runner = {.num_threads = 1, .context_length = kContext}}),
                  request);
  }
  void Fill(const Request& request) const {
    const auto engine = Make();
    RunOne(*engine, request);
    ASSERT_EQ(engine->FlushTiers(), 0);
  }

  static void ExpectSame(const RequestResult& one, const RequestResult& other) {
    ASSERT_EQ(one.choices.size(), 1u);
    ASSERT_EQ(other.choices.size(), 1u);
    EXPECT_EQ(one.choices[0].tokens, other.choices[0].tokens);
    testing::ExpectSameLogProbs(one.choices[0].log_probs, other.choices[0].log_probs);
  }

  ScratchDirectory directory_;
};

TEST_F(TierCasesTest, ARestoredPromptReusesAllButItsTail) {
  std::vector<int32_t> prompt;
  for (int i = 0; i < 1100; ++i) prompt.push_back(i * 7 % 13);
  Fill(Counting(prompt, 2));
  for (int i = 0; i < 5; ++i) prompt.push_back(3);
  const Request longer = Counting(prompt, 6);
  const RequestResult result = RunOne(*Make(), longer);
  EXPECT_EQ(result.cached_by_tier.disk, 1088);
  EXPECT_GE(result.cached_tokens, 1000);
  EXPECT_LT(result.cached_tokens, result.prompt_tokens);
  ExpectSame(result, Cold(longer));
}

TEST_F(TierCasesTest, PromptsThatEndWithABlockKeepTheirLastToken) {
  for (const int length : {1, 16, 32, 64}) {
    SCOPED_TRACE(length);
    const Request request = Counting(Repeated(length % 7 + 1, length), 3);
    Fill(request);
    const RequestResult result = RunOne(*Make(), request);
    EXPECT_EQ(result.cached_by_tier.disk, (length - 1) / 16 * 16);
    ExpectSame(result, Cold(request));
  }
}

// Memory for two sessions, disk for all of them; each comes back among short strangers.
TEST_F(TierCasesTest, SessionsThatWentToDiskComeBackAsTheirOwn) {
  constexpr int kSessions = 8;
  constexpr int kLength = 2000;
  const auto engine = Make(kLength / 16 * 2 + 20);
  const auto session = [&](int i) { return Counting(Repeated(i + 1, kLength), 2); };
  for (int i = 0; i < kSessions; ++i) RunOne(*engine, session(i));
  engine->FlushTiers();
  EXPECT_GT(engine->cache().counters().blocks_evicted, 0);
  for (const int i : {3, 0, 7, 1, 6, 2, 5, 4}) {
    SCOPED_TRACE(i);
    RunOne(*engine, Counting(Repeated(12, 20 + i), 2));
    const RequestResult result = RunOne(*engine, session(i));
    if (i < kSessions - 2) {
      EXPECT_GE(result.cached_by_tier.disk, kLength / 2);
    }
    for (const TokenLogProb& each : result.choices[0].log_probs[0].top) {
      // Only its own token was ever seen.
      if (each.token != i + 1) {
        EXPECT_LT(each.log_prob, result.choices[0].log_probs[0].chosen.log_prob - 9);
      }
    }
    ExpectSame(result, Cold(session(i)));
  }
  engine->CheckInvariants();
}

TEST_F(TierCasesTest, APromiseThatIsNotKeptIsComputedFromTheRightPlace) {
  const Request request = Counting(Repeated(2, 200), 4);
  Fill(request);
  const auto engine = Make();
  // The tier has read its index, and knows that the blocks are there.
  for (const auto& file : std::filesystem::directory_iterator(Store())) {
    if (file.path().extension() == ".slab") std::filesystem::resize_file(file.path(), 4096 * 2);
  }
  const RequestResult result = RunOne(*engine, request);
  EXPECT_LT(result.cached_tokens, 192);
  EXPECT_EQ(result.miss.reason, MissReason::kTierFault);
  ExpectSame(result, Cold(request));
}

TEST_F(TierCasesTest, RequestsThatGoAtAnyMomentLeaveNoBlockBehind) {
  Fill(Counting(Repeated(2, 800), 2));
  constexpr int kBlocks = 200;
  const auto engine = Make(kBlocks);
  std::mt19937 random(7);
  std::vector<RequestId> open;
  for (int i = 0; i < (testing::kHasSanitizer ? 60 : 500); ++i) {
    const int length = 100 + static_cast<int>(random() % 700);
    const auto id = engine->Submit(Counting(Repeated(2, length), 8), {});
    ASSERT_TRUE(id.ok());
    open.push_back(*id);
    for (uint64_t steps = random() % 3; steps > 0; --steps) engine->Step();
    if (random() % 2 == 0) engine->Step();
    while (open.size() > random() % 4) {
      engine->Abort(open.back());
      open.pop_back();
    }
    if (i % 50 == 0) engine->CheckInvariants();
  }
  engine->AbortAll();
  while (engine->RunIdle()) {
  }
  EXPECT_EQ(engine->cache().usage().used_blocks, 0);
  const RequestResult result = RunOne(*engine, Counting(Repeated(3, kBlocks * 16 * 7 / 10), 2));
  EXPECT_EQ(result.choices.at(0).tokens.size(), 2u);
}

TEST_F(TierCasesTest, PromptLogProbabilitiesAreComputedWhateverTiersHold) {
  Request request = Counting(Repeated(2, 33), 1);
  Fill(request);
  request.prompt_logprobs = 1;
  const auto engine = Make();
  for (int run = 0; run < 2; ++run) {
    const RequestResult result = RunOne(*engine, request);
    EXPECT_EQ(result.cached_tokens, 0);
    ASSERT_EQ(result.prompt_log_probs.size(), 33u);
    EXPECT_FALSE(result.prompt_log_probs[0].has_value());
    EXPECT_TRUE(result.prompt_log_probs[32].has_value());
  }
}

}  // namespace
}  // namespace quire
