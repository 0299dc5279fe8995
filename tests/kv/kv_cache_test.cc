// The verbs of KvCache, one by one.
#include "kv/kv_cache.h"

#include <algorithm>
#include <utility>

#include "kv/kv_fixture.h"

namespace quire {
namespace {

class KvCacheTest : public KvFixture {
 protected:
  KvCacheTest() { Open({0}, 4); }
};

TEST_F(KvCacheTest, SeventeenTokensTakeTwoBlocks) {
  BlockTables tables = Start(Numbers(16));
  EXPECT_EQ(tables.num_blocks(), 1);
  EXPECT_TRUE(Compute(tables, Numbers(17)));
  EXPECT_EQ(tables.num_blocks(), 2);
  EXPECT_EQ(cache_->usage().used_blocks, 2);
  EXPECT_EQ(cache_->usage().free_blocks, 2);
  EXPECT_EQ(cache_->usage().filled_slots, 17);
}

TEST_F(KvCacheTest, ReserveBeyondThePoolChangesNothing) {
  BlockTables tables = Start(Numbers(33));
  EXPECT_EQ(cache_->BlocksToReserve(tables, 65), 2);
  EXPECT_FALSE(cache_->Reserve(tables, 65));
  EXPECT_EQ(tables.num_blocks(), 3);
  EXPECT_EQ(cache_->usage().free_blocks, 1);
  EXPECT_TRUE(cache_->Reserve(tables, 64));
  EXPECT_EQ(cache_->usage().filled_slots, 33) << "reserved is not filled";
}

TEST_F(KvCacheTest, ReserveOfWhatIsThereTakesNothing) {
  BlockTables tables = Start(Numbers(20));
  EXPECT_EQ(cache_->BlocksToReserve(tables, 32), 0);
  EXPECT_TRUE(cache_->Reserve(tables, 32));
  EXPECT_TRUE(cache_->Reserve(tables, 3));
  EXPECT_EQ(tables.num_blocks(), 2);
}

TEST_F(KvCacheTest, ATableThatIsGivenUpLeavesItsBlocksFindable) {
  {
    BlockTables tables = Start(Numbers(40));
    const BlockTables moved = std::move(tables);
    EXPECT_EQ(cache_->usage().used_blocks, 3);
  }
  EXPECT_EQ(cache_->usage().used_blocks, 0);
  EXPECT_EQ(cache_->usage().cached_blocks, 3);
  EXPECT_EQ(cache_->usage().available_blocks(), 4);
  EXPECT_EQ(Found(Numbers(40)), 40);
}

TEST_F(KvCacheTest, AssigningTablesGivesUpTheOldOnes) {
  BlockTables tables = Start(Numbers(33));
  tables = Start(Numbers(10, 500));
  EXPECT_EQ(tables.num_tokens(), 10);
  EXPECT_EQ(cache_->usage().used_blocks, 1);
  EXPECT_EQ(cache_->usage().cached_blocks, 3);
}

TEST_F(KvCacheTest, ViewsFollowTheTables) {
  BlockTables tables = Start(Numbers(16));
  EXPECT_EQ(tables.views()[0].size(), 1u);
  EXPECT_TRUE(Compute(tables, Numbers(40)));
  ASSERT_EQ(tables.views().size(), 1u);
  EXPECT_TRUE(std::ranges::equal(tables.views()[0], tables.table(0)));
}

TEST_F(KvCacheTest, ReservedBlocksThatWereNotUsedAreFreeAfterwards) {
  {
    BlockTables tables = Start(Numbers(10));
    EXPECT_TRUE(cache_->Reserve(tables, 64));
  }
  EXPECT_EQ(cache_->usage().cached_blocks, 1);
  EXPECT_EQ(cache_->usage().free_blocks, 3);
}

TEST_F(KvCacheTest, TheTailOfTheSequenceGivenUpFirstIsEvictedFirst) {
  RunAndEnd(Numbers(32, 0));
  RunAndEnd(Numbers(32, 500));
  RunAndEnd(Numbers(1, 900));
  EXPECT_EQ(Found(Numbers(32, 0)), 16) << "its second block gave way";
  EXPECT_EQ(Found(Numbers(32, 500)), 32);
  RunAndEnd(Numbers(1, 901));
  EXPECT_EQ(Found(Numbers(32, 0)), 0);
  RunAndEnd(Numbers(1, 902));
  EXPECT_EQ(Found(Numbers(32, 500)), 16);
  EXPECT_EQ(cache_->counters().blocks_evicted, 3);
}

TEST_F(KvCacheTest, APrefixThatIsUsedAgainIsEvictedLater) {
  RunAndEnd(Numbers(16, 0));
  RunAndEnd(Numbers(16, 500));
  {
    const auto again = cache_->Acquire(root_, Numbers(16, 0), 16);
  }
  RunAndEnd(Numbers(48, 900));
  EXPECT_EQ(Found(Numbers(16, 0)), 16);
  EXPECT_EQ(Found(Numbers(16, 500)), 0);
}

TEST_F(KvCacheTest, LookingDoesNotChangeTheOrderOfEviction) {
  RunAndEnd(Numbers(16, 0));
  RunAndEnd(Numbers(16, 500));
  EXPECT_EQ(Found(Numbers(16, 0)), 16);
  RunAndEnd(Numbers(48, 900));
  EXPECT_EQ(Found(Numbers(16, 0)), 0);
}

TEST_F(KvCacheTest, TheSecondBlockOfTheSameContentIsFreeWhenGivenBack) {
  {
    const BlockTables first = Start(Numbers(16));
    BlockTables second = cache_->Acquire(root_, Numbers(16), 0).value();
    EXPECT_TRUE(Compute(second, Numbers(16)));
    EXPECT_EQ(cache_->usage().used_blocks, 2);
  }
  EXPECT_EQ(cache_->usage().cached_blocks, 1);
  EXPECT_EQ(cache_->usage().free_blocks, 3);
  EXPECT_EQ(cache_->counters().blocks_committed, 1);
}

TEST_F(KvCacheTest, PrivateBlocksAreNeverFound) {
  {
    BlockTables tables = cache_->AcquirePrivate();
    EXPECT_TRUE(Compute(tables, Numbers(40)));
    EXPECT_EQ(Found(Numbers(40)), 0);
    const BlockTables fork = cache_->Fork(tables);
  }
  EXPECT_EQ(Found(Numbers(40)), 0);
  EXPECT_EQ(cache_->usage().free_blocks, 4);
}

TEST_F(KvCacheTest, AForkSharesAllBlocksAndTheFirstToWriteCopies) {
  BlockTables parent = Start(Numbers(20));
  BlockTables child = cache_->Fork(parent);
  EXPECT_EQ(cache_->usage().used_blocks, 2);
  EXPECT_EQ(cache_->BlocksHeldAlone(parent), 0);
  EXPECT_EQ(cache_->BlocksToReserve(child, 21), 1) << "the copy of the shared tail";
  EXPECT_TRUE(Compute(child, Join(Numbers(20), {777})));
  EXPECT_EQ(child.table(0)[0], parent.table(0)[0]);
  EXPECT_NE(child.table(0)[1], parent.table(0)[1]);
  EXPECT_EQ(cache_->BlocksToReserve(parent, 21), 0) << "it holds its tail alone";
  EXPECT_TRUE(Compute(parent, Numbers(21)));
  StoredPattern(*cache_).Check(child, 0, Join(Numbers(20), {777}));
  EXPECT_EQ(cache_->counters().blocks_copied, 1);
  EXPECT_EQ(cache_->usage().filled_slots, 16 + 5 + 5);
  EXPECT_EQ(cache_->BlocksHeldAlone(parent), 1);
}

TEST_F(KvCacheTest, AForkAtTheEndOfABlockCopiesNothing) {
  BlockTables parent = Start(Numbers(32));
  BlockTables child = cache_->Fork(parent);
  EXPECT_TRUE(Compute(parent, Numbers(33)));
  EXPECT_TRUE(Compute(child, Join(Numbers(32), {777})));
  EXPECT_EQ(cache_->counters().blocks_copied, 0);
  EXPECT_EQ(cache_->usage().used_blocks, 4);
}

TEST_F(KvCacheTest, AForkDoesNotShareWhatIsOnlyReserved) {
  BlockTables parent = Start(Numbers(16));
  ASSERT_TRUE(cache_->Reserve(parent, 33));
  BlockTables child = cache_->Fork(parent);
  EXPECT_EQ(child.num_blocks(), 1);
  EXPECT_EQ(parent.num_blocks(), 3);
  cache_->CheckInvariants();
}

TEST_F(KvCacheTest, ACopyOnWriteWithoutRoomIsRefusedAndTheRestGoesOn) {
  BlockTables parent = Start(Numbers(63));
  BlockTables child = cache_->Fork(parent);
  EXPECT_FALSE(cache_->Reserve(child, 64));
  EXPECT_FALSE(cache_->Reserve(parent, 64));
  EXPECT_EQ(child.table(0)[3], parent.table(0)[3]);
  {
    const BlockTables gone = std::move(child);
  }
  EXPECT_TRUE(Compute(parent, Numbers(64)));
}

TEST_F(KvCacheTest, DropCachedForgetsWhatNobodyHolds) {
  RunAndEnd(Numbers(20, 500));
  const BlockTables held = Start(Numbers(20));
  cache_->DropCached();
  EXPECT_EQ(cache_->usage().cached_blocks, 0);
  EXPECT_EQ(Found(Numbers(20, 500)), 0);
  EXPECT_EQ(Found(Numbers(20)), 20);
}

TEST_F(KvCacheTest, IdleMemoryGoesBackButNothingIsForgotten) {
  Open({0}, 200);
  RunAndEnd(Numbers(100));
  {
    BlockTables tables = cache_->AcquirePrivate();
    EXPECT_TRUE(Compute(tables, Numbers(3000)));
  }
  const size_t busy_bytes = cache_->usage().committed_bytes;
  EXPECT_GE(busy_bytes, 188 * cache_->usage().block_bytes);
  cache_->ReturnIdleMemory();
  EXPECT_LT(cache_->usage().committed_bytes, busy_bytes);
  EXPECT_GE(cache_->usage().committed_bytes, 7 * cache_->usage().block_bytes);
  const BlockTables again = Start(Numbers(101));  // checks what is stored
  EXPECT_EQ(cache_->counters().blocks_shared, 6);
}

TEST_F(KvCacheTest, SequencesOfAnotherRootMeetNothing) {
  RunAndEnd(Numbers(40));
  IdentityChain chain(RootOf(Digest{}, "another tenant"));
  EXPECT_EQ(cache_->Match(chain, Numbers(40), 40).num_tokens, 0);
}

using KvCacheDeathTest = KvCacheTest;

TEST_F(KvCacheDeathTest, WritingWhatOthersReadEndsTheProcess) {
  BlockTables parent = Start(Numbers(20));
  const BlockTables child = cache_->Fork(parent);
  EXPECT_DEATH(cache_->Commit(parent, Numbers(21)), "written by one of 2 holders");
}

TEST_F(KvCacheDeathTest, CommittingWhatWasNotReservedEndsTheProcess) {
  BlockTables tables = Start(Numbers(16));
  EXPECT_DEATH(cache_->Commit(tables, Numbers(17)), "not reserved");
}

TEST(KvCacheOutlivedDeathTest, ASequenceThatOutlivesItsCacheEndsTheProcess) {
  EXPECT_DEATH(
      {
        auto cache = KvCache::Create(PatternLayout({0}), 4).value();
        const BlockTables tables = cache->AcquirePrivate();
        cache.reset();
      },
      "outlive their cache");
}

TEST(KvCache, AnImpossibleSizeIsAnErrorThatNamesIt) {
  const auto none = KvCache::Create(PatternLayout({0}), 0);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::kInvalidArgument);
  KvLayout layout = PatternLayout({0});
  layout.block_bytes = size_t{1} << 40;
  const auto huge = KvCache::Create(layout, 1 << 20);
  ASSERT_FALSE(huge.ok());
  EXPECT_EQ(huge.error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace quire
