#include "kv/block_table.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

class BlockTableTest : public ::testing::Test {
 protected:
  BlockTableTest()
      : pool_(
            BlockPool::Create(KvLayout::Make(std::vector<KvLayerShape>{{1, 4, 4}}, KvType::kF16), 4)
                .value()) {}

  BlockPool pool_;
};

TEST_F(BlockTableTest, SeventeenTokensTakeTwoBlocks) {
  BlockTable table(pool_);
  ASSERT_TRUE(table.Grow(16));
  EXPECT_EQ(table.blocks().size(), 1u);
  ASSERT_TRUE(table.Grow(17));
  EXPECT_EQ(table.blocks().size(), 2u);
}

TEST_F(BlockTableTest, GrowingBeyondThePoolChangesNothing) {
  BlockTable table(pool_);
  ASSERT_TRUE(table.Grow(33));
  EXPECT_FALSE(table.Grow(65));
  EXPECT_EQ(table.blocks().size(), 3u);
  EXPECT_EQ(pool_.num_free(), 1);
  EXPECT_TRUE(table.Grow(64));
}

TEST_F(BlockTableTest, ShrinkingKeepsTheBlockOfTheLastToken) {
  BlockTable table(pool_);
  ASSERT_TRUE(table.Grow(64));
  const BlockId first = table.blocks()[0];
  table.Shrink(16);
  ASSERT_EQ(table.blocks().size(), 1u);
  EXPECT_EQ(table.blocks()[0], first);
  EXPECT_EQ(pool_.num_free(), 3);
}

TEST_F(BlockTableTest, ATableThatDiesGivesItsBlocksBack) {
  {
    BlockTable table(pool_);
    ASSERT_TRUE(table.Grow(40));
    const BlockTable moved = std::move(table);
    EXPECT_EQ(pool_.num_used(), 3);
  }
  EXPECT_EQ(pool_.num_used(), 0);
}

}  // namespace
}  // namespace quire
