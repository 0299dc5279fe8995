// The picture of the pool: states, holders, groups and times of every block.
#include "kv/block_map.h"

#include <algorithm>

#include "kv/kv_fixture.h"

namespace quire {
namespace {

class BlockMapTest : public KvFixture {
 protected:
  int64_t Count(const BlockMap& map, BlockState state) const {
    return std::ranges::count(map.blocks, state, &MappedBlock::state);
  }
  // The states of the map are those that the cache counts.
  void ExpectCounts(const BlockMap& map) const {
    const KvUsage usage = cache_->usage();
    const auto untouched = map.num_blocks - std::ssize(map.blocks);
    EXPECT_EQ(map.num_blocks, usage.total_blocks);
    EXPECT_EQ(Count(map, BlockState::kUsed), usage.used_blocks);
    EXPECT_EQ(Count(map, BlockState::kCached), usage.cached_blocks);
    EXPECT_EQ(Count(map, BlockState::kFree) + untouched, usage.free_blocks);
    int64_t filled = 0;
    for (const MappedBlock& block : map.blocks) {
      if (block.state == BlockState::kUsed) filled += block.filled;
    }
    EXPECT_EQ(filled, usage.filled_slots);
  }
};

TEST_F(BlockMapTest, AFreshPoolHasNoTouchedBlocks) {
  Open({0}, 8);
  EXPECT_TRUE(MapBlocks(*cache_).blocks.empty());
  EXPECT_EQ(MapBlocks(*cache_).num_blocks, 8);
}

TEST_F(BlockMapTest, FollowsABlockFromItsTakingToItsBeingCached) {
  Open({0}, 8);
  cache_->SetTime(100);
  {
    const BlockTables first = Start(Numbers(20));
    cache_->SetTime(250);
    const BlockTables second = Start(Numbers(40));
    const BlockMap map = MapBlocks(*cache_);
    ExpectCounts(map);
    const MappedBlock& shared = map.blocks[static_cast<size_t>(first.table(0)[0])];
    EXPECT_EQ(shared.references, 2);
    EXPECT_EQ(shared.filled, 16);
    EXPECT_EQ(shared.group, 0);
    EXPECT_EQ(shared.changed_ms, 100) << "sharing a used block does not change its state";
    EXPECT_EQ(map.blocks[static_cast<size_t>(second.table(0)[2])].changed_ms, 250);
    cache_->SetTime(400);
  }
  const BlockMap map = MapBlocks(*cache_);
  ExpectCounts(map);
  EXPECT_EQ(Count(map, BlockState::kUsed), 0);
  EXPECT_GE(Count(map, BlockState::kCached), 3);
  for (const MappedBlock& block : map.blocks) {
    EXPECT_EQ(block.references, 0);
    EXPECT_EQ(block.changed_ms, 400);
  }
}

TEST_F(BlockMapTest, TellsTheGroupOfUsedAndOfCachedBlocks) {
  Open({0, 32}, 32);
  const auto groups_of = [&] {
    std::array<int, 3> counts{};
    for (const MappedBlock& block : MapBlocks(*cache_).blocks) {
      ++counts[static_cast<size_t>(block.group + 1)];
    }
    return counts;
  };
  {
    const BlockTables tables = Start(Numbers(32));
    EXPECT_EQ(groups_of(), (std::array<int, 3>{0, 2, 2}));
  }
  EXPECT_EQ(groups_of(), (std::array<int, 3>{0, 2, 2}));
  cache_->DropCached();
  EXPECT_EQ(groups_of(), (std::array<int, 3>{4, 0, 0}));
  ExpectCounts(MapBlocks(*cache_));
}

TEST_F(BlockMapTest, TellsTheIdentityOfWholeFindableBlocksAlone) {
  Open({0, 32}, 32);
  const auto tokens = Numbers(40);
  IdentityChain chain(root_);
  chain.Extend(tokens);
  {
    const BlockTables tables = Start(tokens);
    const BlockMap map = MapBlocks(*cache_);
    for (int group = 0; group < 2; ++group) {
      const auto at = [&](size_t entry) {
        return map.blocks[static_cast<size_t>(tables.table(group)[entry])];
      };
      EXPECT_EQ(at(0).id, chain.ids()[0]);
      EXPECT_EQ(at(1).id, chain.ids()[1]);
      EXPECT_FALSE(at(2).is_whole()) << "of 8 tokens";
    }
    BlockTables own = cache_->AcquirePrivate();
    ASSERT_TRUE(Compute(own, Numbers(16, 100)));
    EXPECT_FALSE(MapBlocks(*cache_).blocks[static_cast<size_t>(own.table(0)[0])].is_whole());
  }
  EXPECT_EQ(std::ranges::count_if(MapBlocks(*cache_).blocks, &MappedBlock::is_whole), 4);
  cache_->DropCached();
  EXPECT_EQ(std::ranges::count_if(MapBlocks(*cache_).blocks, &MappedBlock::is_whole), 0);
}

}  // namespace
}  // namespace quire
