#include "sampling/parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace quire {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kVocabSize = 100;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::string Refusal(const SamplingParameters& parameters) {
  const Status status = parameters.Validate(kVocabSize);
  if (status.ok()) return "accepted";
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  return status.error().message;
}

TEST(SamplingParameters, DefaultsAreAccepted) { EXPECT_EQ(Refusal({}), "accepted"); }

TEST(SamplingParameters, TheEndsOfEachRangeAreAccepted) {
  EXPECT_EQ(Refusal({.temperature = 0.0f, .top_k = -1, .top_p = 0.0f, .min_p = 0.0f}), "accepted");
  EXPECT_EQ(Refusal({.temperature = 2.0f, .top_k = 1000000, .top_p = 1.0f, .min_p = 1.0f}),
            "accepted");
  EXPECT_EQ(
      Refusal({.repetition_penalty = 0.01f, .presence_penalty = -2.0f, .frequency_penalty = 2.0f}),
      "accepted");
  EXPECT_EQ(Refusal({.logit_bias = {{0, -100.0f}, {99, 100.0f}}}), "accepted");
  EXPECT_EQ(Refusal({.logprobs = 0}), "accepted");
  EXPECT_EQ(Refusal({.logprobs = kMaxLogProbs}), "accepted");
}

TEST(SamplingParameters, ARefusalNamesParameterRangeAndValue) {
  EXPECT_EQ(Refusal({.temperature = 2.5f}), "temperature must be from 0 to 2, got 2.5");
  EXPECT_EQ(Refusal({.top_p = 1.5f}), "top_p must be from 0 to 1, got 1.5");
  EXPECT_EQ(Refusal({.top_p = -0.1f}), "top_p must be from 0 to 1, got -0.1");
  EXPECT_EQ(Refusal({.min_p = 2.0f}), "min_p must be from 0 to 1, got 2");
  EXPECT_EQ(Refusal({.top_k = -2}), "top_k must be at least 1, or 0 or -1 for no limit, got -2");
  EXPECT_EQ(Refusal({.logprobs = 21}), "logprobs must be from 0 to 20, got 21");
  EXPECT_EQ(Refusal({.logprobs = -1}), "logprobs must be from 0 to 20, got -1");
  EXPECT_THAT(Refusal({.repetition_penalty = 0.0f}),
              AllOf(HasSubstr("repetition_penalty"), HasSubstr("0.01 to 100")));
  EXPECT_THAT(Refusal({.presence_penalty = 2.1f}), HasSubstr("presence_penalty"));
  EXPECT_THAT(Refusal({.frequency_penalty = -3.0f}), HasSubstr("frequency_penalty"));
}

TEST(SamplingParameters, NotANumberIsRefusedEverywhere) {
  EXPECT_THAT(Refusal({.temperature = kNan}), HasSubstr("temperature"));
  EXPECT_THAT(Refusal({.top_p = kNan}), HasSubstr("top_p"));
  EXPECT_THAT(Refusal({.min_p = kNan}), HasSubstr("min_p"));
  EXPECT_THAT(Refusal({.repetition_penalty = kNan}), HasSubstr("repetition_penalty"));
  EXPECT_THAT(Refusal({.logit_bias = {{1, kNan}}}), HasSubstr("logit_bias of token 1"));
}

TEST(SamplingParameters, LogitBiasOfAnUnknownTokenIsRefused) {
  EXPECT_EQ(Refusal({.logit_bias = {{999999, -100.0f}}}),
            "logit_bias names token 999999, but this model's token ids are 0 to 99");
  EXPECT_THAT(Refusal({.logit_bias = {{-1, 5.0f}}}), HasSubstr("names token -1"));
  EXPECT_THAT(Refusal({.logit_bias = {{3, 100.5f}}}), HasSubstr("-100 to 100"));
}

TEST(SamplingParameters, AllowedIdsAreOfTheVocabulary) {
  EXPECT_EQ(Refusal({.allowed_token_ids = {0, 99, 5, 5}}), "accepted");
  EXPECT_EQ(Refusal({.allowed_token_ids = {5, 100}}),
            "allowed_token_ids names token 100, but this model's token ids are 0 to 99");
  EXPECT_THAT(Refusal({.allowed_token_ids = {-1}}), HasSubstr("allowed_token_ids names token -1"));
  EXPECT_EQ(Refusal({.allowed_token_ids = std::vector<int32_t>(101, 1)}),
            "allowed_token_ids holds 101 ids; this model has 100 tokens");
}

TEST(SamplingParameters, BadWordsAreFewShortAndOfTheVocabulary) {
  const std::vector<int32_t> longest(kMaxBadWordTokens, 1);
  EXPECT_EQ(Refusal({.bad_words = {kMaxBadWords, longest}}), "accepted");
  EXPECT_EQ(Refusal({.bad_words = {kMaxBadWords + 1, {1}}}),
            "bad_words must be at most 1024 words, got 1025");
  EXPECT_EQ(Refusal({.bad_words = {{1}, {}}}),
            "each of bad_words must be 1 to 64 tokens, got one of 0");
  EXPECT_THAT(Refusal({.bad_words = {std::vector<int32_t>(kMaxBadWordTokens + 1, 1)}}),
              HasSubstr("got one of 65"));
  EXPECT_EQ(Refusal({.bad_words = {{1, 100}}}),
            "bad_words names token 100, but this model's token ids are 0 to 99");
}

}  // namespace
}  // namespace quire
