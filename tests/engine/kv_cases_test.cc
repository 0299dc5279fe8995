// Faults that KV caches are known for, on a model that counts: the logit of token j is about
// 10 * c_j / |c|, c the counts of the tokens attended. An entry that is missing, foreign, stale or
// doubled changes log-probabilities by a known amount.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "engine/engine_fixture.h"
#include "engine/request_runs.h"
#include "support/rigs.h"
#include "support/sanitizers.h"
#include "support/scratch_directory.h"
#include "support/tiny_llama.h"

namespace quire {
namespace {

using testing::Repeated;
using testing::RunOne;
using testing::RunTogether;

constexpr int kTokens = 18;
constexpr int kContext = 256;
// Nobody ever sends it: its logit is that of a token that was never seen.
constexpr int32_t kUnseen = kTokens - 1;

// With the log-probabilities of the whole vocabulary.
Request Counting(std::vector<int32_t> prompt, int max_tokens) {
  Request request = testing::GreedyRequest(std::move(prompt), max_tokens);
  request.sampling.logprobs = kTokens;
  request.ignore_end_of_text = true;
  return request;
}

std::map<int32_t, double> ByToken(const LogProbs& log_probs) {
  std::map<int32_t, double> found;
  for (const TokenLogProb& each : log_probs.top) found[each.token] = each.log_prob;
  return found;
}

class KvCasesTest : public ::testing::Test {
 protected:
  KvCasesTest() { testing::WriteCountModel(Path(), kTokens, kContext); }

  std::filesystem::path Path() const { return directory_.path() / "count.gguf"; }

  // num_blocks: of the pool; 0 = plenty.
  std::unique_ptr<Engine> Make(int num_blocks = 0, int context_length = kContext, int chunk = 512,
                               int max_sequences = 64) const {
    RunnerOptions runner{.num_threads = 1, .context_length = context_length, .num_sequences = 20};
    if (num_blocks > 0) runner.kv_bytes = testing::PoolBytes(Path(), num_blocks);
    return testing::MakeTestEngine(
        Path(), {.runner = runner,
                 .scheduler = {.max_sequences = max_sequences, .max_batched_tokens = chunk}});
  }

  RequestResult Alone(const Request& request) const { return RunOne(*Make(), request); }

