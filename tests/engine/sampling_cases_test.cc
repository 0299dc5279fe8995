// Faults that samplers are known for, where many requests are drawn for in one step: on a model
// whose logits after token i are a row of the test's choice.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "engine/engine_fixture.h"
#include "engine/request_runs.h"
#include "support/rigs.h"
#include "support/scratch_directory.h"

namespace quire {
namespace {

using testing::RunOne;
using testing::RunTogether;

constexpr int kFlatTokens = 200;
constexpr float kNever = -60;

class SamplingCasesTest : public ::testing::Test {
 protected:
  // Tokens <end>, a, b, c: the same row of logits for a, b and c after each; <end> never comes.
  std::unique_ptr<Engine> WithLogits(float a, float b, float c) {
    const std::vector<float> row{kNever, a, b, c};
    testing::WriteMarkovModel(Path(), {{"<end>", true}, {"a"}, {"b"}, {"c"}}, {row, row, row, row});
    return testing::MakeTestEngine(Path());
  }

  std::unique_ptr<Engine> Flat() {
    std::vector<testing::RigToken> tokens;
    for (int i = 0; i < kFlatTokens; ++i) tokens.push_back({"t" + std::to_string(i)});
    testing::WriteMarkovModel(
        Path(), tokens,
        std::vector<std::vector<float>>(kFlatTokens, std::vector<float>(kFlatTokens, 0.0f)));
    return testing::MakeTestEngine(Path());
  }

  std::filesystem::path Path() const { return directory_.path() / "rig.gguf"; }

  ScratchDirectory directory_;
};

Request Drawing(std::vector<int32_t> prompt, int max_tokens, std::optional<uint64_t> seed) {
  Request request{.prompt = std::move(prompt), .max_tokens = max_tokens};
  request.sampling.seed = seed;
  request.ignore_end_of_text = true;
  return request;
}

// How often each first token was drawn, of all choices.
std::map<int32_t, double> Frequencies(const std::vector<RequestResult>& results) {
  std::map<int32_t, double> counts;
  double total = 0;
  for (const RequestResult& result : results) {
    for (const Choice& choice : result.choices) {
      ++counts[choice.tokens.at(0)];
      ++total;
    }
  }
  for (auto& [token, count] : counts) count /= total;
  return counts;
}

// 5,000 draws of one token, in batches of 125 choices.
std::vector<Request> FiveThousand(const Request& request) {
  std::vector<Request> requests(40, request);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].num_choices = 125;
    requests[i].sampling.seed = 1000 + i;
  }
  return requests;
}

TEST_F(SamplingCasesTest, GreedyIsGreedyWhateverElseIsAsked) {
  const auto engine = WithLogits(3, 2, 1);
  std::vector<Request> requests;
  for (const SamplingParameters& sampling :
       std::vector<SamplingParameters>{{.temperature = 0, .top_p = .1f},
                                       {.temperature = 0, .top_k = 1},
                                       {.temperature = 0, .top_k = 50},
                                       {.temperature = 0, .min_p = .9f},
                                       {.temperature = 1e-6f}}) {
    for (int i = 0; i < 200; ++i) {
      Request request = Drawing({1 + i % 3}, 1, i);
      if (i % 2 == 1) request.sampling.seed.reset();
      const auto seed = request.sampling.seed;
      request.sampling = sampling;
      request.sampling.seed = seed;
      requests.push_back(std::move(request));
    }
  }
  for (const RequestResult& result : RunTogether(*engine, requests)) {
    EXPECT_EQ(result.choices.at(0).tokens, std::vector<int32_t>{1});
  }
}

TEST_F(SamplingCasesTest, TiesFallTheSameWayEveryTime) {
  const auto engine = WithLogits(1, 3, 3);
  std::vector<Request> requests(100, testing::GreedyRequest({1}, 3));
  for (const RequestResult& result : RunTogether(*engine, requests)) {
    EXPECT_EQ(result.choices.at(0).tokens, (std::vector<int32_t>{2, 2, 2}));
  }
}

TEST_F(SamplingCasesTest, WithoutASeedEveryAnswerIsAnother) {
  const auto engine = Flat();
  std::set<std::vector<int32_t>> answers;
  for (int i = 0; i < 10; ++i) {
    answers.insert(RunOne(*engine, Drawing({1}, 8, std::nullopt)).choices.at(0).tokens);
  }
  const std::vector<Request> requests(10, Drawing({1}, 8, std::nullopt));
  for (const RequestResult& result : RunTogether(*engine, requests)) {
    answers.insert(result.choices.at(0).tokens);
  }
  EXPECT_EQ(answers.size(), 20u);
}

TEST_F(SamplingCasesTest, ARequestWithoutASeedTellsTheOneItHad) {
  const auto engine = Flat();
  const RequestResult drawn = RunOne(*engine, Drawing({1}, 8, std::nullopt));
  const RequestResult again = RunOne(*engine, Drawing({1}, 8, drawn.seed));
  EXPECT_EQ(again.choices.at(0).tokens, drawn.choices.at(0).tokens);
}

TEST_F(SamplingCasesTest, TheRepetitionPenaltyCountsThePrompt) {
  const auto engine = WithLogits(2, -1, .5f);
  Request request = Drawing({1, 2}, 1, 0);
  request.sampling.repetition_penalty = 1.5f;
  // 2 / 1.5, -1 * 1.5 and .5
  auto shares = Frequencies(RunTogether(*engine, FiveThousand(request)));
  EXPECT_NEAR(shares[1], .6696, .02);
  EXPECT_NEAR(shares[2], .0394, .01);
  EXPECT_NEAR(shares[3], .2910, .02);
}

