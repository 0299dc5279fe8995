#include "plan/concurrency.h"

#include "plan/plan_fixture.h"

namespace quire {
namespace {

using namespace testing;
using ::testing::HasSubstr;

Concurrency Of(const KvCost& cost, uint64_t bytes, const ConcurrencyOptions& options) {
  const auto there = PlanConcurrency(cost, bytes, options);
  QUIRE_CHECK(there.ok(), "{}", there.error().message);
  return *there;
}

TEST(Concurrency, ACardWithHalfOfItForTheCache) {
  const KvCost cost = Cost(Preset("qwen-7b"));
  const std::pair<int, int> expected[] = {{512, 48}, {2048, 12}, {4096, 6}, {8192, 3}};
  for (const auto& [context, sequences] : expected) {
    EXPECT_EQ(Of(cost, 12 * kGiB, {.context_tokens = context}).worst_case, sequences);
  }
}

// Every length is the mean: a prompt of 160 tokens, of which 320 follow.
TEST(Concurrency, WithoutSpreadALiveSequenceIsHalfwayThroughItsAnswer) {
  const KvCost cost = Cost(Preset("llama-3-8b"));
  const LengthDistribution lengths{
      .mean_input = 160, .mean_output = 320, .sigma = 0, .max_total = 2048};
  const LiveSequence live = Of(cost, kGiB, {.context_tokens = 2048, .lengths = lengths}).live;
  EXPECT_NEAR(live.mean_tokens, 160 + 319 / 2.0, 1e-6);
  // Entries 160..479: one step with 10 blocks, 16 each with 11 to 29, 15 with 30.
  double blocks = 10 + 15 * 30;
  for (int n = 11; n <= 29; ++n) blocks += 16.0 * n;
  EXPECT_NEAR(live.mean_bytes, blocks / 320 * static_cast<double>(cost.BytesPerBlock()), 1);
}

TEST(Concurrency, PagingCarriesManyTimesWhatReservationDoes) {
  const KvCost cost = Cost(Preset("llama-13b"));
  const uint64_t bytes = 8 * cost.BlockBytes(2048, 256);
  const Concurrency there = Of(cost, bytes, {.context_tokens = 2048});
  EXPECT_EQ(there.worst_case, 8);
  EXPECT_GT(there.expected, 2 * 8);
  EXPECT_LT(there.expected_steady, there.expected);
  EXPECT_GT(there.expected_steady, 8);
  // Longer answers live longer: more than the mean prompt and half the mean answer.
  EXPECT_GT(there.live.mean_tokens, 161 + 338 / 2.0);
  EXPECT_LT(there.live.mean_tokens, 2048);
}

TEST(Concurrency, ASharedPrefixIsHeldOnce) {
  const KvCost cost = Cost(Preset("llama-3-8b"));
  // 10 sequences of 64 blocks; 32 of them are the same.
  const uint64_t block = cost.BytesPerBlock();
  const ConcurrencyOptions options{.context_tokens = 1024, .shared_prefix = 512};
  EXPECT_EQ(Of(cost, 640 * block, options).worst_case, 10);
  EXPECT_EQ(Of(cost, 640 * block, options).worst_case_shared, (640 - 32) / (64 - 32));
  EXPECT_EQ(Of(cost, 640 * block, options).prefix_bytes, 32 * block);
  // A block that is not full is nobody's to share.
  EXPECT_EQ(cost.SharedBlocks(511), 31);
  EXPECT_EQ(Of(cost, 31 * block, options).worst_case_shared, 0);
}

TEST(Concurrency, LengthsThatMakeNoSenseAreRefused) {
  const KvCost cost = Cost(Preset("llama-3-8b"));
  const auto refusal = [&](const LengthDistribution& lengths, int prefix = 0) {
    const auto there = PlanConcurrency(
        cost, kGiB, {.context_tokens = 1024, .shared_prefix = prefix, .lengths = lengths});
    return there.ok() ? std::string("accepted") : there.error().message;
  };
  EXPECT_THAT(refusal({.mean_input = 0}), HasSubstr("mean input of 0"));
  EXPECT_THAT(refusal({.mean_output = -1}), HasSubstr("mean output of -1"));
  EXPECT_THAT(refusal({.sigma = 9}), HasSubstr("sigma of 9"));
  EXPECT_THAT(refusal({.max_total = 1}), HasSubstr("2 to 1048576"));
  EXPECT_THAT(refusal({}, 1024), HasSubstr("expected a shorter one"));
  EXPECT_THAT(refusal({}, -1), HasSubstr("shared prefix of -1"));
}

}  // namespace
}  // namespace quire
