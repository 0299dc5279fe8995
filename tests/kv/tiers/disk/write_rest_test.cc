#include "kv/tiers/disk/write_rest.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

// Begun at 1000 by its third failure; lasts a second.
WriteRest Begun() {
  WriteRest rest;
  for (int i = 0; i < WriteRest::kMaxFailures; ++i) rest.Fail(1000, "no room");
  return rest;
}

TEST(WriteRest, BeginsAtTheThirdFailureInARow) {
  WriteRest rest;
  EXPECT_FALSE(rest.Fail(1000, "first"));
  EXPECT_FALSE(rest.Fail(1000, "second"));
  EXPECT_TRUE(rest.MayWrite(1000));
  EXPECT_TRUE(rest.Fail(1000, "third"));
  EXPECT_FALSE(rest.MayWrite(1000));
  EXPECT_FALSE(rest.MayWrite(1000.999));
  EXPECT_TRUE(rest.MayWrite(1001));
}

TEST(WriteRest, NeverBeginsWhereFailuresAreNotInARow) {
  WriteRest rest;
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(rest.Fail(1000 + i, "one"));
    EXPECT_FALSE(rest.Fail(1000 + i, "two"));
    rest.Succeed();
    EXPECT_TRUE(rest.MayWrite(1000 + i));
  }
}

TEST(WriteRest, LastsTwiceAsLongAfterEachFurtherFailureUpToAMinute) {
  WriteRest rest = Begun();
  double now_s = 1000;
  for (const double lasts_s : {1, 2, 4, 8, 16, 32, 60, 60}) {
    EXPECT_FALSE(rest.MayWrite(now_s + lasts_s - 0.001)) << lasts_s;
    now_s += lasts_s;
    EXPECT_TRUE(rest.MayWrite(now_s)) << lasts_s;
    EXPECT_TRUE(rest.Fail(now_s, "again"));
  }
}

TEST(WriteRest, TellsSinceWhenTheRowRestsAndWhyItFailedLast) {
  WriteRest rest = Begun();
  EXPECT_EQ(rest.ForMs(1000.5), 500);
  EXPECT_EQ(rest.reason(), "no room");
  rest.Fail(1001, "read only");
  EXPECT_EQ(rest.ForMs(1002), 2000);
  EXPECT_EQ(rest.reason(), "read only");
}

TEST(WriteRest, ASuccessEndsItAndTheNextOneIsShortAgain) {
  WriteRest rest = Begun();
  rest.Fail(1001, "again");
  rest.Succeed();
  EXPECT_TRUE(rest.MayWrite(1001));
  for (int i = 0; i < WriteRest::kMaxFailures; ++i) rest.Fail(2000, "later");
  EXPECT_EQ(rest.ForMs(2000.25), 250);
  EXPECT_FALSE(rest.MayWrite(2000.999));
  EXPECT_TRUE(rest.MayWrite(2001));
}

TEST(WriteRest, KeepsNobodyFromWritingByAClockThatWasSetBack) {
  WriteRest rest = Begun();
  EXPECT_TRUE(rest.MayWrite(999));
  EXPECT_EQ(rest.ForMs(999), 0);
  // The failure of that write begins a rest by the clock as it is.
  rest.Fail(500, "again");
  EXPECT_FALSE(rest.MayWrite(500.5));
  EXPECT_TRUE(rest.MayWrite(502));
}

}  // namespace
}  // namespace quire
