#include <thread>

#include "kv/tiers/tier_set_fixture.h"

namespace quire::testing {
namespace {

// Room for so many blocks among the copies, and not for one more.
TierSetOptions StagingOf(size_t num_blocks) {
  return {.staging_bytes = num_blocks * kGroupBytes[0] + kGroupBytes[0] - 1};
}

class TierSetWrite : public TierSetTest {
 protected:
  // The writers of these tiers hang at block 1000, which is offered for that.
  void HangWriters(const std::vector<int>& tiers) {
    for (int tier : tiers) {
      stores_[static_cast<size_t>(tier)]->SetFaults(
          {.stores_hang = true, .hang_passes_deadline = true});
    }
    EXPECT_EQ(Offer(1000), OfferOutcome::kTaken);
    for (int tier : tiers) stores_[static_cast<size_t>(tier)]->WaitForHanging(1);
  }
  std::vector<BlockKey> Stored(int tier) { return stores_[static_cast<size_t>(tier)]->stored(); }
  int64_t Dropped(int tier) { return set_->status()[static_cast<size_t>(tier)].blocks_dropped; }
};

TEST_F(TierSetWrite, StoresInEveryTierThatLacksTheBlock) {
  AddTier();
  AddTier(kRemote);
  Open();
  EXPECT_EQ(Offer(1), OfferOutcome::kTaken);
  ASSERT_TRUE(set_->Flush(Never()).ok());
  stores_[0]->Clear();
  EXPECT_EQ(Offer(1), OfferOutcome::kTaken);
  ASSERT_TRUE(set_->Flush(Never()).ok());
  EXPECT_EQ(Stored(0), (std::vector<BlockKey>{Keys(1, 2)[0], Keys(1, 2)[0]}));
  EXPECT_EQ(Stored(1), Keys(1, 2));
  EXPECT_EQ(stores_[1]->touched(), Keys(1, 2));
}

TEST_F(TierSetWrite, ABlockThatAllTiersHoldCountsAsUsed) {
  AddTier();
  Open();
  Fill(2);
  EXPECT_EQ(Offer(1), OfferOutcome::kHeld);
  EXPECT_EQ(stores_[0]->touched(), Keys(1, 2));
  EXPECT_EQ(Stored(0), Keys(0, 2));
}

TEST_F(TierSetWrite, NothingTakesBlocksWhereAllAreDownOrReadOnly) {
  AddTier({.read_only = true});
  AddTier(kRemote);
  Open();
  stores_[1]->SetFaults({.is_down = true});
  EXPECT_FALSE(set_->HasRoom());
  EXPECT_EQ(Offer(1), OfferOutcome::kNoTier);
  EXPECT_TRUE(set_->Flush(Never()).ok());
  stores_[1]->SetFaults({});
  EXPECT_TRUE(set_->HasRoom());
  EXPECT_EQ(Offer(1), OfferOutcome::kTaken);
  EXPECT_TRUE(set_->Flush(Never()).ok());
  EXPECT_TRUE(Stored(0).empty());
  EXPECT_EQ(Stored(1), Keys(1, 2));
}

TEST_F(TierSetWrite, CopiesBlocksAndKeepsTheirOrder) {
  AddTier();
  Open();
  HangWriters({0});
  std::vector<std::byte> payload;
  for (int i = 0; i < 9; ++i) {
    payload = PayloadOf(i);
    EXPECT_EQ(set_->Offer(BlockOf(*codec_, i), payload), OfferOutcome::kTaken);
    payload.assign(payload.size(), std::byte{0});
  }
  EXPECT_EQ(Offer(3, 1), OfferOutcome::kTaken);  // of the smaller group
  stores_[0]->SetFaults({});
  ASSERT_TRUE(set_->Flush(Never()).ok());
  std::vector<BlockKey> order = Keys(1000, 1001);
  for (const BlockKey& key : Keys(0, 9)) order.push_back(key);
  order.push_back(BlockOf(*codec_, 3, 1).key());
  EXPECT_EQ(Stored(0), order);
  set_->Load(0, Loads(0, 9), Never());
  EXPECT_EQ(NumWith(Await(9), RecordFault::kNone), 9u);
  EXPECT_EQ(std::memcmp(memory_[0].data(), PayloadOf(0).data(), kGroupBytes[0]), 0);
}

TEST_F(TierSetWrite, TakesNoMoreThanTheCopiesMayTakeAndNeverWaits) {
  AddTier();
  Open(StagingOf(10));
  HangWriters({0});  // the block in the writer's hands is one of the ten
  for (int i = 0; i < 9; ++i) {
    EXPECT_TRUE(set_->HasRoom());
    EXPECT_EQ(Offer(i), OfferOutcome::kTaken);
  }
  for (int i = 9; i < 30; ++i) {
    EXPECT_FALSE(set_->HasRoom());
    EXPECT_EQ(Offer(i), OfferOutcome::kNoRoom);
  }
  EXPECT_EQ(Dropped(0), 21);
  stores_[0]->SetFaults({});
  ASSERT_TRUE(set_->Flush(Never()).ok());
  EXPECT_EQ(stores_[0]->num_records(), 10u);
  EXPECT_EQ(Offer(9), OfferOutcome::kTaken);
}

TEST_F(TierSetWrite, StagingBelowABlockTakesNone) {
  AddTier();
  Open(StagingOf(0));
  EXPECT_FALSE(set_->HasRoom());
  EXPECT_EQ(Offer(1), OfferOutcome::kNoRoom);
}

TEST_F(TierSetWrite, ABlockThatWaitsIsNotCopiedAgain) {
  AddTier();
  Open(StagingOf(3));
  HangWriters({0});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Offer(1), OfferOutcome::kTaken);
  EXPECT_EQ(Offer(1000), OfferOutcome::kTaken);  // in the writer's hands
  EXPECT_EQ(Offer(2), OfferOutcome::kTaken);
  EXPECT_EQ(Offer(3), OfferOutcome::kNoRoom);
  stores_[0]->SetFaults({});
  ASSERT_TRUE(set_->Flush(Never()).ok());
  EXPECT_EQ(stores_[0]->num_records(), 3u);
}

TEST_F(TierSetWrite, ATierThatHangsTakesNoRoomFromTheOther) {
  AddTier();
  AddTier(kRemote);
  Open(StagingOf(8));
  HangWriters({1});
  for (int i = 0; i < 40; ++i) {
    while (Offer(i) == OfferOutcome::kNoRoom) std::this_thread::yield();
  }
  EXPECT_FALSE(set_->Flush(In(5)).ok());
  while (stores_[0]->num_records() < 41) std::this_thread::yield();
  EXPECT_GE(Dropped(1), 40 - 3);  // its share is four, with that in its hands
  stores_[1]->SetFaults({});
  ASSERT_TRUE(set_->Flush(Never()).ok());
  EXPECT_EQ(stores_[1]->num_records(), 4u);
}

TEST_F(TierSetWrite, DropsWhatATierRefusesAndGoesOn) {
  AddTier();
  Open();
  stores_[0]->SetFaults({.store = StoreOutcome::kNoRoom});
  EXPECT_EQ(Offer(1), OfferOutcome::kTaken);
  ASSERT_TRUE(set_->Flush(Never()).ok());
  stores_[0]->SetFaults({});
  EXPECT_EQ(Offer(2), OfferOutcome::kTaken);
  ASSERT_TRUE(set_->Flush(Never()).ok());
  EXPECT_EQ(Stored(0), Keys(2, 3));
  EXPECT_EQ(set_->status()[0].counters.stores_refused, 1);
}

TEST_F(TierSetWrite, WhatWaitsWhenATierGoesDownIsDropped) {
  AddTier();
  Open();
  HangWriters({0});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Offer(i), OfferOutcome::kTaken);
  stores_[0]->SetFaults({.is_down = true});
  EXPECT_TRUE(set_->Flush(Never()).ok());
  EXPECT_EQ(Dropped(0), 6);
  EXPECT_EQ(stores_[0]->num_records(), 0u);
}

TEST_F(TierSetWrite, FlushSaysWhatItCouldNotStoreInTime) {
  AddTier();
  Open();
  HangWriters({0});
  Offer(1);
  const Status status = set_->Flush(In(2));
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("disk tier has not stored 2 blocks"), std::string::npos)
      << status.error().message;
}

TEST_F(TierSetWrite, StoresAtTheLowestPriority) {
  AddTier();
  Open();
  Fill(1);
  EXPECT_EQ(stores_[0]->writer_niceness(), 19);
}

TEST_F(TierSetWrite, StopDropsWhatWaits) {
  AddTier();
  Open({.store_ms = 20});
  stores_[0]->SetFaults({.stores_hang = true});  // until their deadline
  for (int i = 0; i < 100; ++i) Offer(i);
  stores_[0]->WaitForHanging(1);
  set_.reset();
  EXPECT_EQ(stores_[0]->num_records(), 0u);
}

}  // namespace
}  // namespace quire::testing
