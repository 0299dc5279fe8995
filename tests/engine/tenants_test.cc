// Requests of tenants with quotas, and what a result tells of the cache.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "engine/requests_fixture.h"

namespace quire::testing {
namespace {

using ::testing::HasSubstr;

class TenantsTest : public RequestsFixture {
 protected:
  static Request Of(const std::string& tenant, int64_t max_blocks, std::vector<int32_t> prompt,
                    int max_tokens) {
    Request request = Sampled(std::move(prompt), max_tokens);
    request.tenant = tenant;
    request.tenant_max_blocks = max_blocks;
    request.cache_salt = tenant;
    return request;
  }
};

TEST_F(TenantsTest, APromptThatTheQuotaCanNeverHoldIsRefusedWithTheNumbers) {
  auto engine = Tiny(24);
  const auto refused = engine->Submit(Of("a", 4, Ascending(64), 1));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kContextLength);
  EXPECT_THAT(refused.error().message, HasSubstr("needs 5 blocks"));
  EXPECT_THAT(refused.error().message, HasSubstr("quota of 4 blocks has room for 64 tokens"));
  EXPECT_EQ(engine->Submit(Of("a", -1, Ascending(4), 1)).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(TenantsTest, AnAnswerEndsWhereTheQuotaIsFull) {
  auto engine = Tiny(24);
  const RequestResult result = RunOne(*engine, Of("a", 4, Ascending(50), -1));
  EXPECT_EQ(result.completion_tokens(), 14);
  EXPECT_EQ(result.choices[0].finish_reason, FinishReason::kLength);
}

// Each takes 5 blocks in the end; the pool has room for all.
TEST_F(TenantsTest, OneTenantsQuotaDoesNotHoldBackAnother) {
  auto engine = Tiny(40);
  std::vector<Request> requests;
  for (int i = 0; i < 4; ++i) requests.push_back(Of("a", 6, Ascending(34, i + 1), 35));
  requests.push_back(Of("b", 0, Ascending(34, 99), 35));
  std::vector<RequestResult> alone;
  for (const Request& request : requests) alone.push_back(RunOne(*Tiny(40), request));
  const auto results = RunTogether(*engine, requests);
  for (size_t i = 0; i < results.size(); ++i) ExpectSameChoices(results[i], alone[i]);
  // It came last and did not wait for three of the others.
  EXPECT_LT(results[4].queue_ms, results[2].queue_ms);
  EXPECT_EQ(results[4].num_preemptions, 0);
}

TEST_F(TenantsTest, AmongTenantsThatWithTheFewestRunningIsNext) {
  auto engine = Tiny(0, 512, /*max_sequences=*/2);
  std::vector<Request> requests;
  for (int i = 0; i < 5; ++i) requests.push_back(Of("a", 0, Ascending(20, i + 1), 8));
  requests.push_back(Of("b", 0, Ascending(20, 99), 8));
  std::vector<size_t> ended;
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto id =
        engine->Submit(requests[i], {.on_finish = [&, i](RequestResult) { ended.push_back(i); }});
    ASSERT_TRUE(id.ok());
  }
  RunChecked(*engine);
  EXPECT_EQ(ended, (std::vector<size_t>{0, 5, 1, 2, 3, 4}));
}

// E13: 7 blocks for two sequences that need 5 each.
TEST_F(TenantsTest, AResultTellsHowOftenItsSequencesWerePreempted) {
  auto engine = Tiny(8);
  const auto results =
      RunTogether(*engine, {Of("a", 0, Ascending(34, 1), 35), Of("a", 0, Ascending(34, 2), 35)});
  EXPECT_EQ(results[0].num_preemptions + results[1].num_preemptions,
            engine->batch().counters().preemptions);
  EXPECT_GE(engine->batch().counters().preemptions, 1);
}

TEST_F(TenantsTest, AResultTellsWhyNoMoreWasFound) {
  auto engine = Tiny(24);
  const std::vector<int32_t> prompt = Ascending(40);
  EXPECT_EQ(RunOne(*engine, Sampled(prompt, 2)).miss.reason, MissReason::kNeverSeen);
  EXPECT_EQ(RunOne(*engine, Sampled(prompt, 2)).miss.reason, MissReason::kNone);

  std::vector<int32_t> other = prompt;
  other[20] = 7;
  const PrefixMiss miss = RunOne(*engine, Sampled(other, 2)).miss;
  EXPECT_EQ(miss.reason, MissReason::kDiffers);
  EXPECT_EQ(miss.position, 20);
  ASSERT_GE(miss.cached_tokens.size(), 16u);
  EXPECT_TRUE(std::equal(miss.cached_tokens.begin(), miss.cached_tokens.end(), &prompt[20]));

  Request computed = Sampled(prompt, 2);
  computed.prompt_logprobs = 1;
  EXPECT_EQ(RunOne(*engine, computed).miss.reason, MissReason::kNotRead);
  computed = Sampled(prompt, 2);
  computed.use_kv_cache = false;
  EXPECT_EQ(RunOne(*engine, computed).miss.reason, MissReason::kNotRead);
  computed = Sampled(prompt, 2);
  computed.cache_salt = "another's";
  EXPECT_EQ(RunOne(*engine, computed).miss.reason, MissReason::kNeverSeen);

  for (int i = 1; i < 9; ++i) RunOne(*engine, Sampled(Ascending(100, 30 * i), 10));
  const PrefixMiss gone = RunOne(*engine, Sampled(prompt, 2)).miss;
  EXPECT_EQ(gone.reason, MissReason::kEvicted);
  EXPECT_EQ(gone.position, 0);
  EXPECT_GT(gone.evicted_ms_ago, 0);

  const EngineCounters& counters = engine->counters();
  EXPECT_EQ(counters.misses[static_cast<size_t>(MissReason::kNone)], 1);
  EXPECT_EQ(counters.misses[static_cast<size_t>(MissReason::kDiffers)], 1 + 8);
  EXPECT_EQ(counters.misses[static_cast<size_t>(MissReason::kNotRead)], 2);
  EXPECT_EQ(std::accumulate(counters.misses.begin(), counters.misses.end(), int64_t{0}),
            counters.requests_finished);
  EXPECT_EQ(counters.prefix_cache_queries, counters.prompt_tokens - 2 * 40);
  EXPECT_EQ(counters.prefix_cache_hits, 39 + 20);
}

// Tenants with quotas, pins that come and go, aborts: whoever ends says what it says alone.
TEST_F(TenantsTest, EveryAnswerIsItsOwnBesideOthersAndPins) {
  constexpr int kBlocks = 16;
  int64_t preemptions = 0;
  int num_pins = 0;
  for (uint32_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto draw = [&](int low, int high) {
      return std::uniform_int_distribution(low, high)(random);
    };
    auto engine = Tiny(kBlocks, draw(20, 100));
    auto cold = Tiny(kBlocks);
    std::vector<Request> requests;
    std::vector<RequestResult> results(12);
    for (int i = 0; i < 12; ++i) {
      const std::string tenant = draw(0, 1) == 0 ? "a" : "b";
      std::vector<int32_t> prompt = Ascending(draw(1, 70), tenant == "a" ? 1 : 2);
      const int changed = draw(0, static_cast<int>(prompt.size()) - 1);
      if (draw(0, 1) == 0) prompt[changed] = draw(0, 290);
      Request request = Of(tenant, tenant == "a" ? 7 : 9, prompt, draw(1, 30));
      request.num_choices = draw(0, 3) == 0 ? 3 : 1;
      if (draw(0, 5) == 0) request.priority = draw(-1, 1);
      requests.push_back(request);
    }
    for (size_t i = 0; i < requests.size();) {
      while (i < requests.size() && draw(0, 2) == 0) {
        const auto id = engine->Submit(
            requests[i],
            {.on_finish = [&results, i](RequestResult result) { results[i] = std::move(result); }});
        ASSERT_TRUE(id.ok()) << id.error().message;
        if (draw(0, 9) == 0) engine->Abort(*id);
        ++i;
      }
      if (draw(0, 9) == 0) {
        engine->Pin({.tokens = Ascending(draw(1, 100), draw(1, 2)),
                     .cache_salt = "a",
                     .tenant = "a",
                     .lifetime_ms = 1e6},
                    [&](const Result<PinInfo>& pin) { num_pins += pin.ok(); });
      }
      const auto pins = engine->Pins("a");
      if (!pins.empty() && draw(0, 15) == 0) engine->DropPin("a", pins[0].id);
      engine->Step();
      engine->CheckInvariants();
    }
    while (engine->Step()) engine->CheckInvariants();
    preemptions += engine->batch().counters().preemptions;
    for (size_t i = 0; i < requests.size(); ++i) {
      if (results[i].choices[0].finish_reason == FinishReason::kAborted) continue;
      ExpectSameChoices(results[i], RunOne(*cold, requests[i]));
    }
    EXPECT_EQ(engine->cache().usage().used_blocks, engine->num_pinned_blocks());
  }
  EXPECT_GT(preemptions, 20);
  EXPECT_GT(num_pins, 5);
}

}  // namespace
}  // namespace quire::testing
