#include "sampling/masks.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <vector>

#include "sampling/sampler.h"

namespace quire {
namespace {

// The tokens of ten that may be chosen.
std::set<int32_t> Allowed(const SamplingParameters& parameters,
                          const std::vector<int32_t>& output = {},
                          const std::vector<int32_t>& banned = {}) {
  const std::vector<float> logits{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<float> row(logits.size(), -1);
  MaskLogits({.parameters = parameters, .output = output, .banned = banned}, logits, row);
  std::set<int32_t> allowed;
  for (int32_t token = 0; token < 10; ++token) {
    const float logit = row[static_cast<size_t>(token)];
    if (logit == -std::numeric_limits<float>::infinity()) continue;
    EXPECT_EQ(logit, static_cast<float>(token));
    allowed.insert(token);
  }
  return allowed;
}

using Ids = std::set<int32_t>;
const Ids kAll{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};

TEST(Masks, OnlyAllowedTokensAreLeft) {
  EXPECT_EQ(Allowed({}), kAll);
  EXPECT_EQ(Allowed({.allowed_token_ids = {7, 2, 7}}), (Ids{2, 7}));
  EXPECT_EQ(Allowed({.allowed_token_ids = {7, 2, 3}, .bad_words = {{2}}}, {}, {3}), Ids{7});
}

TEST(Masks, TheLastTokenOfABadWordIsBannedAfterTheOthers) {
  const SamplingParameters parameters{.bad_words = {{1, 2, 3}, {4, 5}, {6}}};
  Ids without_6 = kAll;
  without_6.erase(6);
  EXPECT_EQ(Allowed(parameters), without_6);
  EXPECT_EQ(Allowed(parameters, {2}), without_6);
  EXPECT_EQ(Allowed(parameters, {1, 2, 0}), without_6);
  EXPECT_EQ(Allowed(parameters, {0, 1, 2}), (Ids{0, 1, 2, 4, 5, 7, 8, 9}));
  EXPECT_EQ(Allowed(parameters, {1, 2}), (Ids{0, 1, 2, 4, 5, 7, 8, 9}));
  EXPECT_EQ(Allowed(parameters, {4}), (Ids{0, 1, 2, 3, 4, 7, 8, 9}));
  EXPECT_EQ(Allowed({.bad_words = {{1, 1}}}, {1}), (Ids{0, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(Masks, IdsOutsideTheVocabularyArePassedOver) {
  EXPECT_EQ(Allowed({.bad_words = {{-1}, {10}, {}, {1 << 30}}}, {}, {-1, 10}), kAll);
  EXPECT_EQ(Allowed({.allowed_token_ids = {-1, 3, 10}}), Ids{3});
}

TEST(Masks, AnyMaskedSeesEachOfThem) {
  const std::vector<int32_t> one{1};
  const SamplingParameters none;
  const SamplingParameters allowed{.allowed_token_ids = {1}};
  const SamplingParameters bad{.bad_words = {{1, 2}}};
  EXPECT_FALSE(AnyMasked({.parameters = none, .output = one}));
  EXPECT_TRUE(AnyMasked({.parameters = none, .banned = one}));
  EXPECT_TRUE(AnyMasked({.parameters = allowed}));
  EXPECT_TRUE(AnyMasked({.parameters = bad}));
}

// However the logits are changed afterwards, a masked token stays out, and what is left shares all
// the probability; log-probabilities know nothing of it.
TEST(Masks, NothingBringsAMaskedTokenBack) {
  const std::vector<float> logits{9, 2, 1, 0};
  SamplingParameters parameters{.repetition_penalty = .5f,
                                .presence_penalty = -2,
                                .frequency_penalty = -2,
                                .logit_bias = {{0, 100.0f}},
                                .allowed_token_ids = {1, 2},
                                .logprobs = 1};
  TokenCounts history;
  history.AddPrompt(std::vector<int32_t>{0, 3});
  history.AddOutput(0);
  SamplerScratch scratch;
  Ids drawn;
  for (uint32_t position = 0; position < 200; ++position) {
    const SampledToken sampled = Sample({.logits = logits,
                                         .parameters = parameters,
                                         .history = history,
                                         .seed = 3,
                                         .position = position},
                                        &scratch)
                                     .value();
    drawn.insert(sampled.token);
    EXPECT_EQ(sampled.log_probs->top.at(0).token, 0);
    EXPECT_LT(sampled.log_probs->chosen.log_prob, -6.9);
  }
  EXPECT_EQ(drawn, (Ids{1, 2}));
}

}  // namespace
}  // namespace quire
