#include "kv/tiers/redis/circuit_breaker.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

constexpr auto kRefused = Admission::kRefused;
constexpr auto kAdmitted = Admission::kAdmitted;
constexpr auto kTrial = Admission::kTrial;

// Opened at 0 by its third failure; rests for 1,000 ms.
CircuitBreaker Opened() {
  CircuitBreaker breaker(3);
  for (int i = 0; i < 3; ++i) breaker.Fail(breaker.Admit(0), 0);
  return breaker;
}

TEST(CircuitBreaker, OpensAtTheThirdFailureInARow) {
  CircuitBreaker breaker(3);
  EXPECT_FALSE(breaker.Fail(breaker.Admit(0), 0));
  EXPECT_FALSE(breaker.Fail(breaker.Admit(0), 0));
  EXPECT_EQ(breaker.Admit(0), kAdmitted);
  EXPECT_TRUE(breaker.Fail(kAdmitted, 0));
  EXPECT_EQ(breaker.Admit(999), kRefused);
  EXPECT_EQ(breaker.OpenForMs(500), 500);
}

TEST(CircuitBreaker, StaysClosedWhereFailuresAreNotInARow) {
  CircuitBreaker breaker(3);
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(breaker.Fail(breaker.Admit(i), i));
    EXPECT_FALSE(breaker.Fail(breaker.Admit(i), i));
    breaker.Succeed();
  }
  EXPECT_EQ(breaker.Admit(10), kAdmitted);
}

TEST(CircuitBreaker, LetsOneTrialThroughAfterItsRest) {
  CircuitBreaker breaker = Opened();
  EXPECT_TRUE(breaker.IsReady(1000));
  EXPECT_EQ(breaker.Admit(1000), kTrial);
  EXPECT_EQ(breaker.Admit(1000), kRefused);
  breaker.Succeed();
  EXPECT_EQ(breaker.Admit(1000), kAdmitted);
  EXPECT_EQ(breaker.OpenForMs(1000), 0);
}

TEST(CircuitBreaker, RestsTwiceAsLongAfterEachFailedTrialUpToAMinute) {
  CircuitBreaker breaker = Opened();
  double now = 0;
  for (const double rest : {1000, 2000, 4000, 8000, 16'000, 32'000, 60'000, 60'000}) {
    EXPECT_EQ(breaker.Admit(now + rest - 1), kRefused) << rest;
    now += rest;
    EXPECT_EQ(breaker.Admit(now), kTrial) << rest;
    EXPECT_FALSE(breaker.Fail(kTrial, now));
  }
  EXPECT_EQ(breaker.OpenForMs(now), now);
}

TEST(CircuitBreaker, ATrialThatTellsNothingLeavesTheNextOne) {
  CircuitBreaker breaker = Opened();
  breaker.Abandon(breaker.Admit(1000));
  EXPECT_EQ(breaker.Admit(1000), kTrial);
}

TEST(CircuitBreaker, WhatBeganBeforeItOpenedChangesNothing) {
  CircuitBreaker breaker = Opened();
  EXPECT_EQ(breaker.Admit(1000), kTrial);
  EXPECT_FALSE(breaker.Fail(kAdmitted, 1000));
  breaker.Abandon(kAdmitted);
  EXPECT_EQ(breaker.Admit(1000), kRefused) << "the trial is still under way";
}

TEST(CircuitBreaker, RestsShortlyAgainOnceItHasWorked) {
  CircuitBreaker breaker = Opened();
  breaker.Fail(breaker.Admit(1000), 1000);
  EXPECT_EQ(breaker.Admit(3000), kTrial);
  breaker.Succeed();
  EXPECT_TRUE(breaker.Trip(4000));
  EXPECT_EQ(breaker.Admit(5000), kTrial);
}

}  // namespace
}  // namespace quire
