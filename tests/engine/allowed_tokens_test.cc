// Requests that say which tokens may come: allowed ids, bad words, biases; and the ranges of what
// is filtered.
#include <algorithm>
#include <set>

#include "engine/requests_fixture.h"

namespace quire {
namespace {

using testing::GreedyRequest;
using testing::RunOne;
using testing::RunTogether;
using Ids = std::vector<int32_t>;

class AllowedTokensTest : public testing::RequestsFixture {
 protected:
  // a, b and c with logits 3, 2, 1 after each token; <end> never comes.
  std::unique_ptr<Engine> ThreeTwoOne() {
    const std::vector<float> row{-60, 3, 2, 1};
    testing::WriteMarkovModel(Path(), {{"<end>", true}, {"a"}, {"b"}, {"c"}}, {row, row, row, row});
    return testing::MakeTestEngine(Path());
  }

  // Each of 3,000 draws of one token.
  static std::vector<double> Shares(Engine& engine, const SamplingParameters& sampling) {
    std::vector<Request> requests;
    for (uint64_t i = 0; i < 24; ++i) {
      requests.push_back(
          {.prompt = {1}, .sampling = sampling, .num_choices = 125, .max_tokens = 1});
      requests.back().sampling.seed = i;
    }
    std::vector<double> shares(4, 0.0);
    for (const RequestResult& result : RunTogether(engine, std::move(requests))) {
      for (const Choice& choice : result.choices) {
        shares[static_cast<size_t>(choice.tokens.at(0))] += 1 / 3000.0;
      }
    }
    return shares;
  }

