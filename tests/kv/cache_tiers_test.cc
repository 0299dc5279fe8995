// What the cache does for tiers: blocks that only memory holds are offered, blocks that come back
// are found.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "kv/kv_fixture.h"

namespace quire {
namespace {

class CacheTiersTest : public KvFixture {
 protected:
  void OpenWithOffers(const std::vector<int>& windows, int num_blocks) {
    Open(windows, num_blocks);
    cache_->SetOffer([this](const StoredBlock& block, std::span<const std::byte> payload) {
      if (!takes_) return false;
      EXPECT_EQ(block.id, ChildOf(block.parent, block.tokens));
      EXPECT_EQ(block.root, root_);
      offered_[{block.id, block.group}] = {block, {payload.begin(), payload.end()}};
      order_.push_back(block.entry);
      return true;
    });
  }
  void ComputeAndLeave(const Tokens& tokens) {
    BlockTables tables = *cache_->Acquire(root_, tokens, static_cast<int>(tokens.size()));
    ASSERT_TRUE(Compute(tables, tokens));
  }

  struct Kept {
    StoredBlock block{};
    std::vector<std::byte> payload{};
  };
  bool takes_ = true;
  std::map<std::pair<Digest, int>, Kept> offered_;
  std::vector<int> order_;
};

TEST_F(CacheTiersTest, WholeBlocksAreFreshUntilTheyAreTaken) {
  OpenWithOffers({0}, 8);
  ComputeAndLeave(Numbers(40));
  EXPECT_EQ(cache_->num_fresh(), 2);
  takes_ = false;
  EXPECT_FALSE(cache_->OfferFresh());
  EXPECT_EQ(cache_->num_fresh(), 2);
  takes_ = true;
  EXPECT_TRUE(cache_->OfferFresh());
  EXPECT_TRUE(cache_->OfferFresh());
  EXPECT_FALSE(cache_->OfferFresh());
  EXPECT_EQ(order_, (std::vector<int>{0, 1}));
  cache_->CheckInvariants();
}

TEST_F(CacheTiersTest, EvictionOffersWhatIsFresh) {
  OpenWithOffers({0}, 4);
  ComputeAndLeave(Numbers(48));
  ComputeAndLeave(Numbers(48, 100));
  EXPECT_EQ(cache_->counters().blocks_evicted, 2);
  EXPECT_EQ(order_, (std::vector<int>{2, 1}));  // the tail first
}

TEST_F(CacheTiersTest, ASecondUseOffers) {
  OpenWithOffers({0}, 8);
  ComputeAndLeave(Numbers(32));
  ComputeAndLeave(Numbers(33));
  EXPECT_EQ(offered_.size(), 2u);
  EXPECT_EQ(cache_->num_fresh(), 0);
  // And so does every one after it: whoever keeps it learns that it is used.
  ComputeAndLeave(Numbers(34));
  EXPECT_EQ(order_, (std::vector<int>{0, 1, 0, 1}));
}

TEST_F(CacheTiersTest, WhatIsDroppedIsNotOffered) {
  OpenWithOffers({0}, 8);
  ComputeAndLeave(Numbers(32));
  cache_->DropCached();
  EXPECT_TRUE(offered_.empty());
  EXPECT_EQ(cache_->num_fresh(), 0);
}

// Every group's blocks leave, memory forgets them, and they come back in any order.
TEST_F(CacheTiersTest, WhatWasTakenComesBackAndIsFound) {
  OpenWithOffers({0, 24}, 16);
  const Tokens tokens = Numbers(64);
  ComputeAndLeave(tokens);
  while (cache_->OfferFresh()) {
  }
  EXPECT_EQ(offered_.size(), 8u);
  cache_->DropCached();
  EXPECT_EQ(Found(tokens), 0);
  std::vector<BlockHold> holds;
  for (const auto& [key, kept] : offered_) {
    holds.push_back(*cache_->ReserveBlock());
    cache_->CheckInvariants();
    const auto memory = cache_->Memory(holds.back(), kept.block.group);
    std::memcpy(memory.data(), kept.payload.data(), memory.size());
    cache_->Publish(holds.back(), kept.block);
    cache_->CheckInvariants();
  }
  EXPECT_EQ(cache_->usage().used_blocks, 8);
  EXPECT_EQ(cache_->HeldBlocks().size(), 8u);
  EXPECT_EQ(Found(tokens), 64);
  holds.clear();
  BlockTables tables = *cache_->Acquire(root_, tokens, 64);
  StoredPattern(*cache_).Check(tables, 0, tokens);
}

TEST_F(CacheTiersTest, ABlockThatWasComputedMeanwhileIsNotHeldTwice) {
  OpenWithOffers({0}, 8);
  BlockHold hold = *cache_->ReserveBlock();
  ComputeAndLeave(Numbers(16));
  ASSERT_TRUE(cache_->OfferFresh());
  cache_->Publish(hold, offered_.begin()->second.block);
  EXPECT_EQ(cache_->usage().used_blocks, 1);
  EXPECT_EQ(cache_->usage().free_blocks, 7);
  cache_->CheckInvariants();
}

TEST_F(CacheTiersTest, AHoldThatIsGivenUpLeavesNothing) {
  OpenWithOffers({0}, 2);
  {
    const BlockHold one = *cache_->ReserveBlock();
    const BlockHold other = *cache_->ReserveBlock();
    EXPECT_FALSE(cache_->ReserveBlock().has_value());
    cache_->CheckInvariants();
  }
  EXPECT_EQ(cache_->usage().free_blocks, 2);
}

}  // namespace
}  // namespace quire
