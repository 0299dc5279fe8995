#include "sampling/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "sampling/seed.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const std::vector<float> kThreeTwoOne = {3, 2, 1};  // softmax .6652, .2447, .0900

// What one draw needs besides the logits.
struct Draw {
  uint64_t seed = 1;
  uint32_t choice = 0;
  uint32_t position = 0;
};

Result<SampledToken> SampleFrom(const std::vector<float>& logits,
                                const SamplingParameters& parameters, const Draw& draw = {},
                                const TokenCounts& history = {}) {
  SamplerScratch scratch;
  return Sample({.logits = logits,
                 .parameters = parameters,
                 .history = history,
                 .seed = draw.seed,
                 .choice = draw.choice,
                 .position = draw.position},
                &scratch);
}

int32_t TokenFrom(const std::vector<float>& logits, const SamplingParameters& parameters,
                  const Draw& draw = {}, const TokenCounts& history = {}) {
  return SampleFrom(logits, parameters, draw, history).value().token;
}

// How often each of three tokens comes up in `num_draws` draws.
std::array<double, 3> Frequencies(const std::vector<float>& logits,
                                  const SamplingParameters& parameters, int num_draws,
                                  const TokenCounts& history = {}) {
  std::array<int, 3> counts{};
  for (int i = 0; i < num_draws; ++i) {
    const Draw draw{.seed = 11, .choice = 0, .position = static_cast<uint32_t>(i)};
    ++counts[static_cast<size_t>(TokenFrom(logits, parameters, draw, history))];
  }
  const auto share = [&](int count) { return static_cast<double>(count) / num_draws; };
  return {share(counts[0]), share(counts[1]), share(counts[2])};
}

void ExpectNear(const std::array<double, 3>& got, const std::array<double, 3>& expected,
                double tolerance) {
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(got[i], expected[i], tolerance) << "token " << i;
}

TEST(Sampler, TemperatureZeroTakesTheBestTokenWhateverElseIsSet) {
  for (const float temperature : {0.0f, 1e-6f}) {
    for (const float top_p : {0.1f, 1.0f}) {
      for (const int top_k : {1, 0, 50}) {
        const SamplingParameters parameters{
            .temperature = temperature, .top_k = top_k, .top_p = top_p, .min_p = 0.9f};
        for (uint64_t seed = 0; seed < 200; ++seed) {
          ASSERT_EQ(TokenFrom(kThreeTwoOne, parameters, {.seed = seed}), 0);
        }
      }
    }
  }
}

TEST(Sampler, GreedyTiesGoToTheLowestId) {
  EXPECT_EQ(TokenFrom({1, 4, 4, 4}, {.temperature = 0.0f}), 1);
  EXPECT_EQ(TokenFrom({-0.0f, 0.0f}, {.temperature = 0.0f}), 0);
}

TEST(Sampler, AVerySmallTemperatureThatDrawsStillTakesTheBest) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    ASSERT_EQ(TokenFrom(kThreeTwoOne, {.temperature = 2e-5f}, {.seed = seed}), 0);
  }
}

TEST(Sampler, DrawsFollowTheTemperature) {
  ExpectNear(Frequencies(kThreeTwoOne, {.temperature = 0.5f}, 20000), {.8668, .1173, .0159}, .01);
  ExpectNear(Frequencies(kThreeTwoOne, {.temperature = 1.0f}, 20000), {.6652, .2447, .0900}, .01);
  ExpectNear(Frequencies(kThreeTwoOne, {.temperature = 2.0f}, 20000), {.5065, .3072, .1863}, .01);
}

TEST(Sampler, TopKOfZeroMinusOneOrMoreThanTheVocabularyIsNoLimit) {
  for (const int top_k : {0, -1, 3, 1000000}) {
    ExpectNear(Frequencies(kThreeTwoOne, {.top_k = top_k}, 3000), {.665, .245, .090}, .03);
  }
}

