// What the cache tells a watch, verb by verb.
#include "kv/block_watch.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "kv/kv_fixture.h"

namespace quire {
namespace {

class BlockWatchTest : public KvFixture {
 protected:
  void OpenWatched(const std::vector<int>& windows, int num_blocks) {
    Open(windows, num_blocks);
    cache_->SetWatch([this](const BlockNote& note) { notes_.push_back(note); });
  }

  // What was told since the last call: "allocate 0, fill 0".
  std::string Told() {
    static constexpr const char* kNames[] = {"allocate", "share", "copy",    "fill",
                                             "release",  "evict", "offload", "restore"};
    std::string text;
    for (const BlockNote& note : std::exchange(notes_, {})) {
      text += (text.empty() ? "" : ", ") + std::string(kNames[static_cast<size_t>(note.verb)]) +
              " " + std::to_string(note.block);
    }
    return text;
  }

  std::vector<BlockNote> notes_;
};

TEST_F(BlockWatchTest, ASequenceTakesFillsAndGivesBack) {
  OpenWatched({0}, 4);
  {
    const BlockTables tables = Start(Numbers(20));
    EXPECT_EQ(Told(), "allocate 0, allocate 1, fill 0");
    cache_->SetPurpose({.sequence = 7, .reason = "end"});
  }
  ASSERT_EQ(notes_.size(), 2u);
  EXPECT_EQ(notes_[0].purpose.sequence, 7);
  EXPECT_EQ(notes_[0].purpose.reason, "end");
  EXPECT_EQ(notes_[0].references, 0);
  EXPECT_TRUE(notes_[0].is_findable);
  EXPECT_EQ(Told(), "release 1, release 0");
}

TEST_F(BlockWatchTest, AHitSharesAndCopiesThePartlySharedBlock) {
  OpenWatched({0}, 4);
  RunAndEnd(Numbers(40));
  Told();
  const BlockTables tables =
      *cache_->Acquire(root_, Join(Numbers(36), Numbers(4, 500)), /*max_tokens=*/39);
  ASSERT_EQ(notes_.size(), 3u);
  EXPECT_EQ(notes_[2].other, 2);
  EXPECT_EQ(notes_[2].references, 1);
  EXPECT_EQ(Told(), "share 0, share 1, copy 3");
}

TEST_F(BlockWatchTest, AForkSharesAndTheFirstToWriteCopies) {
  OpenWatched({0}, 4);
  BlockTables parent = Start(Numbers(20));
  Told();
  const BlockTables child = cache_->Fork(parent);
  EXPECT_EQ(Told(), "share 0, share 1");
  EXPECT_TRUE(Compute(parent, Numbers(21)));
  EXPECT_EQ(Told(), "copy 2, release 1");
}

TEST_F(BlockWatchTest, RoomIsMadeByEvicting) {
  OpenWatched({0}, 2);
  RunAndEnd(Numbers(32));
  Told();
  const BlockTables tables = Start(Numbers(16, 500));
  ASSERT_GE(notes_.size(), 2u);
  EXPECT_EQ(notes_[0].purpose.reason, "allocation");
  EXPECT_FALSE(notes_[0].is_findable);
  EXPECT_EQ(notes_[0].references, 0);
  EXPECT_EQ(Told(), "evict 1, allocate 1, fill 1");
  cache_->DropCached();
  EXPECT_EQ(Told(), "evict 0");
}

TEST_F(BlockWatchTest, AWindowLetsGoWithAReasonOfItsOwn) {
  OpenWatched({16}, 8);
  BlockTables tables = Start(Numbers(16));
  Told();
  cache_->SetPurpose({.sequence = 1, .reason = "computed"});
  EXPECT_TRUE(Compute(tables, Numbers(40), /*chunk=*/8));
  int num_released = 0;
  for (const BlockNote& note : notes_) {
    if (note.verb != BlockVerb::kRelease) continue;
    EXPECT_EQ(note.purpose.reason, "window");
    ++num_released;
  }
  EXPECT_EQ(num_released, cache_->counters().window_releases);
  EXPECT_GT(num_released, 0);
}

TEST_F(BlockWatchTest, TiersTakeAndGiveBlocks) {
  OpenWatched({0}, 4);
  StoredBlock kept;
  cache_->SetOffer([&](const StoredBlock& block, std::span<const std::byte>) {
    kept = block;
    return true;
  });
  RunAndEnd(Numbers(16));
  Told();
  EXPECT_TRUE(cache_->OfferFresh());
  EXPECT_EQ(Told(), "offload 0");
  cache_->DropCached();
  Told();
  {
    std::optional<BlockHold> hold = cache_->ReserveBlock();
    ASSERT_TRUE(hold.has_value());
    EXPECT_EQ(notes_.back().group, -1) << "not known before it has come";
    cache_->Publish(*hold, kept);
    EXPECT_EQ(notes_.back().group, 0);
  }
  EXPECT_EQ(Told(), "allocate 0, restore 0, release 0");
}

}  // namespace
}  // namespace quire
