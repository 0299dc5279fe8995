// What a run's requests are doing, from its events alone.
#include "server/live/live_requests.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

StepEvent Step(const std::string& action, int64_t request, int cached_tokens = -1) {
  return {.lines = {{.request = request,
                     .action = action,
                     .is_admission = cached_tokens >= 0,
                     .cached_tokens = std::max(cached_tokens, 0)}}};
}

TEST(LiveRequests, FollowARequestFromItsArrivalToItsEnd) {
  LiveRequests requests;
  const auto only = [&] {
    const auto list = requests.List();
    EXPECT_EQ(list.size(), 1u);
    return list.empty() ? LiveRequest{} : list[0];
  };
  requests.Note(RequestEvent{.ms = 100, .request = 7, .name = "cmpl-7", .prompt_tokens = 30});
  EXPECT_EQ(only().state, LiveRequest::State::kWaiting);
  requests.Note(Step("wait", 7));
  EXPECT_EQ(only().state, LiveRequest::State::kWaiting);
  requests.Note(Step("prefill", 7, 16));
  EXPECT_EQ(only().state, LiveRequest::State::kRunning);
  EXPECT_EQ(only().cached_tokens, 16);
  EXPECT_EQ(only().first_token_ms, 0);
  requests.Note(TokenEvent{.ms = 130, .request = 7});
  requests.Note(TokenEvent{.ms = 140, .request = 7});
  EXPECT_EQ(only().first_token_ms, 30);
  requests.Note(Step("preempt", 7));
  EXPECT_EQ(only().state, LiveRequest::State::kWaiting);
  requests.Note(Step("prefill", 7, 31));
  EXPECT_EQ(only().cached_tokens, 16) << "what it finds of its own is no hit of its prompt";
  requests.Note(EndEvent{.request = 7, .reason = "stop", .cached_memory = 10, .cached_disk = 6});
  EXPECT_EQ(only().state, LiveRequest::State::kEnded);
  EXPECT_EQ(only().cached_tokens, 16);
  EXPECT_EQ(only().end->reason, "stop");
  EXPECT_EQ(only().asked.name, "cmpl-7");
}

TEST(LiveRequests, KeepTheLastThatHaveEndedAndAllThatHaveNot) {
  LiveRequests requests;
  for (int64_t id = 1; id <= 1000; ++id) requests.Note(RequestEvent{.request = id});
  for (int64_t id = 1; id <= 990; ++id) requests.Note(EndEvent{.request = id});
  const auto list = requests.List();
  ASSERT_EQ(list.size(), LiveRequests::kMaxEnded + 10);
  EXPECT_EQ(list.front().asked.request, 791);
  EXPECT_EQ(list[199].asked.request, 990);
  EXPECT_EQ(list.back().asked.request, 1000);
}

TEST(LiveRequests, WhatNobodyAskedForIsPassedOver) {
  LiveRequests requests;
  requests.Note(Step("decode", 3));
  requests.Note(TokenEvent{.request = 3});
  requests.Note(EndEvent{.request = 3});
  requests.Note(BlockEvent{});
  requests.Note(RunEvent{});
  EXPECT_TRUE(requests.List().empty());
}

TEST(LiveRequests, CountTheTokensOfTheLastSeconds) {
  LiveRequests requests;
  EXPECT_EQ(requests.TokensPerSecond(0), 0);
  // Ten a second from 0 to 20 s.
  for (int i = 0; i < 200; ++i) requests.Note(TokenEvent{.ms = i * 100. + 50});
  EXPECT_NEAR(requests.TokensPerSecond(19'990), 10, .5);
  EXPECT_NEAR(requests.TokensPerSecond(22'000), 10. * 2 / 4, .5) << "two seconds of silence";
  EXPECT_EQ(requests.TokensPerSecond(60'000), 0);
  LiveRequests young;
  for (int i = 0; i < 5; ++i) young.Note(TokenEvent{.ms = i * 100.});
  EXPECT_NEAR(young.TokensPerSecond(500), 10, .1) << "a run that is half a second old";
}

}  // namespace
}  // namespace quire
