#include "kv/tiers/redis/held_names.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

RecordName NameFrom(int number) {
  RecordName name;
  name.digest[0] = static_cast<uint8_t>(number);
  name.digest[1] = static_cast<uint8_t>(number >> 8);
  return name;
}

TEST(HeldNames, BelievesWhatWasSeenForAWhile) {
  HeldNames held(100, 1000);
  held.Add(NameFrom(1), std::nullopt, 5000);
  EXPECT_TRUE(held.Holds(NameFrom(1), 5999));
  EXPECT_FALSE(held.Holds(NameFrom(1), 6000));
  EXPECT_FALSE(held.Holds(NameFrom(2), 5000));
}

TEST(HeldNames, KeepsTheTenantWhereALaterSightDoesNotTellIt) {
  HeldNames held(100, 1000);
  const TenantTag tenant = {7};
  held.Add(NameFrom(1), tenant, 0);
  held.Add(NameFrom(1), std::nullopt, 10);
  EXPECT_EQ(held.TenantOf(NameFrom(1)), tenant);
  EXPECT_EQ(held.TenantOf(NameFrom(2)), std::nullopt);
}

TEST(HeldNames, ForgetsOneAndAll) {
  HeldNames held(100, 1000);
  for (int i = 0; i < 10; ++i) held.Add(NameFrom(i), std::nullopt, 0);
  held.Forget(NameFrom(3));
  EXPECT_FALSE(held.Holds(NameFrom(3), 0));
  EXPECT_TRUE(held.Holds(NameFrom(4), 0));
  held.Clear();
  EXPECT_EQ(held.size(), 0u);
}

TEST(HeldNames, StayWithinTheirBoundAndKeepTheLatest) {
  HeldNames held(100, 1000);
  for (int i = 0; i < 1000; ++i) {
    held.Add(NameFrom(i), std::nullopt, 0);
    ASSERT_LE(held.size(), 100u);
    for (int back = 0; back < 50 && back <= i; ++back) {
      ASSERT_TRUE(held.Holds(NameFrom(i - back), 0)) << i << " " << back;
    }
  }
}

}  // namespace
}  // namespace quire