TEST(Sampler, TopKOfTwoSharesTheRestBetweenTwo) {
  const auto frequencies = Frequencies(kThreeTwoOne, {.top_k = 2}, 3000);
  EXPECT_NEAR(frequencies[0], .7311, .03);
  EXPECT_EQ(frequencies[2], 0.0);
}

TEST(Sampler, TopKAmongTiesKeepsTheLowerIds) {
  const auto frequencies = Frequencies({1, 1, 1}, {.top_k = 2}, 500);
  EXPECT_NEAR(frequencies[0], .5, .1);
  EXPECT_EQ(frequencies[2], 0.0);
}

TEST(Sampler, TopPKeepsTheFewestTokensThatReachIt) {
  // The first two sum to .9100.
  ExpectNear(Frequencies(kThreeTwoOne, {.top_p = 0.66f}, 1000), {1, 0, 0}, 0.0);
  ExpectNear(Frequencies(kThreeTwoOne, {.top_p = 0.67f}, 3000), {.7311, .2689, 0}, .03);
  ExpectNear(Frequencies(kThreeTwoOne, {.top_p = 0.909f}, 3000), {.7311, .2689, 0}, .03);
  EXPECT_GT(Frequencies(kThreeTwoOne, {.top_p = 0.911f}, 3000)[2], 0.05);
  ExpectNear(Frequencies(kThreeTwoOne, {.top_p = 1.0f}, 3000), {.6652, .2447, .0900}, .03);
}

TEST(Sampler, TopPOfZeroOrNearlySoIsGreedy) {
  for (const float top_p : {0.0f, 1e-9f}) {
    ExpectNear(Frequencies(kThreeTwoOne, {.top_p = top_p}, 500), {1, 0, 0}, 0.0);
    ExpectNear(Frequencies(kThreeTwoOne, {.top_k = 2, .top_p = top_p}, 500), {1, 0, 0}, 0.0);
  }
}

TEST(Sampler, TopPSeesProbabilitiesAfterTopK) {
  // Of two tokens the first has .7311, so .7 is reached by it alone; of three it has .6652.
  ExpectNear(Frequencies(kThreeTwoOne, {.top_k = 2, .top_p = 0.7f}, 500), {1, 0, 0}, 0.0);
  EXPECT_GT(Frequencies(kThreeTwoOne, {.top_p = 0.7f}, 500)[1], 0.1);
}

TEST(Sampler, MinPDropsTokensFarBelowTheBest) {
  // e^-1 = .368 and e^-2 = .135 of the best one.
  for (const int top_k : {0, 2}) {
    EXPECT_GT(Frequencies(kThreeTwoOne, {.top_k = top_k, .min_p = 0.36f}, 500)[1], 0.1);
    ExpectNear(Frequencies(kThreeTwoOne, {.top_k = top_k, .min_p = 0.37f}, 500), {1, 0, 0}, 0.0);
  }
  EXPECT_EQ(Frequencies(kThreeTwoOne, {.min_p = 0.14f}, 500)[2], 0.0);
  EXPECT_GT(Frequencies(kThreeTwoOne, {.min_p = 0.13f}, 500)[2], 0.0);
}

TEST(Sampler, MinPSeesProbabilitiesAfterTheTemperature) {
  // At temperature 2 the second token has e^-.5 = .607 of the best one.
  EXPECT_GT(Frequencies(kThreeTwoOne, {.temperature = 2.0f, .min_p = 0.6f}, 500)[1], 0.1);
}

TEST(Sampler, RepetitionPenaltyCountsThePromptAndMultipliesNegativeLogits) {
  // 2 / 1.5 = 1.3333 and -1 * 1.5 = -1.5 beside an untouched .5.
  TokenCounts history;
  history.AddPrompt(std::array<int32_t, 2>{0, 1});
  ExpectNear(Frequencies({2, -1, .5}, {.repetition_penalty = 1.5f}, 20000, history),
             {.6699, .0394, .2907}, .012);
}

