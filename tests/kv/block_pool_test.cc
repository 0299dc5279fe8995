#include "kv/block_pool.h"

#include <gtest/gtest.h>

#include <set>

#include "base/bytes.h"

namespace quire {
namespace {

// One layer of one head, f16: a block takes 64 * head_dim bytes.
BlockPool MakePool(int num_blocks, int head_dim = 4) {
  const std::vector<KvLayerShape> shapes = {{1, head_dim, head_dim}};
  return BlockPool::Create(KvLayout::Make(shapes, KvType::kF16).value(), num_blocks).value();
}

class BlockPoolTest : public ::testing::Test {
 protected:
  BlockId Take() {
    const BlockPool::Taken taken = pool_.Take().value();
    last_was_cached_ = taken.was_cached;
    pool_.SetFilled(taken.block, kBlockSlots);
    return taken.block;
  }
  ~BlockPoolTest() override { pool_.CheckInvariants(); }

  BlockPool pool_ = MakePool(4);
  bool last_was_cached_ = false;
};

TEST_F(BlockPoolTest, HandsOutEveryBlockOnceAndThenNone) {
  std::set<BlockId> taken;
  for (int i = 0; i < 4; ++i) taken.insert(Take());
  EXPECT_EQ(taken, (std::set<BlockId>{0, 1, 2, 3}));
  EXPECT_FALSE(pool_.Take().has_value());
  EXPECT_EQ(pool_.num_used(), 4);
}

TEST_F(BlockPoolTest, TheFreeBlockLastGivenBackIsTheNextHandedOut) {
  const BlockId first = Take();
  const BlockId second = Take();
  pool_.GiveBack(first, false);
  pool_.GiveBack(second, false);
  EXPECT_EQ(Take(), second);
  EXPECT_EQ(Take(), first);
}

TEST_F(BlockPoolTest, BlocksWithoutContentGoBeforeCachedOnes) {
  const BlockId cached = Take();
  const BlockId empty = Take();
  pool_.GiveBack(cached, true);
  pool_.GiveBack(empty, false);
  EXPECT_EQ(pool_.num_cached(), 1);
  EXPECT_EQ(pool_.num_free(), 3);
  EXPECT_EQ(Take(), empty);
  EXPECT_EQ(Take(), 2) << "never taken so far";
  EXPECT_EQ(Take(), 3);
  EXPECT_FALSE(last_was_cached_);
  EXPECT_EQ(Take(), cached);
  EXPECT_TRUE(last_was_cached_);
}

TEST_F(BlockPoolTest, EvictsTheCachedBlockFirstGivenBackFirst) {
  for (int i = 0; i < 4; ++i) Take();
  for (const BlockId block : {2, 0, 3, 1}) pool_.GiveBack(block, true);
  for (const BlockId block : {2, 0, 3, 1}) EXPECT_EQ(Take(), block);
}

TEST_F(BlockPoolTest, ACachedBlockTakenBackIntoUseLosesItsPlaceInTheOrder) {
  for (int i = 0; i < 4; ++i) Take();
  for (const BlockId block : {0, 1, 2, 3}) pool_.GiveBack(block, true);
  pool_.Share(1);
  pool_.GiveBack(1, true);
  for (const BlockId block : {0, 2, 3, 1}) EXPECT_EQ(Take(), block);
}

TEST_F(BlockPoolTest, ABlockIsUsedUntilItsLastHolderGivesItBack) {
  const BlockId block = Take();
  pool_.Share(block);
  pool_.GiveBack(block, true);
  EXPECT_EQ(pool_.num_used(), 1);
  EXPECT_EQ(pool_.num_cached(), 0);
  pool_.GiveBack(block, true);
  EXPECT_EQ(pool_.num_used(), 0);
  EXPECT_EQ(pool_.num_cached(), 1);
}

TEST_F(BlockPoolTest, AForgottenBlockIsTheNextHandedOut) {
  for (int i = 0; i < 4; ++i) Take();
  for (const BlockId block : {0, 1, 2, 3}) pool_.GiveBack(block, true);
  EXPECT_EQ(pool_.last_cached(), 3);
  pool_.Forget(2);
  EXPECT_EQ(pool_.num_free(), 1);
  EXPECT_EQ(Take(), 2);
  EXPECT_FALSE(last_was_cached_);
}

TEST_F(BlockPoolTest, FilledSlotsAreThoseOfUsedBlocks) {
  const BlockId a = Take();
  const BlockId b = Take();
  pool_.SetFilled(b, 5);
  EXPECT_EQ(pool_.filled_slots(), 21);
  pool_.GiveBack(a, true);
  EXPECT_EQ(pool_.filled_slots(), 5);
  pool_.Share(a);
  EXPECT_EQ(pool_.filled_slots(), 21);
  pool_.GiveBack(b, false);
  Take();
  EXPECT_EQ(pool_.filled_slots(), 32) << "what b held is gone";
}

TEST(BlockPool, BlocksThatNobodyAskedForCostNoMemory) {
  const size_t page = HugeBuffer::page_bytes();
  BlockPool pool = MakePool(1000, 256);  // blocks of 16 KiB
  ASSERT_EQ(pool.layout().block_bytes, 16384u);
  EXPECT_EQ(pool.committed_bytes(), 0u);
  const BlockId block = pool.Take()->block;
  EXPECT_EQ(pool.committed_bytes(), AlignUp(16384, page));
  pool.GiveBack(block, false);
  pool.Take();
  EXPECT_EQ(pool.committed_bytes(), AlignUp(16384, page)) << "the same block again";
}

TEST(BlockPool, IdleMemoryGoesBackAndCachedBlocksKeepTheirs) {
  BlockPool pool = MakePool(8, 256);
  for (int i = 0; i < 6; ++i) {
    const BlockId block = pool.Take()->block;
    pool.SetFilled(block, 1);
    *pool.view().Block(block) = std::byte{7};
  }
  for (const BlockId block : {0, 1, 3, 5}) pool.GiveBack(block, block == 3);
  pool.ReturnIdleMemory();  // blocks 0, 1 and 5; 2 and 4 are used, 3 is cached
  EXPECT_EQ(pool.committed_bytes(), 3 * 16384u);
  for (const BlockId block : {0, 1, 5}) EXPECT_EQ(*pool.view().Block(block), std::byte{0});
  for (const BlockId block : {2, 3, 4}) EXPECT_EQ(*pool.view().Block(block), std::byte{7});
  pool.Take();
  EXPECT_EQ(pool.committed_bytes(), 4 * 16384u);
  pool.CheckInvariants();
}

TEST(BlockPool, APageSharedByBlocksGoesBackWhenAllOfThemAreFree) {
  const size_t page = HugeBuffer::page_bytes();
  BlockPool pool = MakePool(100, 16);  // blocks of 1 KiB: several in a page
  const int per_page = static_cast<int>(page / pool.layout().block_bytes);
  ASSERT_GT(per_page, 1);
  for (int i = 0; i < 2 * per_page; ++i) pool.Take();
  EXPECT_EQ(pool.committed_bytes(), 2 * page);
  for (int i = 1; i < 2 * per_page; ++i) pool.GiveBack(i, false);
  pool.ReturnIdleMemory();
  EXPECT_EQ(pool.committed_bytes(), page) << "block 0 is in use";
  pool.GiveBack(0, false);
  pool.ReturnIdleMemory();
  EXPECT_EQ(pool.committed_bytes(), 0u);
  pool.CheckInvariants();
}

TEST(BlockPool, AnImpossibleSizeIsAnError) {
  const std::vector<KvLayerShape> shapes = {{1, 4, 4}};
  const KvLayout layout = KvLayout::Make(shapes, KvType::kF16).value();
  EXPECT_EQ(BlockPool::Create(layout, 0).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(BlockPool::Create(layout, -3).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(BlockPool::Create(KvLayout{}, 3).error().code, ErrorCode::kInvalidArgument);
  KvLayout huge = layout;
  huge.block_bytes = size_t{1} << 40;
  const Result<BlockPool> pool = BlockPool::Create(huge, 1 << 20);
  ASSERT_FALSE(pool.ok());
  EXPECT_EQ(pool.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(pool.error().message.find(std::to_string(size_t{1} << 60)), std::string::npos);
}

TEST(BlockPoolDeathTest, MisuseEndsTheProcess) {
  BlockPool pool = MakePool(2);
  const BlockId block = pool.Take()->block;
  pool.GiveBack(block, false);
  EXPECT_DEATH(pool.GiveBack(block, false), "nobody holds block 0");
  EXPECT_DEATH(pool.Share(block), "block 0 is free");
  EXPECT_DEATH(pool.Forget(block), "block 0 is not cached");
  EXPECT_DEATH(pool.Share(1), "block 1 of 1");
}

}  // namespace
}  // namespace quire