  ScratchDirectory directory_;
};

TEST_F(KvCasesTest, ABlockHoldsItsTokensOnceAndNoOthers) {
  testing::WriteCountModel(Path(), 16, 64);
  const auto engine = testing::MakeTestEngine(Path());
  for (const auto& [ones, gap] : {std::pair{15, .92844}, {16, .93287}, {17, .93676}}) {
    std::vector<int32_t> prompt = Repeated(1, ones);
    prompt.push_back(2);
    for (const int run : {0, 1, 2}) {
      const RequestResult result = RunOne(*engine, Counting(prompt, 1));
      auto seen = ByToken(result.choices.at(0).log_probs.at(0));
      EXPECT_NEAR((seen[1] - seen[2]) / 10, gap, 1e-5) << ones << " ones, run " << run;
      EXPECT_TRUE(run == 0 || result.cached_tokens == ones) << result.cached_tokens;
    }
  }
}

TEST_F(KvCasesTest, AWarmRunEqualsTheColdOne) {
  std::mt19937 random(1);
  const auto engine = Make();
  std::vector<int32_t> prefix(100);
  for (int32_t& token : prefix) token = static_cast<int32_t>(random() % 16);
  for (int i = 0; i < 12; ++i) {
    std::vector<int32_t> prompt(17 + 9 * static_cast<size_t>(i));
    for (int32_t& token : prompt) token = static_cast<int32_t>(random() % 16);
    const auto expect_equal_runs = [&](const std::vector<int32_t>& tokens, int num_runs) {
      const Request request = Counting(tokens, 6);
      const RequestResult cold = Alone(request);
      EXPECT_EQ(cold.cached_tokens, 0);
      for (int run = 0; run < num_runs; ++run) {
        const RequestResult result = RunOne(*engine, request);
        EXPECT_TRUE(run == 0 || result.cached_tokens > 0);
        testing::ExpectSameChoices(result, cold);
      }
    };
    expect_equal_runs(prompt, 3);
    std::vector<int32_t> shared = prefix;
    shared.insert(shared.end(), prompt.begin(), prompt.begin() + 10 + i);
    expect_equal_runs(shared, 2);
  }
  EXPECT_GT(engine->cache().counters().partial_hits, 0);
}

TEST_F(KvCasesTest, APromptThatFillsItsBlocksIsReusedButForItsLastToken) {
  const auto engine = Make();
  for (const int length : {1, 16, 32, 64}) {
    std::vector<int32_t> prompt = Repeated(1, length);
    prompt.front() = length % 13 + 2;  // nothing is shared between lengths
    const Request request = Counting(prompt, 4);
    const RequestResult cold = Alone(request);
    const RequestResult first = RunOne(*engine, request);
    EXPECT_EQ(first.cached_tokens, 0);
    testing::ExpectSameChoices(first, cold);
    for (int run = 0; run < 2; ++run) {
      const RequestResult again = RunOne(*engine, request);
      EXPECT_EQ(again.cached_tokens, length - 1);
      testing::ExpectSameChoices(again, cold);
    }
  }
}

TEST_F(KvCasesTest, ConversationsNeverSeeEachOther) {
  // Room for about two of six conversations, which take turns.
  const auto engine = Make(/*num_blocks=*/16, /*context_length=*/128, 512, /*max_sequences=*/2);
  std::vector<std::vector<int32_t>> histories;
  for (int32_t k = 0; k < 6; ++k) histories.push_back({2 * k + 1, 2 * k + 2, 2 * k + 1});
  for (int turn = 0; turn < 5; ++turn) {
    std::vector<Request> requests;
    for (const std::vector<int32_t>& history : histories) requests.push_back(Counting(history, 12));
    const std::vector<RequestResult> results = RunTogether(*engine, requests);
    for (int32_t k = 0; k < 6; ++k) {
      ASSERT_EQ(results[k].choices.size(), 1u);
      for (const LogProbs& log_probs : results[k].choices[0].log_probs) {
        auto seen = ByToken(log_probs);
        ASSERT_EQ(seen.size(), static_cast<size_t>(kTokens));
        for (const auto& [token, log_prob] : seen) {
          const bool is_own = token == 2 * k + 1 || token == 2 * k + 2;
          // The zero-count value, to the bit.
          EXPECT_TRUE(is_own ? log_prob > seen[kUnseen] : log_prob == seen[kUnseen])
              << token << " in conversation " << k;
        }
      }
      testing::ExpectSameChoices(results[k], Alone(Counting(histories[k], 12)));
      const std::vector<int32_t>& tokens = results[k].choices[0].tokens;
      histories[k].insert(histories[k].end(), tokens.begin(), tokens.end());
      histories[k].push_back(2 * k + 2);
    }
  }
  EXPECT_GT(engine->cache().counters().blocks_evicted, 0);
}

TEST_F(KvCasesTest, RequestsThatEndEarlyLeaveTheOthersAlone) {
  const int num_rounds = testing::kHasSanitizer ? 3 : 20;
  std::vector<Choice> alone;
  for (int32_t k = 0; k < 16; ++k) {
    alone.push_back(Alone(Counting(Repeated(k + 1, 20 + 7 * k), 40)).choices[0]);
  }
  std::mt19937 random(6);
  for (int round = 0; round < num_rounds; ++round) {
    const auto engine = Make(/*num_blocks=*/60, kContext, /*chunk=*/64);
    std::vector<int> max_tokens;
    std::vector<Request> requests;
    for (int32_t k = 0; k < 16; ++k) {
      max_tokens.push_back(1 + static_cast<int>(random() % 40));
      requests.push_back(Counting(Repeated(k + 1, 20 + 7 * k), max_tokens.back()));
    }
    const std::vector<RequestResult> results = RunTogether(*engine, requests);
    for (size_t k = 0; k < 16; ++k) {
      ASSERT_EQ(results[k].choices.size(), 1u);
      const Choice& choice = results[k].choices[0];
      EXPECT_EQ(choice.tokens, Repeated(static_cast<int32_t>(k) + 1, max_tokens[k]));
      std::vector<LogProbs> expected = alone[k].log_probs;
      expected.resize(choice.tokens.size());
      testing::ExpectSameLogProbs(choice.log_probs, expected);
    }
  }
}

TEST_F(KvCasesTest, APreemptedRequestComesBackWhole) {
  // Each needs 5 blocks in the end; 7 hold one and a half.
  const auto engine = Make(/*num_blocks=*/7, /*context_length=*/96);
  ASSERT_EQ(engine->cache().usage().total_blocks, 7);
  std::vector<std::vector<int32_t>> told(2);
  std::vector<RequestResult> results(2);
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const RequestHooks hooks{
        .on_piece = [&told, i](const AnswerPiece& piece) { told[i].push_back(piece.token); },
        .on_finish = [&results, i](RequestResult result) { results[i] = std::move(result); }};
    ASSERT_TRUE(
        engine->Submit(Counting(Repeated(static_cast<int32_t>(i) + 3, 34), 35), hooks).ok());
  }
  testing::RunChecked(*engine);
  EXPECT_GE(engine->batch().counters().preemptions, 1);
  const auto large = Make(/*num_blocks=*/20, /*context_length=*/96);
  for (const size_t i : {size_t{0}, size_t{1}}) {
    ASSERT_EQ(results[i].choices.size(), 1u);
    EXPECT_EQ(results[i].choices[0].tokens.size(), 35u);
    EXPECT_EQ(told[i], results[i].choices[0].tokens);
    const Request request = Counting(Repeated(static_cast<int32_t>(i) + 3, 34), 35);
    testing::ExpectSameChoices(results[i], Alone(request));
    testing::ExpectSameChoices(results[i], RunOne(*large, request));
  }
  EXPECT_EQ(large->batch().counters().preemptions, 0);
}

TEST_F(KvCasesTest, AContextIsUsedToItsLastTokenAndNeverPassed) {
  const auto engine = Make();
  const auto prompt = [](int length) {
    std::vector<int32_t> tokens = Repeated(2, length);
    tokens.front() = 5;  // a marker at the very beginning
    return tokens;
  };
  const RequestResult last = RunOne(*engine, Counting(prompt(255), -1));
  EXPECT_EQ(last.prompt_tokens, 255);
  ASSERT_EQ(last.choices[0].tokens.size(), 1u);
  EXPECT_EQ(last.choices[0].finish_reason, FinishReason::kLength);
  auto seen = ByToken(last.choices[0].log_probs[0]);
  EXPECT_GT(seen[5], seen[kUnseen]) << "the first token is not attended";
  for (const int length : {256, 257, 5000}) {
    const auto refused = engine->Submit(Counting(prompt(length), 1));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kContextLength);
    EXPECT_NE(refused.error().message.find(std::to_string(length)), std::string::npos);
    EXPECT_NE(refused.error().message.find("256"), std::string::npos) << refused.error().message;
  }
  const RequestResult endless = RunOne(*engine, Counting(prompt(200), -1));
  EXPECT_EQ(endless.choices[0].tokens.size(), 56u);
  EXPECT_EQ(endless.choices[0].finish_reason, FinishReason::kLength);
}

