#include "kv/block_pool.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace quire {
namespace {

BlockPool MakePool(int num_blocks) {
  const std::vector<KvLayerShape> shapes = {{1, 4, 4}};
  Result<BlockPool> pool = BlockPool::Create(KvLayout::Make(shapes, KvType::kF16), num_blocks);
  return std::move(pool).value();
}

TEST(BlockPool, HandsOutEveryBlockOnceAndThenNone) {
  BlockPool pool = MakePool(5);
  std::set<BlockId> taken;
  for (int i = 0; i < 5; ++i) taken.insert(pool.Take().value());
  EXPECT_EQ(taken, (std::set<BlockId>{0, 1, 2, 3, 4}));
  EXPECT_FALSE(pool.Take().has_value());
  EXPECT_EQ(pool.num_used(), 5);
}

TEST(BlockPool, TheBlockLastGivenBackIsTheNextHandedOut) {
  BlockPool pool = MakePool(3);
  const BlockId first = pool.Take().value();
  const BlockId second = pool.Take().value();
  pool.Return(first);
  pool.Return(second);
  EXPECT_EQ(pool.Take(), second);
}

TEST(BlockPool, AnImpossibleSizeIsAnError) {
  const std::vector<KvLayerShape> shapes = {{1, 4, 4}};
  const KvLayout layout = KvLayout::Make(shapes, KvType::kF16);
  EXPECT_EQ(BlockPool::Create(layout, 0).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(BlockPool::Create(layout, -3).error().code, ErrorCode::kInvalidArgument);
}

TEST(BlockPoolDeathTest, GivingABlockBackTwiceEndsTheProcess) {
  BlockPool pool = MakePool(2);
  const BlockId block = pool.Take().value();
  pool.Return(block);
  EXPECT_DEATH(pool.Return(block), "broken invariant");
}

TEST(BlockPool, InvariantsHoldThroughRandomUse) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  BlockPool pool = MakePool(17);
  std::vector<BlockId> held;
  for (int i = 0; i < 5000; ++i) {
    if (random() % 2 == 0) {
      if (const auto block = pool.Take()) held.push_back(*block);
    } else if (!held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      pool.Return(held.back());
      held.pop_back();
    }
    pool.CheckInvariants();
    ASSERT_EQ(pool.num_used(), static_cast<int>(held.size()));
  }
}

}  // namespace
}  // namespace quire