TEST(Sampler, PresenceAndFrequencyPenaltiesCountTheOutputAlone) {
  TokenCounts history;
  history.AddPrompt(std::array<int32_t, 2>{0, 1});
  const SamplingParameters presence{.temperature = 0.0f, .presence_penalty = 2.0f};
  const SamplingParameters frequency{.temperature = 0.0f, .frequency_penalty = 1.0f};
  EXPECT_EQ(TokenFrom({2, -1, .5}, presence, {}, history), 0);
  EXPECT_EQ(TokenFrom({2, -1, .5}, frequency, {}, history), 0);
  history.AddOutput(0);
  EXPECT_EQ(TokenFrom({2, -1, .5}, presence, {}, history), 2);   // 2 - 2 < .5
  EXPECT_EQ(TokenFrom({2, -1, .5}, frequency, {}, history), 0);  // 2 - 1 > .5
  history.AddOutput(0);
  EXPECT_EQ(TokenFrom({2, -1, .5}, frequency, {}, history), 2);  // 2 - 2 < .5
}

TEST(Sampler, LogitBiasBansAndForces) {
  const SamplingParameters banned{.temperature = 2.0f, .logit_bias = {{0, -100.0f}}};
  const SamplingParameters forced{.temperature = 2.0f, .logit_bias = {{2, 100.0f}}};
  EXPECT_EQ(Frequencies(kThreeTwoOne, banned, 500)[0], 0.0);
  ExpectNear(Frequencies(kThreeTwoOne, forced, 500), {0, 0, 1}, 0.0);
  EXPECT_EQ(TokenFrom({1000, 2, 1}, {.temperature = 0.0f, .logit_bias = {{0, -100.0f}}}), 1);
}

TEST(Sampler, LogProbsAreOfTheRawLogitsWhateverElseIsSet) {
  for (const float temperature : {0.0f, 0.5f, 1.0f}) {
    for (const float top_p : {0.5f, 1.0f}) {
      const SamplingParameters parameters{
          .temperature = temperature, .top_p = top_p, .logit_bias = {{1, 0.5f}}, .logprobs = 3};
      const SampledToken sampled = SampleFrom(kThreeTwoOne, parameters).value();
      ASSERT_TRUE(sampled.log_probs);
      const std::vector<TokenLogProb>& top = sampled.log_probs->top;
      ASSERT_EQ(top.size(), 3u);
      for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(top[static_cast<size_t>(i)].token, i);
        EXPECT_NEAR(top[static_cast<size_t>(i)].log_prob, -0.4076 - i, 1e-3);
      }
      EXPECT_EQ(sampled.log_probs->chosen.token, sampled.token);
    }
  }
  EXPECT_FALSE(SampleFrom(kThreeTwoOne, {}).value().log_probs);
}

// 8 tokens drawn from 200 equally probable ones.
std::vector<int32_t> FlatReply(uint64_t seed, uint32_t choice) {
  const std::vector<float> logits(200, 0.0f);
  std::vector<int32_t> reply;
  for (uint32_t position = 0; position < 8; ++position) {
    reply.push_back(TokenFrom(logits, {}, {.seed = seed, .choice = choice, .position = position}));
  }
  return reply;
}

TEST(Sampler, RepliesWithoutASeedAllDiffer) {
  std::set<std::vector<int32_t>> replies;
  for (int i = 0; i < 20; ++i) replies.insert(FlatReply(RandomSeed().value(), 0));
  EXPECT_EQ(replies.size(), 20u);
}

TEST(Sampler, ChoicesOfOneSeedDifferAndRepeat) {
  std::set<std::vector<int32_t>> replies;
  for (uint32_t choice = 0; choice < 3; ++choice) {
    replies.insert(FlatReply(7, choice));
    EXPECT_EQ(FlatReply(7, choice), FlatReply(7, choice));
  }
  EXPECT_EQ(replies.size(), 3u);
}

