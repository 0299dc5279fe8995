#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "cli/bench/figures.h"
#include "cli/bench/load.h"
#include "cli/bench/random_stream.h"

namespace quire::testing {
namespace {

std::vector<int32_t> Vocabulary() { return {10, 11, 12, 13, 14, 15, 16, 17}; }

std::vector<LoadRequest> Load(const LoadShape& options) {
  const std::vector<int32_t> vocabulary = Vocabulary();
  auto load = MakeLoad(options, vocabulary);
  EXPECT_TRUE(load.ok()) << (load.ok() ? "" : load.error().message);
  return load.ok() ? std::move(*load) : std::vector<LoadRequest>{};
}

TEST(RandomStream, HasTheMomentsOfItsDistributions) {
  constexpr int kDraws = 20'000;
  RandomStream random(7, 0);
  double normal = 0;
  double square = 0;
  double log_normal = 0;
  double gap = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double z = random.Normal();
    normal += z / kDraws;
    square += z * z / kDraws;
    log_normal += random.LogNormal(161, 1.0) / kDraws;
    gap += random.Exponential(4) / kDraws;
  }
  EXPECT_NEAR(normal, 0, 0.03);
  EXPECT_NEAR(square, 1, 0.03);
  EXPECT_NEAR(log_normal, 161, 6);  // its deviation is 211, of the mean 1.5
  EXPECT_NEAR(gap, 0.25, 0.01);
}

TEST(RandomStream, DrawsEveryNumberBelowTheLimitAndNoOther) {
  RandomStream random(7, 0);
  std::vector<int> counts(5);
  for (int i = 0; i < 5000; ++i) ++counts.at(random.Below(5));
  for (const int count : counts) EXPECT_NEAR(count, 1000, 150);
}

TEST(Load, IsTheSameForTheSameSeedAndAnotherForAnother) {
  const LoadShape options{.num_prompts = 20, .request_rate = 5, .seed = 3};
  const auto once = Load(options);
  const auto again = Load(options);
  LoadShape other = options;
  other.seed = 4;
  const auto others = Load(other);
  for (size_t i = 0; i < once.size(); ++i) {
    EXPECT_EQ(once[i].prompt, again[i].prompt);
    EXPECT_EQ(once[i].arrival_ms, again[i].arrival_ms);
    EXPECT_NE(once[i].prompt, others[i].prompt);
  }
}

TEST(Load, ShareGptLengthsHaveThePapersMeansWhereNothingIsCut) {
  const auto load = Load({.num_prompts = 8000, .max_total_tokens = 1 << 20});
  double input = 0;
  double output = 0;
  for (const LoadRequest& request : load) {
    input += static_cast<double>(request.prompt.size()) / 8000;
    output += request.output_tokens / 8000.0;
  }
  EXPECT_NEAR(input, 161, 9);
  EXPECT_NEAR(output, 338, 18);
}

TEST(Load, NoRequestOfShareGptExceedsTheCut) {
  size_t longest = 0;
  for (const LoadRequest& request : Load({.num_prompts = 2000})) {
    ASSERT_GE(request.prompt.size(), 1u);
    ASSERT_GE(request.output_tokens, 1);
    longest = std::max(longest, request.prompt.size() + request.output_tokens);
  }
  EXPECT_EQ(longest, 2048u);  // some are cut
}

TEST(Load, PoissonArrivalsComeAtTheirRateInOrder) {
  const auto load = Load({.num_prompts = 4000, .request_rate = 20});
  EXPECT_EQ(load.front().arrival_ms, 0);
  EXPECT_TRUE(std::ranges::is_sorted(load, {}, &LoadRequest::arrival_ms));
  EXPECT_NEAR(load.back().arrival_ms / 1000, 4000 / 20.0, 10);
}

TEST(Load, WithoutARateAllArriveAtOnce) {
  for (const LoadRequest& request : Load({.num_prompts = 9})) EXPECT_EQ(request.arrival_ms, 0);
}

TEST(Load, PromptsOfASharedPrefixDifferInTheirTailsAlone) {
  const auto load = Load({.kind = LoadKind::kSharedPrefix,
                          .num_prompts = 3,
                          .prefix_tokens = 100,
                          .input_tokens = 20,
                          .output_tokens = 5});
  for (const LoadRequest& request : load) {
    ASSERT_EQ(request.prompt.size(), 120u);
    EXPECT_EQ(request.output_tokens, 5);
    EXPECT_TRUE(std::equal(request.prompt.begin(), request.prompt.begin() + 100,
                           load.front().prompt.begin()));
  }
  EXPECT_NE(load[0].prompt, load[1].prompt);
  EXPECT_NE(load[1].prompt, load[2].prompt);
}

TEST(Load, ATurnFollowsTheOneBeforeItInItsConversation) {
  const auto load = Load({.kind = LoadKind::kMultiTurn,
                          .num_prompts = 6,
                          .prefix_tokens = 8,
                          .input_tokens = 4,
                          .output_tokens = 3,
                          .turns = 3});
  std::vector<int> follows;
  for (const LoadRequest& request : load) follows.push_back(request.follows);
  EXPECT_EQ(follows, (std::vector<int>{-1, -1, 0, 1, 2, 3}));
  EXPECT_EQ(load[0].prompt.size(), 12u);  // prefix and turn
  EXPECT_EQ(load[2].prompt.size(), 4u);   // what the turn adds
}

TEST(Load, ARequestThatCannotFitIsRefusedWithTheNumbers) {
  const auto load = MakeLoad({.kind = LoadKind::kMultiTurn,
                              .max_total_tokens = 100,
                              .prefix_tokens = 20,
                              .input_tokens = 10,
                              .output_tokens = 11,
                              .turns = 4},
                             Vocabulary());
  ASSERT_FALSE(load.ok());
  EXPECT_EQ(load.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(load.error().message.find("104 tokens"), std::string::npos) << load.error().message;
}

TEST(Load, NamesReadBackAsTheirKinds) {
  for (const LoadKind kind : {LoadKind::kShareGpt, LoadKind::kSharedPrefix, LoadKind::kMultiTurn}) {
    EXPECT_EQ(ParseLoadKind(NameOf(kind)), kind);
  }
  EXPECT_EQ(ParseLoadKind("share"), std::nullopt);
}

}  // namespace
}  // namespace quire::testing