TEST_F(KvCasesTest, AbortedRequestsLeaveNoBlockBehind) {
  constexpr int kBlocks = 40;
  const auto engine = Make(kBlocks, /*context_length=*/kContext, /*chunk=*/24, /*max_sequences=*/6);
  const int num_requests = testing::kHasSanitizer ? 120 : 500;
  std::mt19937 random(21);
  int num_ends = 0;
  std::vector<std::pair<RequestId, int>> open;  // and the steps that it still has
  for (int sent = 0; sent < num_requests || !open.empty();) {
    while (sent < num_requests && open.size() < 20) {
      Request request = Counting(Repeated(static_cast<int32_t>(random() % 16), 1 + random() % 150),
                                 1 + static_cast<int>(random() % 60));
      request.num_choices = 1 + static_cast<int>(random() % 3);
      const auto id = engine->Submit(
          std::move(request), {.on_finish = [&num_ends](const RequestResult&) { ++num_ends; }});
      ASSERT_TRUE(id.ok()) << id.error().message;
      open.emplace_back(*id, static_cast<int>(random() % 40));
      ++sent;
    }
    std::erase_if(open, [&](auto& request) {
      if (request.second-- > 0) return false;
      engine->Abort(request.first);
      return true;
    });
    engine->CheckInvariants();
    engine->Step();
    engine->CheckInvariants();
  }
  testing::RunChecked(*engine);
  EXPECT_EQ(num_ends, num_requests);
  const KvUsage usage = engine->cache().usage();
  EXPECT_EQ(usage.used_blocks, 0);
  EXPECT_EQ(usage.free_blocks + usage.cached_blocks, kBlocks);
  // n = 3 of a long prompt: 90 % of the pool, 16 blocks shared by all at most.
  Request large = Counting(Repeated(7, 100), 150);
  large.num_choices = 3;
  large.sampling.temperature = 1;
  large.sampling.seed = 1;
  const RequestResult served = RunOne(*engine, large);
  ASSERT_EQ(served.choices.size(), 3u);
  testing::ExpectSameChoices(served, Alone(large));
}