TEST(Sampler, ChoicesOfTwoPromptsRepeatWhateverWasDrawnBetween) {
  // Two prompts with two choices each, of different lengths, in turns and one after the other.
  const std::vector<float> logits(200, 0.0f);
  std::map<std::pair<uint32_t, uint32_t>, int32_t> first_run;
  for (const bool in_turns : {false, true}) {
    for (uint32_t i = 0; i < 32; ++i) {
      const uint32_t sequence = in_turns ? i % 4 : i / 8;
      const uint32_t step = in_turns ? i / 4 : i % 8;
      const Draw draw{.seed = 7, .choice = sequence % 2, .position = 1 + sequence / 2 * 40 + step};
      const int32_t token = TokenFrom(logits, {}, draw);
      const auto [known, is_first] = first_run.try_emplace({sequence, step}, token);
      EXPECT_EQ(token, known->second) << "sequence " << sequence << " step " << step;
      EXPECT_EQ(is_first, !in_turns);
    }
  }
}

TEST(Sampler, SeedChoiceAndPositionEachChangeTheDraw) {
  // Over a flat vocabulary of 100,000 two draws agree by chance once in 100,000.
  const std::vector<float> logits(100000, 0.0f);
  const int32_t token = TokenFrom(logits, {}, {.seed = 7, .choice = 1, .position = 9});
  EXPECT_EQ(TokenFrom(logits, {}, {.seed = 7, .choice = 1, .position = 9}), token);
  EXPECT_NE(TokenFrom(logits, {}, {.seed = 8, .choice = 1, .position = 9}), token);
  EXPECT_NE(TokenFrom(logits, {}, {.seed = 7, .choice = 2, .position = 9}), token);
  EXPECT_NE(TokenFrom(logits, {}, {.seed = 7, .choice = 1, .position = 10}), token);
}

TEST(Sampler, ADrawIsTheSameInEveryBuild) {
  // Written down once; a change means that seeds of saved conversations mean something else.
  EXPECT_EQ(FlatReply(7, 0), (std::vector<int32_t>{150, 159, 1, 50, 197, 67, 93, 94}));
}

TEST(Sampler, TopPOverALargeVocabularyDrawsFromTheNucleusOnly) {
  // A few tokens of 2 above a flat sea of -20: the sea weighs 150,000 * e^-22 = 4e-5.
  std::vector<float> logits(151936, -20.0f);
  for (const size_t token : {5u, 70000u, 151935u}) logits[token] = 2.0f;
  std::set<int32_t> drawn;
  for (uint32_t position = 0; position < 60; ++position) {
    drawn.insert(TokenFrom(logits, {.top_p = 0.99f}, {.position = position}));
  }
  EXPECT_EQ(drawn, (std::set<int32_t>{5, 70000, 151935}));
}

TEST(Sampler, MaskedTokensAreNeverDrawn) {
  EXPECT_EQ(Frequencies({3, -kInfinity, 1}, {.temperature = 2.0f}, 500)[1], 0.0);
  EXPECT_EQ(Frequencies({-kInfinity, -kInfinity, 1}, {.top_k = 2}, 50)[2], 1.0);
}

TEST(Sampler, RowsThatCannotBeSampledAreErrors) {
  const auto message = [](const std::vector<float>& logits, const SamplingParameters& parameters) {
    const auto result = SampleFrom(logits, parameters);
    if (result.ok()) return std::string("sampled");
    EXPECT_EQ(result.error().code, ErrorCode::kNumeric);
    return result.error().message;
  };
  for (const float temperature : {0.0f, 1.0f}) {
    const SamplingParameters parameters{.temperature = temperature};
    EXPECT_THAT(message({1, std::numeric_limits<float>::quiet_NaN()}, parameters),
                HasSubstr("token 1 is nan"));
    EXPECT_THAT(message({kInfinity, 0}, parameters), HasSubstr("token 0 is inf"));
    EXPECT_THAT(message({-kInfinity, -kInfinity}, parameters), HasSubstr("masked"));
  }
}

