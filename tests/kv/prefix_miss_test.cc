// Why a prefix was not found further: small texts, small pools.
#include <gtest/gtest.h>

#include "kv/kv_fixture.h"

namespace quire {
namespace {

using Tokens = std::vector<int32_t>;

class WhyAPrefixEnds : public KvFixture {
 protected:
  PrefixMiss Explain(const Tokens& tokens, const Digest& root) {
    IdentityChain chain(root);
    const int most = static_cast<int>(tokens.size()) - 1;
    return cache_->Explain(chain, tokens, cache_->Match(chain, tokens, most).num_tokens);
  }
  PrefixMiss Explain(const Tokens& tokens) { return Explain(tokens, root_); }
};

TEST_F(WhyAPrefixEnds, NoneWhereAllButTheLastTokenIsFound) {
  Open({0}, 20);
  RunAndEnd(Numbers(40));
  for (const int size : {1, 2, 16, 17, 40}) {
    const PrefixMiss miss = Explain(Numbers(size));
    EXPECT_EQ(miss.reason, MissReason::kNone) << size;
    EXPECT_EQ(miss.position, size - 1);
  }
}

TEST_F(WhyAPrefixEnds, NeverSeenWhereNothingGoesOn) {
  Open({0}, 20);
  EXPECT_EQ(Explain(Numbers(40)).reason, MissReason::kNeverSeen);
  EXPECT_EQ(Explain(Numbers(40)).position, 0);
  RunAndEnd(Numbers(20));
  EXPECT_EQ(Explain(Numbers(40)).reason, MissReason::kNeverSeen);  // an unfilled tail ends there
  EXPECT_EQ(Explain(Numbers(40)).position, 20);
  RunAndEnd(Numbers(32));
  EXPECT_EQ(Explain(Numbers(40)).position, 32);  // a whole block ends there
  EXPECT_EQ(Explain(Numbers(40)).reason, MissReason::kNeverSeen);
}

TEST_F(WhyAPrefixEnds, DiffersWithWhatTheCacheHoldsInstead) {
  Open({0}, 20);
  RunAndEnd(Numbers(40));
  const PrefixMiss miss = Explain(Join(Numbers(13), Numbers(30, 500)));
  EXPECT_EQ(miss.reason, MissReason::kDiffers);
  EXPECT_EQ(miss.position, 13);
  EXPECT_EQ(miss.cached_tokens, Numbers(16, 13));  // over the end of its block
  EXPECT_EQ(Explain(Join(Numbers(38), Numbers(30, 500))).cached_tokens, Numbers(2, 38));
}

TEST_F(WhyAPrefixEnds, DiffersFromTheOneThatHasMostInCommon) {
  Open({0}, 20);
  RunAndEnd(Join(Numbers(5), Numbers(20, 100)));
  RunAndEnd(Join(Numbers(9), Numbers(20, 200)));
  RunAndEnd(Join(Numbers(9), {7}));
  RunAndEnd(Join(Numbers(2), Numbers(20, 300)));
  const PrefixMiss miss = Explain(Join(Numbers(9), Numbers(20, 150)));
  EXPECT_EQ(miss.position, 9);
  EXPECT_TRUE(miss.cached_tokens == Numbers(16, 200) || miss.cached_tokens == Tokens{7});
}

TEST_F(WhyAPrefixEnds, NothingIsToldAcrossRoots) {
  Open({0}, 4);
  const Digest other = RootOf(Digest{}, "other");
  RunAndEnd(Numbers(40));
  EXPECT_EQ(Explain(Numbers(40), other).reason, MissReason::kNeverSeen);
  cache_->DropCached();
  EXPECT_EQ(Explain(Numbers(40), other).reason, MissReason::kNeverSeen);
  EXPECT_EQ(Explain(Numbers(40)).reason, MissReason::kEvicted);
}

TEST_F(WhyAPrefixEnds, EvictedWithTheTimeSince) {
  Open({0}, 3);
  RunAndEnd(Numbers(40));
  cache_->SetTime(1000);
  RunAndEnd(Numbers(17, 500));  // takes two blocks, the first's tail
  cache_->SetTime(1250);
  const PrefixMiss miss = Explain(Numbers(40));
  EXPECT_EQ(miss.reason, MissReason::kEvicted);
  EXPECT_EQ(miss.position, 16);
  EXPECT_EQ(miss.evicted_ms_ago, 250);
  EXPECT_EQ(cache_->counters().blocks_evicted, 2);
}

// The block held more than the prompt's tokens: an answer had gone on in it.
TEST_F(WhyAPrefixEnds, EvictedWhereTheBlockHeldMore) {
  Open({0}, 2);
  RunAndEnd(Numbers(24));
  RunAndEnd(Numbers(24, 500));
  EXPECT_EQ(Explain(Numbers(10)).reason, MissReason::kEvicted);
  EXPECT_EQ(Explain(Join(Numbers(10), {77, 78})).reason, MissReason::kEvicted);
}

TEST_F(WhyAPrefixEnds, WhatIsComputedAgainWasNotEvicted) {
  Open({0}, 8);
  RunAndEnd(Numbers(20));
  cache_->DropCached();
  EXPECT_EQ(cache_->counters().blocks_dropped, 2);
  EXPECT_EQ(Explain(Numbers(30)).reason, MissReason::kEvicted);
  RunAndEnd(Numbers(20));
  EXPECT_EQ(Explain(Numbers(30)).reason, MissReason::kNeverSeen);
  EXPECT_EQ(Explain(Numbers(30)).position, 20);
}

TEST_F(WhyAPrefixEnds, EvictedWhereAWindowLacksItsBlocks) {
  Open({0, 20}, 24);
  RunAndEnd(Numbers(100));
  // 14 blocks: the first ones of the window, left behind first, have gone first.
  RunAndEnd(Numbers(110, 500));
  const PrefixMiss miss = Explain(Join(Numbers(60), Numbers(10, 900)));
  EXPECT_EQ(miss.reason, MissReason::kEvicted);
  EXPECT_LT(miss.position, 60);
}

class WhatIsKept : public KvFixture {};

TEST_F(WhatIsKept, IsFoundWhoeverComputedIt) {
  for (const int size : {32, 40}) {
    Open({0, 20}, 24);
    {
      BlockTables one = Start(Numbers(size));
      BlockTables other = cache_->Acquire(root_, {}, 0).value();
      EXPECT_TRUE(Compute(other, Numbers(size)));  // the same content in blocks without a name
      {
        const BlockTables kept = cache_->Keep(other);
        cache_->CheckInvariants();
        EXPECT_EQ(kept.table(0)[0], one.table(0)[0]);
        EXPECT_EQ(kept.table(0)[1], one.table(0)[1]);
        one = cache_->AcquirePrivate();
        other = cache_->AcquirePrivate();
        RunAndEnd(Numbers(100, 500));
        RunAndEnd(Numbers(100, 700));
        EXPECT_EQ(Found(Join(Numbers(size), {7})), size);
      }
      cache_->CheckInvariants();
    }
  }
}

TEST_F(WhatIsKept, IsNamedWhereItsNamesakeHasGone) {
  Open({0}, 6);
  RunAndEnd(Numbers(32));
  BlockTables tables = cache_->Acquire(root_, {}, 0).value();
  EXPECT_TRUE(Compute(tables, Numbers(32)));
  RunAndEnd(Numbers(64, 500));
  EXPECT_EQ(Found(Numbers(40)), 0);
  const BlockTables kept = cache_->Keep(tables);
  EXPECT_EQ(Found(Numbers(40)), 32);
  cache_->CheckInvariants();
}

TEST(EvictionRecord, KeepsWhatWentLast) {
  EvictionRecord record(1);
  const Digest root = RootOf(Digest{}, "");
  for (int i = 0; i < 1000; ++i) record.Add(root, Tokens{i, 1, 2}, 1. * i);
  EXPECT_EQ(record.Find(root, Tokens{999, 1, 5}, 2), 999);
  EXPECT_EQ(record.Find(root, Tokens{999, 1, 5}, 3), std::nullopt);
  EXPECT_EQ(record.Find(root, Tokens{0, 1, 2}, 1), std::nullopt);
}

TEST(EvictionRecord, TellsTheLastOfSeveral) {
  EvictionRecord record(100);
  const Digest root = RootOf(Digest{}, "");
  record.Add(root, Tokens{1, 2, 3}, 10);
  record.Add(root, Tokens{1, 2, 4}, 30);
  record.Add(root, Tokens{1, 5, 4}, 40);
  record.Add(root, Tokens{1, 2, 3}, 20);
  EXPECT_EQ(record.Find(root, Tokens{1, 2, 3}, 3), 20);
  EXPECT_EQ(record.Find(root, Tokens{1, 2, 3}, 2), 30);
  EXPECT_EQ(record.Find(root, Tokens{1, 2, 3}, 1), 40);
  record.Remove(root, Tokens{1, 2, 4});
  EXPECT_EQ(record.Find(root, Tokens{1, 2, 3}, 2), 20);
  EXPECT_EQ(record.Find(RootOf(Digest{}, "x"), Tokens{1, 2, 3}, 1), std::nullopt);
}

}  // namespace
}  // namespace quire