TEST_F(KvCasesTest, ARequestThatFillsThePoolIsServedAfterAborts) {
  const auto engine = Make(/*num_blocks=*/16);
  for (int i = 0; i < 30; ++i) {
    const auto id = engine->Submit(Counting(Repeated(i % 16, 90), 100));
    ASSERT_TRUE(id.ok());
    for (int step = 0; step < i; ++step) engine->Step();
    engine->Abort(*id);
  }
  const Request request = Counting(Repeated(3, 150), 90);  // 15 of 16 blocks
  testing::ExpectSameChoices(RunOne(*engine, request), Alone(request));
}

TEST_F(KvCasesTest, PromptLogProbsAreNotShiftedByWhatIsCached) {
  const auto engine = Make();
  std::vector<int32_t> prompt;
  for (int i = 0; i < 33; ++i) prompt.push_back(i % 5 + 1);
  RunOne(*engine, Counting(prompt, 2));  // the cache has it
  Request request = Counting(prompt, 2);
  request.prompt_logprobs = 1;
  const RequestResult cold = Alone(request);
  for (int run = 0; run < 2; ++run) {
    const RequestResult result = RunOne(*engine, request);
    EXPECT_EQ(result.cached_tokens, 0);
    ASSERT_EQ(result.prompt_log_probs.size(), 33u);
    EXPECT_FALSE(result.prompt_log_probs[0].has_value());
    for (size_t i = 1; i < 33; ++i) {
      ASSERT_TRUE(result.prompt_log_probs[i].has_value());
      EXPECT_EQ(result.prompt_log_probs[i]->chosen.token, prompt[i]);
      testing::ExpectSameLogProbs({*result.prompt_log_probs[i]}, {*cold.prompt_log_probs[i]});
    }
    testing::ExpectSameChoices(result, cold);
  }
}

TEST_F(KvCasesTest, CachedTokensAreToldAndArePartOfThePrompt) {
  const auto engine = Make();
  for (const int length : {1, 15, 16, 17, 40}) {
    const Request request = Counting(Repeated(length % 11 + 1, length), 3);
    const RequestResult cold = RunOne(*engine, request);
    const RequestResult warm = RunOne(*engine, request);
    EXPECT_EQ(cold.prompt_tokens, length);
    EXPECT_EQ(warm.prompt_tokens, length);
    EXPECT_EQ(cold.cached_tokens, 0);
    EXPECT_EQ(warm.cached_tokens, length - 1);
  }
}

TEST_F(KvCasesTest, TheNextTurnComputesTheNewTokensAndAtMostABlock) {
  const auto engine = Make();
  std::vector<int32_t> history = Repeated(1, 37);
  const RequestResult first = RunOne(*engine, Counting(history, 20));
  history.insert(history.end(), first.choices[0].tokens.begin(), first.choices[0].tokens.end());
  const int before = static_cast<int>(history.size());
  for (int i = 0; i < 5; ++i) history.push_back(4);
  const int64_t computed = engine->counters().computed_tokens;
  const RequestResult second = RunOne(*engine, Counting(history, 1));
  // The last token of the answer was never fed.
  EXPECT_GE(second.cached_tokens, before - 1);
  EXPECT_LE(engine->counters().computed_tokens - computed, 5 + kBlockSlots);
  testing::ExpectSameChoices(second, Alone(Counting(history, 1)));
}

