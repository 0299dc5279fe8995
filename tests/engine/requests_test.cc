// What a request may ask for, each beside others that ask for something else.
#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "engine/requests_fixture.h"

namespace quire {
namespace {

using testing::GreedyRequest;
using testing::kRequestsModel;
using testing::RunOne;
using testing::RunTogether;

class RequestsTest : public testing::RequestsFixture {};

// --- Ends ---

TEST_F(RequestsTest, EachRequestOfABatchEndsByItsOwnRules) {
  const auto engine = Alphabet({0, 2, 3, 4, 0});  // a b c d <end>
  const Request plain = GreedyRequest({1}, 20);
  Request stop = plain;
  stop.stops = {"cd"};
  Request kept_stop = stop;
  kept_stop.include_stop = true;
  Request stop_id = plain;
  stop_id.stop_token_ids = {3};
  Request ignoring = plain;
  ignoring.ignore_end_of_text = true;
  ignoring.max_tokens = 6;
  Request length = plain;
  length.max_tokens = 2;
  const auto results = RunTogether(*engine, {plain, stop, kept_stop, stop_id, ignoring, length});
  const auto choice = [&](size_t i) -> const Choice& { return results[i].choices.at(0); };
  EXPECT_EQ(choice(0).text, "bcd");
  EXPECT_EQ(choice(0).finish_reason, FinishReason::kStop);
  EXPECT_EQ(choice(0).matched_stop_token, 0);
  EXPECT_EQ(choice(1).text, "b");
  EXPECT_EQ(choice(1).matched_stop, "cd");
  EXPECT_EQ(choice(2).text, "bcd");
  EXPECT_EQ(choice(2).matched_stop, "cd");
  EXPECT_EQ(choice(3).text, "b");
  EXPECT_EQ(choice(3).tokens, (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(choice(3).matched_stop_token, 3);
  EXPECT_EQ(choice(4).tokens.size(), 6u);
  EXPECT_EQ(choice(4).finish_reason, FinishReason::kLength);
  EXPECT_EQ(choice(5).text, "bc");
  EXPECT_EQ(choice(5).finish_reason, FinishReason::kLength);
}

TEST_F(RequestsTest, BelowMinTokensNothingEndsAnAnswer) {
  const auto engine = Alphabet({0, 0, 2});  // <end> after a, b after b
  Request request = GreedyRequest({1}, 9);
  request.min_tokens = 4;
  request.stops = {"b"};
  request.stop_token_ids = {3};
  const Choice choice = RunOne(*engine, request).choices.at(0);
  // <end> and c are banned below 4; whatever comes in their place is not b's end either.
  EXPECT_GE(choice.tokens.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NE(choice.tokens[i], 0);
    EXPECT_NE(choice.tokens[i], 3);
  }
  request.min_tokens = 0;
  EXPECT_EQ(RunOne(*engine, request).choices.at(0).tokens, std::vector<int32_t>{0});
}

// --- n ---

TEST_F(RequestsTest, ChoicesShareThePromptsBlocks) {
  const auto engine = Tiny();
  Request request = Sampled(Ascending(64), 8);
  request.num_choices = 4;
  int ends = 0;
  ASSERT_TRUE(engine->Submit(request, {.on_finish = [&](const RequestResult&) { ++ends; }}).ok());
  engine->Step();
  EXPECT_EQ(engine->cache().usage().used_blocks, 4);  // of the prompt, for all
  engine->Step();
  EXPECT_EQ(engine->cache().usage().used_blocks, 4 + 4);  // and one each
  EXPECT_EQ(engine->counters().computed_tokens, 64 + 4);
  testing::RunChecked(*engine);
  EXPECT_EQ(ends, 1);
  EXPECT_EQ(engine->batch().counters().forks, 3);
}

TEST_F(RequestsTest, ChoicesOfAPartlyFilledBlockCopyItBeforeTheyWrite) {
  const auto engine = Tiny();
  Request request = Sampled(Ascending(40), 20);
  request.num_choices = 3;
  const RequestResult together = RunOne(*engine, request);
  EXPECT_GE(engine->cache().counters().blocks_copied, 2);
  // Each as the continuation of its ids alone.
  for (const Choice& choice : together.choices) {
    std::vector<int32_t> tokens = request.prompt;
    tokens.insert(tokens.end(), choice.tokens.begin(), choice.tokens.end() - 1);
    const std::vector<float> rows =
        testing::AllLogits(*testing::MakeTestRunner(testing::TinyModel(kRequestsModel)), tokens);
    const size_t vocab = rows.size() / tokens.size();
    for (size_t i = 0; i < choice.tokens.size(); ++i) {
      const auto expected =
          ComputeLogProbs(std::span(rows).subspan((39 + i) * vocab, vocab), 2, choice.tokens[i]);
      ASSERT_TRUE(expected.ok());
      testing::ExpectSameLogProbs({choice.log_probs[i]}, {*expected});
    }
  }
}

// --- Beams ---

TEST_F(RequestsTest, BeamsFindTheBestSequencesOfAll) {
  // Three tokens whose transitions differ, three steps: 27 sequences, of which 9 beams lose none
  // before the last step.
  const std::vector<std::vector<float>> logits{
      {-60, 0, 0, 0}, {-60, 1.0f, .4f, .3f}, {-60, .1f, .2f, 2.0f}, {-60, 1.5f, .9f, -1}};
  testing::WriteMarkovModel(Path(), {{"<end>", true}, {"a"}, {"b"}, {"c"}}, logits);
  const auto engine = testing::MakeTestEngine(Path());
  const auto log_prob = [&](int32_t from, int32_t to) {
    double sum = 0;
    for (const float logit : logits[static_cast<size_t>(from)]) sum += std::exp(logit);
    return logits[static_cast<size_t>(from)][static_cast<size_t>(to)] - std::log(sum);
  };
  const auto sum_of = [&](const std::vector<int32_t>& tokens) {
    return log_prob(1, tokens[0]) + log_prob(tokens[0], tokens[1]) + log_prob(tokens[1], tokens[2]);
  };
  std::vector<double> all;
  for (int code = 0; code < 27; ++code) {
    all.push_back(sum_of({code / 9 + 1, code / 3 % 3 + 1, code % 3 + 1}));
  }
  std::ranges::sort(all, std::greater());
  Request request{.prompt = {1}, .num_choices = 4, .max_tokens = 3};
  request.beams = {.width = 9, .length_penalty = 2};
  request.ignore_end_of_text = true;
  const RequestResult result = RunOne(*engine, request);
  ASSERT_EQ(result.choices.size(), 4u);
  std::set<std::vector<int32_t>> distinct;
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(result.choices[i].cumulative_log_prob, all[i], 1e-5);
    EXPECT_NEAR(sum_of(result.choices[i].tokens), all[i], 1e-5);
    distinct.insert(result.choices[i].tokens);
    EXPECT_DOUBLE_EQ(result.choices[i].score, result.choices[i].cumulative_log_prob / 9);
  }
  EXPECT_EQ(distinct.size(), 4u);
  EXPECT_GT(engine->batch().counters().forks, 0);
}

TEST_F(RequestsTest, MoreBeamsThanMayRunAtOnceTakeTurns) {
  Request request = Sampled(Ascending(50), 10);
  request.beams = {.width = 5};
  request.num_choices = 5;
  const RequestResult expected = RunOne(*Tiny(), request);
  ASSERT_EQ(expected.choices.size(), 5u);
  for (const int max_sequences : {1, 2, 3}) {
    for (const int num_blocks : {8, 9, 16}) {
      const RequestResult result = RunOne(*Tiny(num_blocks, 16, max_sequences), request);
      EXPECT_TRUE(result.status.ok()) << result.status.error().message;
      testing::ExpectSameChoices(result, expected);
    }
  }
}

// --- Prompt log-probabilities ---

TEST_F(RequestsTest, PromptLogProbsAreThoseOfThePromptAlone) {
  const std::vector<int32_t> prompt = Ascending(100);
  const std::vector<float> rows =
      testing::AllLogits(*testing::MakeTestRunner(testing::TinyModel(kRequestsModel)), prompt);
  const size_t vocab = rows.size() / prompt.size();
  for (const int chunk : {7, 64, 512}) {
    const auto engine = Tiny(0, chunk);
    Request request = Sampled(prompt, 3);
    request.prompt_logprobs = 2;
    request.num_choices = 2;
    Request other = Sampled(prompt, 3, 2);  // wants none, and shares the prompt
    const auto results = RunTogether(*engine, {request, other});
    ASSERT_EQ(results[0].prompt_log_probs.size(), prompt.size());
    EXPECT_FALSE(results[0].prompt_log_probs[0].has_value());
    for (size_t i = 1; i < prompt.size(); ++i) {
      const auto expected =
          ComputeLogProbs(std::span(rows).subspan((i - 1) * vocab, vocab), 2, prompt[i]);
      ASSERT_TRUE(expected.ok() && results[0].prompt_log_probs[i].has_value());
      testing::ExpectSameLogProbs({*results[0].prompt_log_probs[i]}, {*expected});
    }
    EXPECT_TRUE(results[1].prompt_log_probs.empty());
  }
}

// --- Salts ---

TEST_F(RequestsTest, SaltsDoNotShareWhatTheyHold) {
  const auto engine = Tiny();
  Request request = Sampled(Ascending(40), 2);
  EXPECT_EQ(RunOne(*engine, request).cached_tokens, 0);
  request.cache_salt = "another";
  const RequestResult other = RunOne(*engine, request);
  EXPECT_EQ(other.cached_tokens, 0);
  EXPECT_EQ(RunOne(*engine, request).cached_tokens, 39);
  request.cache_salt = "";
  const RequestResult again = RunOne(*engine, request);
  EXPECT_EQ(again.cached_tokens, 39);
  testing::ExpectSameChoices(again, other);
}

TEST_F(RequestsTest, WithoutTheKvCacheNothingIsTakenOrLeft) {
  const auto engine = Tiny();
  Request request = Sampled(Ascending(40), 5);
  const RequestResult cached = RunOne(*engine, request);
  request.use_kv_cache = false;
  const int64_t held = engine->cache().usage().cached_blocks;
  const RequestResult computed = RunOne(*engine, request);
  EXPECT_EQ(computed.cached_tokens, 0);
  EXPECT_EQ(engine->cache().usage().cached_blocks, held);
  testing::ExpectSameChoices(computed, cached);
}

}  // namespace
}  // namespace quire