  static Error RefusalOf(Engine& engine, const SamplingParameters& sampling) {
    const auto id = engine.Submit({.prompt = {1}, .sampling = sampling, .max_tokens = 1});
    EXPECT_FALSE(id.ok());
    return id.ok() ? Error{} : id.error();
  }
};

TEST_F(AllowedTokensTest, NothingElseIsDrawnInAnyStep) {
  const auto engine = Alphabet({0, 2, 3, 4, 0});
  Request request = GreedyRequest({1}, 8);
  request.sampling.allowed_token_ids = {4, 1};
  request.sampling.logprobs = 0;
  const Choice choice = RunOne(*engine, request).choices.at(0);
  EXPECT_EQ(choice.tokens, (Ids{1, 1, 1, 1, 1, 1, 1, 1}));
  for (const LogProbs& log_probs : choice.log_probs) {
    EXPECT_NEAR(log_probs.chosen.log_prob, -20, .01);  // the model's, whatever is allowed
  }
  // The end of the text is a token like others.
  request.sampling.allowed_token_ids = {0};
  EXPECT_EQ(RunOne(*engine, request).choices.at(0).tokens, Ids{0});
}

TEST_F(AllowedTokensTest, ABadWordNeverStandsInTheOutput) {
  const auto engine = Alphabet({0, 2, 3, 4, 1});  // a b c d a b ...
  Request request = GreedyRequest({1}, 12);
  request.ignore_end_of_text = true;
  EXPECT_EQ(RunOne(*engine, request).choices.at(0).text, "bcdabcdabcda");
  request.sampling.bad_words = {{2, 3, 4}, {4, 1}};
  const Ids tokens = RunOne(*engine, request).choices.at(0).tokens;
  EXPECT_EQ(tokens.size(), 12u);
  EXPECT_EQ((Ids{tokens[0], tokens[1]}), (Ids{2, 3}));  // its beginning alone may come
  for (const Ids& word : request.sampling.bad_words) {
    EXPECT_TRUE(std::ranges::search(tokens, word).empty());
  }
}

TEST_F(AllowedTokensTest, ABadWordThatBeginsInThePromptIsNotMatched) {
  const auto engine = Alphabet({0, 2, 3, 4, 1});
  Request request = GreedyRequest({1, 2}, 3);
  request.sampling.bad_words = {{2, 3}};
  EXPECT_EQ(RunOne(*engine, request).choices.at(0).text, "cda");
}

TEST_F(AllowedTokensTest, ChoicesHaveOutputsOfTheirOwn) {
  const auto engine = ThreeTwoOne();
  Request request{.prompt = {1}, .num_choices = 20, .max_tokens = 30};
  request.sampling.seed = 5;
  request.sampling.bad_words = {{1, 1}, {2, 1, 2}, {3, 3}};
  for (const Choice& choice : RunOne(*engine, request).choices) {
    EXPECT_EQ(choice.tokens.size(), 30u);
    for (const Ids& word : request.sampling.bad_words) {
      EXPECT_TRUE(std::ranges::search(choice.tokens, word).empty());
    }
  }
}

TEST_F(AllowedTokensTest, ARequestThatLeavesNoTokenEndsAlone) {
  const auto engine = ThreeTwoOne();
  Request nothing = GreedyRequest({1}, 4);
  nothing.sampling.allowed_token_ids = {1};
  nothing.sampling.bad_words = {{1, 1}};
  Request below_min_tokens = GreedyRequest({1}, 4);
  below_min_tokens.sampling.allowed_token_ids = {0};
  below_min_tokens.min_tokens = 2;
  const Request plain = GreedyRequest({1}, 4);
  const auto results = RunTogether(*engine, {plain, nothing, below_min_tokens, plain});
  EXPECT_EQ(results[0].choices.at(0).text, "aaaa");
  EXPECT_EQ(results[3].choices.at(0).text, "aaaa");
  EXPECT_EQ(results[1].choices.at(0).text, "a");
  for (const size_t i : {size_t{1}, size_t{2}}) {
    ASSERT_FALSE(results[i].status.ok());
    EXPECT_EQ(results[i].status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(results[i].choices.at(0).finish_reason, FinishReason::kError);
  }
}

TEST_F(AllowedTokensTest, WithBeamsTheyAreRefusedByName) {
  const auto engine = ThreeTwoOne();
  const auto refusal = [&](const SamplingParameters& sampling) {
    Request request{.prompt = {1}, .sampling = sampling, .max_tokens = 2};
    request.beams.width = 2;
    const auto id = engine->Submit(request);
    if (id.ok()) return std::string("taken");
    EXPECT_EQ(id.error().code, ErrorCode::kInvalidArgument);
    return id.error().message.substr(0, id.error().message.find(' '));
  };
  EXPECT_EQ(refusal({.logit_bias = {{1, 1.0f}}}), "logit_bias");
  EXPECT_EQ(refusal({.allowed_token_ids = {1}}), "allowed_token_ids");
  EXPECT_EQ(refusal({.bad_words = {{1}}}), "bad_words");
  EXPECT_EQ(refusal({.repetition_penalty = 1.1f}), "repetition_penalty");
  EXPECT_EQ(refusal({.presence_penalty = 1}), "presence_penalty");
  EXPECT_EQ(refusal({.frequency_penalty = 1}), "frequency_penalty");
  EXPECT_EQ(refusal({.temperature = .5f, .top_k = 3, .top_p = .5f, .min_p = .1f}), "taken");
  testing::RunChecked(*engine);
}

TEST_F(AllowedTokensTest, AnUnknownIdIsRefusedAndTheEngineServesOn) {
  const auto engine = ThreeTwoOne();
  for (const SamplingParameters& sampling :
       std::vector<SamplingParameters>{{.logit_bias = {{999999, -100.0f}}},
                                       {.logit_bias = {{-1, 5.0f}}},
                                       {.allowed_token_ids = {1, 4}},
                                       {.allowed_token_ids = {-1}},
                                       {.bad_words = {{1, 2}, {4}}},
                                       {.bad_words = {{}}}}) {
    EXPECT_EQ(RefusalOf(*engine, sampling).code, ErrorCode::kInvalidArgument);
  }
  SamplingParameters banned{.logit_bias = {{1, -100.0f}}};
  EXPECT_EQ(Shares(*engine, banned)[1], 0);
  SamplingParameters forced{.logit_bias = {{3, 100.0f}}};
  EXPECT_NEAR(Shares(*engine, forced)[3], 1, 1e-9);
  EXPECT_EQ(RunOne(*engine, GreedyRequest({1}, 2)).choices.at(0).text, "aa");
}

TEST_F(AllowedTokensTest, TopKLeavesTheBestAndOffIsEverything) {
  const auto engine = ThreeTwoOne();
  for (const int top_k : {0, -1, 3, 1000000}) {
    const std::vector<double> shares = Shares(*engine, {.top_k = top_k});
    EXPECT_NEAR(shares[1], .6652, .03) << top_k;
    EXPECT_NEAR(shares[2], .2447, .03) << top_k;
    EXPECT_NEAR(shares[3], .0900, .02) << top_k;
  }
  const std::vector<double> shares = Shares(*engine, {.top_k = 2});
  EXPECT_NEAR(shares[1], .7311, .03);
  EXPECT_EQ(shares[3], 0);
  for (const int top_k : {-2, -1000000}) {
    EXPECT_NE(RefusalOf(*engine, {.top_k = top_k}).message.find("top_k"), std::string::npos);
  }
}

TEST_F(AllowedTokensTest, TopPOfOneIsOffAndOfZeroIsGreedy) {
  const auto engine = ThreeTwoOne();
  EXPECT_NEAR(Shares(*engine, {.top_p = 1})[3], .0900, .02);
  for (const float top_p : {0.0f, 1e-9f}) {
    EXPECT_NEAR(Shares(*engine, {.top_p = top_p})[1], 1, 1e-9);
  }
  for (const float top_p : {1.5f, -0.1f}) {
    EXPECT_NE(RefusalOf(*engine, {.top_p = top_p}).message.find("top_p"), std::string::npos);
  }
}

}  // namespace
}  // namespace quire