TEST_F(KvCasesTest, EqualPromptsThatComeTogetherAreComputedOnce) {
  const auto engine = Make(0, kContext, /*chunk=*/32);
  std::vector<Request> requests;
  for (int i = 0; i < 5; ++i) requests.push_back(Counting(Repeated(6, 160), 4));
  const std::vector<RequestResult> results = RunTogether(*engine, requests);
  const RequestResult alone = Alone(requests[0]);
  for (const RequestResult& result : results) testing::ExpectSameChoices(result, alone);
  // Once the prompt, and for each of the others at most a block; and three tokens that are fed.
  EXPECT_LE(engine->counters().computed_tokens, 160 + 4 * kBlockSlots + 5 * 3);
}

// --- Quantised keys and values ---

class KvTypeCasesTest : public ::testing::TestWithParam<int> {};

TEST_P(KvTypeCasesTest, Q8AnswersNearlyAsF16OrIsRefused) {
  const int head_dim = GetParam();
  ScratchDirectory directory;
  const std::filesystem::path path = directory.path() / "random.gguf";
  ASSERT_TRUE(
      testing::TinyLlama({.key_dim = head_dim, .value_dim = head_dim, .context_length = 512})
          .Write(path));
  std::mt19937 random(20);
  std::vector<int32_t> prompt(300);
  for (int32_t& token : prompt) token = static_cast<int32_t>(random() % 64);
  Request request = Counting(prompt, 50);
  const auto exact = testing::MakeTestEngine(path, {.runner = {.kv_type = KvType::kF16}});
  const RequestResult expected = RunOne(*exact, request);

  const RunnerOptions quantised{.num_threads = 1, .context_length = 384, .kv_type = KvType::kQ8_0};
  const auto made = ModelRunner::Create(path, quantised);
  if (head_dim % 32 != 0) {
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(made.error().message.find(std::to_string(head_dim)), std::string::npos);
    return;
  }
  ASSERT_TRUE(made.ok()) << made.error().message;
  // The chosen tokens' log-probabilities of the same ids.
  std::vector<int32_t> tokens = prompt;
  const std::vector<int32_t>& answer = expected.choices[0].tokens;
  tokens.insert(tokens.end(), answer.begin(), answer.end() - 1);
  std::vector<float> rows(answer.size() * 64);
  ASSERT_TRUE((*made)->ComputeRows(tokens, static_cast<int>(answer.size()), rows).ok());
  for (size_t i = 0; i < answer.size(); ++i) {
    const auto log_probs = ComputeLogProbs(std::span(rows).subspan(i * 64, 64), 0, answer[i]);
    ASSERT_TRUE(log_probs.ok()) << log_probs.error().message;
    EXPECT_NEAR(log_probs->chosen.log_prob, expected.choices[0].log_probs[i].chosen.log_prob, .05);
  }
  // Reused and preempted: two that do not fit together, twice.
  RunnerOptions small = quantised;
  small.kv_bytes = testing::PoolBytes(path, 42, KvType::kQ8_0);
  const auto engine = testing::MakeTestEngine(path, {.runner = small});
  std::vector<Request> requests{request, request};
  requests[1].prompt.front() ^= 1;
  for (int run = 0; run < 2; ++run) {
    const std::vector<RequestResult> results = RunTogether(*engine, requests);
    for (size_t i = 0; i < 2; ++i) {
      const auto alone = testing::MakeTestEngine(path, {.runner = quantised});
      testing::ExpectSameChoices(results[i], RunOne(*alone, requests[i]));
    }
  }
  EXPECT_GE(engine->batch().counters().preemptions, 1);
}

INSTANTIATE_TEST_SUITE_P(HeadDims, KvTypeCasesTest, ::testing::Values(64, 80, 96, 128),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace quire