TEST_F(SamplingCasesTest, PresenceAndFrequencyPenaltiesDoNotCountThePrompt) {
  const auto engine = WithLogits(2, -1, .5f);
  Request request = Drawing({1, 2}, 1, 0);
  request.sampling.presence_penalty = 1;
  request.sampling.frequency_penalty = 1;
  auto shares = Frequencies(RunTogether(*engine, FiveThousand(request)));
  EXPECT_NEAR(shares[1], .7856, .02);
  EXPECT_NEAR(shares[2], .0391, .01);
  EXPECT_NEAR(shares[3], .1753, .02);
}

TEST_F(SamplingCasesTest, EachRequestOfABatchHasItsOwnHistory) {
  const auto engine = WithLogits(1, .5f, -5);
  Request plain = testing::GreedyRequest({3}, 5);
  Request presence = plain;
  presence.sampling.presence_penalty = .6f;
  Request frequency = plain;
  frequency.sampling.frequency_penalty = .6f;
  const std::vector<RequestResult> results =
      RunTogether(*engine, {plain, presence, frequency, plain, presence});
  const std::vector<int32_t> all_a{1, 1, 1, 1, 1};
  const std::vector<int32_t> once_b{1, 2, 1, 1, 1};   // .4 and -.1 from then on
  const std::vector<int32_t> in_turn{1, 2, 1, 2, 1};  // a: 1 .4 .4 -.2 -.2, b: .5 .5 -.1 -.1 -.7
  EXPECT_EQ(results[0].choices.at(0).tokens, all_a);
  EXPECT_EQ(results[1].choices.at(0).tokens, once_b);
  EXPECT_EQ(results[2].choices.at(0).tokens, in_turn);
  EXPECT_EQ(results[3].choices.at(0).tokens, all_a);
  EXPECT_EQ(results[4].choices.at(0).tokens, once_b);
}

TEST_F(SamplingCasesTest, ChoicesOfOneRequestHaveHistoriesOfTheirOwn) {
  const auto engine = Flat();
  Request request = Drawing({1}, 30, 5);
  request.num_choices = 4;
  request.sampling.presence_penalty = 2;
  request.sampling.frequency_penalty = 2;
  request.sampling.top_k = 40;  // of equals: the 40 lowest ids that were not drawn yet
  const RequestResult result = RunOne(*engine, request);
  for (const Choice& choice : result.choices) {
    const std::set<int32_t> distinct(choice.tokens.begin(), choice.tokens.end());
    EXPECT_EQ(distinct.size(), 30u) << "choice " << choice.index;
  }
}

TEST_F(SamplingCasesTest, LogProbsAreOfTheRawLogits) {
  const auto engine = WithLogits(3, 2, 1);
  std::vector<Request> requests;
  for (const float temperature : {0.0f, .5f, 1.0f}) {
    for (const float top_p : {1.0f, .5f}) {
      Request request = Drawing({1}, 4, 3);
      request.sampling.temperature = temperature;
      request.sampling.top_p = top_p;
      request.sampling.logprobs = 3;
      requests.push_back(std::move(request));
    }
  }
  for (const RequestResult& result : RunTogether(*engine, requests)) {
    ASSERT_EQ(result.choices.at(0).log_probs.size(), 4u);
    for (const LogProbs& log_probs : result.choices[0].log_probs) {
      ASSERT_EQ(log_probs.top.size(), 3u);
      double sum = 0;
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(log_probs.top[i].token, static_cast<int32_t>(i) + 1);
        EXPECT_NEAR(log_probs.top[i].log_prob, -.4076 - static_cast<double>(i), 1e-3);
        sum += std::exp(log_probs.top[i].log_prob);
      }
      EXPECT_LE(sum, 1 + 1e-9);
      EXPECT_NEAR(log_probs.chosen.log_prob, .5924 - log_probs.chosen.token, 1e-3);
    }
  }
}

TEST_F(SamplingCasesTest, ChoicesDifferAndComeBackWithTheirSeed) {
  const auto engine = Flat();
  Request request = Drawing({1}, 8, 7);
  request.num_choices = 3;
  const RequestResult first = RunOne(*engine, request);
  ASSERT_EQ(first.choices.size(), 3u);
  std::set<std::vector<int32_t>> distinct;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(first.choices[i].index, i);
    distinct.insert(first.choices[i].tokens);
  }
  EXPECT_EQ(distinct.size(), 3u);
  EXPECT_EQ(first.completion_tokens(), 24);
  EXPECT_EQ(first.prompt_tokens, 1);
  testing::ExpectSameChoices(RunOne(*engine, request), first);
  // Fewer choices are the first of more.
  request.num_choices = 2;
  const RequestResult fewer = RunOne(*engine, request);
  EXPECT_EQ(fewer.choices.at(0).tokens, first.choices[0].tokens);
  EXPECT_EQ(fewer.choices.at(1).tokens, first.choices[1].tokens);
}

TEST_F(SamplingCasesTest, ASeedMeansTheSameAloneAndInACrowd) {
  const auto engine = Flat();
  std::vector<Request> requests;
  for (int32_t i = 0; i < 30; ++i) {
    requests.push_back(Drawing({i, i + 1}, 3 + i % 9, i % 4));
    requests.back().num_choices = 1 + i % 3;
    if (i % 5 == 0) requests.back().sampling.repetition_penalty = 1.5f;
    if (i % 7 == 0) requests.back().sampling.min_p = .2f;
  }
  const std::vector<RequestResult> crowd = RunTogether(*engine, requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto alone = testing::MakeTestEngine(Path());
    testing::ExpectSameChoices(crowd[i], RunOne(*alone, requests[i]));
  }
}

}  // namespace
}  // namespace quire