TEST(Sampler, ParametersThatLeaveNoTokenAreTheCallersFault) {
  for (const SamplingParameters& parameters :
       {SamplingParameters{.logit_bias = {{0, -100.0f}, {1, -100.0f}}},
        SamplingParameters{.allowed_token_ids = {1}, .bad_words = {{1}}},
        SamplingParameters{.logit_bias = {{0, -100.0f}}, .allowed_token_ids = {0}},
        SamplingParameters{.bad_words = {{0}, {1}}}}) {
    const auto result = SampleFrom({1, 2}, parameters);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(result.error().message, HasSubstr("all 2 tokens are masked or banned"));
  }
}

Result<SampledToken> SampleBanning(const std::vector<float>& logits,
                                   const SamplingParameters& parameters,
                                   const std::vector<int32_t>& banned, const Draw& draw = {}) {
  SamplerScratch scratch;
  return Sample({.logits = logits,
                 .parameters = parameters,
                 .history = {},
                 .seed = draw.seed,
                 .choice = draw.choice,
                 .position = draw.position,
                 .banned = banned},
                &scratch);
}

TEST(Sampler, BannedTokensAreNotChosen) {
  EXPECT_EQ(SampleBanning(kThreeTwoOne, {.temperature = 0.0f}, {0}).value().token, 1);
  EXPECT_EQ(SampleBanning(kThreeTwoOne, {.top_p = 0.0f}, {0, 1}).value().token, 2);
  const SamplingParameters forced{.logit_bias = {{0, 100.0f}}};
  EXPECT_EQ(SampleBanning({3, -50, -50}, forced, {0, 2}).value().token, 1);
  for (const int top_k : {0, 2}) {
    int num_second = 0;
    for (uint32_t position = 0; position < 3000; ++position) {
      const int32_t token =
          SampleBanning(kThreeTwoOne, {.top_k = top_k}, {0}, {.position = position}).value().token;
      ASSERT_NE(token, 0);
      num_second += token == 1;
    }
    EXPECT_NEAR(num_second / 3000.0, .7311, .03);  // what is left shares everything
  }
}

TEST(Sampler, BansDoNotChangeLogProbs) {
  const SampledToken sampled = SampleBanning(kThreeTwoOne, {.logprobs = 3}, {0, 1}).value();
  EXPECT_EQ(sampled.token, 2);
  EXPECT_NEAR(sampled.log_probs->chosen.log_prob, -2.4076, 1e-4);
  ASSERT_EQ(sampled.log_probs->top.size(), 3u);
  EXPECT_EQ(sampled.log_probs->top[0].token, 0);
  EXPECT_NEAR(sampled.log_probs->top[0].log_prob, -.4076, 1e-4);
}

TEST(Sampler, BansOfOtherTokensChangeNothing) {
  const std::vector<float> logits(200, 0.0f);
  for (uint32_t position = 0; position < 50; ++position) {
    const Draw draw{.seed = 5, .choice = 0, .position = position};
    EXPECT_EQ(SampleBanning(logits, {}, {-1, 200, 1 << 30, -(1 << 30)}, draw).value().token,
              TokenFrom(logits, {}, draw));
  }
  EXPECT_EQ(SampleBanning(kThreeTwoOne, {.temperature = 0.0f}, {1, 1, 1}).value().token, 0);
}

TEST(Sampler, ARowOfWhichEveryTokenIsBannedIsAnErrorThatSaysSo) {
  for (const float temperature : {0.0f, 1.0f}) {
    const auto result = SampleBanning(kThreeTwoOne, {.temperature = temperature}, {2, 1, 0});
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(result.error().message, HasSubstr("all 3 tokens are masked or banned"));
  }
}

TEST(Sampler, AnEmptyRowIsAnError) { EXPECT_FALSE(SampleFrom({}, {}).ok()); }

}  // namespace
}  // namespace quire
