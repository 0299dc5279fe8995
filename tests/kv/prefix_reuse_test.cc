// What is found of a prompt: whole blocks, parts of blocks, and what windows leave behind.
#include <algorithm>

#include "kv/kv_fixture.h"

namespace quire {
namespace {

class PrefixReuse : public KvFixture {};

TEST_F(PrefixReuse, APromptOfWholeBlocksSeenBeforeLeavesOneTokenToCompute) {
  // At 16, 32 and 64 tokens, and at one: the last is always computed.
  for (const int num_tokens : {16, 32, 64, 1}) {
    Open({0}, 8);
    RunAndEnd(Numbers(num_tokens));
    for (int round = 0; round < 3; ++round) {
      const PrefixMatch match = Match(Numbers(num_tokens), num_tokens - 1);
      EXPECT_EQ(match.num_tokens, num_tokens - 1);
      EXPECT_EQ(match.copied_tokens, (num_tokens - 1) % 16);
      RunAndEnd(Numbers(num_tokens));
    }
  }
}

TEST_F(PrefixReuse, AWholeBlockIsSharedAndSaysWhoHoldsIt) {
  Open({0}, 8);
  {
    const BlockTables running = Start(Numbers(32));
    EXPECT_EQ(Match(Numbers(40)).num_tokens, 32);
    EXPECT_EQ(Match(Numbers(40)).blocks_used, 2);
    EXPECT_EQ(Match(Numbers(40)).blocks_cached, 0);
  }
  EXPECT_EQ(Match(Numbers(40)).blocks_used, 0);
  EXPECT_EQ(Match(Numbers(40)).blocks_cached, 2);
  const BlockTables tables = Start(Numbers(40));
  EXPECT_EQ(cache_->usage().used_blocks, 3);
  EXPECT_EQ(cache_->counters().blocks_shared, 2);
  EXPECT_EQ(cache_->counters().partial_hits, 0);
}

TEST_F(PrefixReuse, ABlockThatGoesOnOtherwiseIsCopiedUpToThere) {
  Open({0}, 8);
  RunAndEnd(Numbers(32));
  const auto tokens = Join(Numbers(21), Numbers(20, 500));
  EXPECT_EQ(Match(tokens).num_tokens, 21);
  EXPECT_EQ(Match(tokens).copied_tokens, 5);
  const BlockTables tables = Start(tokens);  // checks what was copied
  EXPECT_EQ(cache_->counters().partial_hits, 1);
  EXPECT_EQ(cache_->counters().blocks_copied, 1);
  EXPECT_EQ(Found(Numbers(32)), 32) << "the block copied from is still there";
}

TEST_F(PrefixReuse, TheChildWithTheMostInCommonIsCopied) {
  Open({0}, 8);
  RunAndEnd(Join(Numbers(16), {1, 2, 3}));
  RunAndEnd(Join(Numbers(16), {1, 2, 3, 4, 5}));
  RunAndEnd(Join(Numbers(16), {1, 2, 9, 9, 9, 9}));
  EXPECT_EQ(Found(Join(Numbers(16), {1, 2, 3, 4, 7, 7})), 20);
  EXPECT_EQ(Found(Join(Numbers(16), {1, 2, 9, 9})), 20);
}

TEST_F(PrefixReuse, TheTailOfAnAnswerIsFoundByTheNextTurn) {
  Open({0}, 8);
  {
    BlockTables tables = Start(Numbers(20));
    for (int n = 21; n <= 27; ++n) ASSERT_TRUE(Compute(tables, Numbers(n)));
    EXPECT_EQ(Found(Numbers(40)), 20) << "while it grows, the prompt's part of it";
  }
  EXPECT_EQ(Found(Numbers(40)), 27);
  EXPECT_EQ(cache_->usage().cached_blocks, 2) << "the tail has one name, not seven";
}

TEST_F(PrefixReuse, AnEqualPromptNeedNotWaitForTheEndOfTheFirst) {
  Open({0}, 8);
  BlockTables first = Start(Numbers(20));
  BlockTables second = cache_->Acquire(root_, Numbers(20), 19).value();
  EXPECT_EQ(second.num_tokens(), 19);
  EXPECT_TRUE(Compute(first, Numbers(30)));
  EXPECT_TRUE(Compute(second, Join(Numbers(20), {5, 5, 5})));
  StoredPattern(*cache_).Check(first, 0, Numbers(30));
}

TEST_F(PrefixReuse, NoMoreIsFoundThanIsAskedFor) {
  Open({0}, 8);
  RunAndEnd(Numbers(40));
  for (const int max_tokens : {0, 1, 15, 16, 17, 39, 40, 41}) {
    EXPECT_EQ(Match(Numbers(50), max_tokens).num_tokens, std::min(max_tokens, 40));
  }
  EXPECT_EQ(Match(Numbers(50), -1).num_tokens, 0);
  EXPECT_EQ(Match({}, 5).num_tokens, 0);
}

TEST_F(PrefixReuse, TheChainIsExtendedNoFurtherThanIsLooked) {
  Open({0}, 8);
  RunAndEnd(Numbers(32));
  IdentityChain chain(root_);
  cache_->Match(chain, Numbers(1600, 500), 1600);
  EXPECT_EQ(chain.ids().size(), 1u);
}

TEST_F(PrefixReuse, WhatIsTakenOverIsNotEvictedForTheCopy) {
  // All four blocks are cached; the copy has to evict one: neither those it shares (0, 1) nor the
  // one it copies from (2), though those are older than the last.
  Open({0}, 4);
  RunAndEnd(Numbers(48));
  RunAndEnd(Numbers(16, 500));
  const auto tokens = Join(Numbers(40), {7});
  const BlockTables tables = cache_->Acquire(root_, tokens, 40).value();
  StoredPattern(*cache_).Check(tables, 0, Numbers(40));
  EXPECT_EQ(Found(Numbers(48)), 48);
  EXPECT_EQ(Found(Numbers(16, 500)), 0);
}

TEST_F(PrefixReuse, ABlockThatWouldBeEvictedForItsOwnCopyIsTakenOver) {
  Open({0}, 3);
  RunAndEnd(Numbers(48));
  const BlockTables tables = cache_->Acquire(root_, Numbers(40), 40).value();
  EXPECT_EQ(tables.num_tokens(), 40);
  StoredPattern(*cache_).Check(tables, 0, Numbers(40));
  EXPECT_EQ(cache_->counters().blocks_copied, 0);
  EXPECT_EQ(Found(Numbers(48)), 32);
}

TEST_F(PrefixReuse, WithoutABlockForTheCopyNothingIsTaken) {
  Open({0}, 3);
  const BlockTables running = Start(Numbers(48));
  EXPECT_FALSE(cache_->Acquire(root_, Numbers(40), 40).has_value());
  EXPECT_TRUE(cache_->Acquire(root_, Numbers(40), 32).has_value()) << "whole blocks need none";
}

TEST_F(PrefixReuse, WhatIsTakenOverDoesNotCountAsRoomForTheCopy) {
  // The running sequence holds entries 5 and 6; its window has left entry 4. A hit of 85 shares
  // entry 4 and copies out of entry 5: nothing is left for the copy.
  Open({20}, 3);
  const BlockTables running = Start(Numbers(100), 1);
  ASSERT_EQ(Match(Numbers(85)).num_tokens, 85);
  EXPECT_EQ(Match(Numbers(85)).blocks_cached, 1);
  EXPECT_FALSE(cache_->Acquire(root_, Numbers(85), 85).has_value());
  EXPECT_EQ(cache_->usage().cached_blocks, 1);
  EXPECT_EQ(Match(Numbers(85)).num_tokens, 85);
}

TEST_F(PrefixReuse, ASequenceMayGoOnOtherwiseThanThePromptThatWasLookedFor) {
  Open({0}, 8);
  RunAndEnd(Numbers(16));
  BlockTables tables = cache_->Acquire(root_, Numbers(48), 47).value();
  ASSERT_EQ(tables.num_tokens(), 16);
  const auto tokens = Join(Numbers(16), Numbers(32, 500));
  EXPECT_TRUE(Compute(tables, tokens));
  EXPECT_EQ(Found(tokens), 48);
  EXPECT_EQ(Found(Numbers(48)), 16);
  cache_->CheckInvariants();
}

TEST_F(PrefixReuse, APreemptedSequenceFindsAllItHadIfNobodyNeededIt) {
  Open({0, 20}, 8);
  BlockTables tables = Start(Numbers(37));
  {
    const BlockTables gone = std::move(tables);
  }
  tables = cache_->Acquire(root_, Numbers(38), 37).value();
  EXPECT_EQ(tables.num_tokens(), 37);
  StoredPattern(*cache_).Check(tables, 0, Numbers(37));
}

// --- Windows: group 0 sees all, group 1 the last 20 tokens ---

TEST_F(PrefixReuse, AWindowKeepsTheEntriesThatTheNextTokenReads) {
  Open({0, 20}, 20);
  BlockTables tables = Start(Numbers(100), 10);
  // The token at 100 reads 81..100: entries 5 (from 80) and 6.
  EXPECT_EQ(std::ranges::count(tables.table(0), kNoBlock), 0);
  EXPECT_EQ(std::ranges::count(tables.table(1), kNoBlock), 5);
  EXPECT_EQ(tables.table(1)[4], kNoBlock);
  EXPECT_NE(tables.table(1)[5], kNoBlock);
  EXPECT_EQ(tables.num_blocks(), 7 + 2);
  EXPECT_EQ(tables.num_blocks(), cache_->layout().BlocksHeld(100, 100));
  EXPECT_EQ(cache_->counters().window_releases, 5);
  EXPECT_EQ(cache_->usage().cached_blocks, 5) << "left behind, and findable";
}

TEST_F(PrefixReuse, BlocksThatAWindowLeftServeAShorterPrefix) {
  Open({0, 20}, 20);
  const BlockTables running = Start(Numbers(100), 10);
  EXPECT_EQ(Found(Join(Numbers(50), {7})), 50);
  const BlockTables other = Start(Join(Numbers(50), Numbers(10, 500)));
  EXPECT_EQ(cache_->counters().partial_hits, 1);
}

TEST_F(PrefixReuse, AHitNeedsOnlyTheWindowBeforeItsEnd) {
  // The window blocks left behind (entries 0..4) go first. What remains is enough for a hit whose
  // window begins in entry 4 or later, and for none that ends before.
  Open({0, 20}, 14);
  RunAndEnd(Numbers(100), 10);
  {
    BlockTables other = cache_->AcquirePrivate();
    EXPECT_TRUE(Compute(other, Numbers(32)));  // takes the four oldest: entries 0..3
    EXPECT_EQ(Found(Numbers(100)), 100);
    EXPECT_EQ(Found(Join(Numbers(98), {7})), 98);
    EXPECT_EQ(Found(Join(Numbers(70), {7})), 0) << "it reads entry 3";
  }
  const BlockTables again = Start(Numbers(101));
  EXPECT_EQ(again.table(1)[4], kNoBlock);
}

TEST_F(PrefixReuse, OrderOfEvictionDoesNotDependOnChunks) {
  std::vector<int> found[2];
  for (const int chunk : {1, 100}) {
    Open({0, 20, 20}, 40);
    RunAndEnd(Numbers(100), chunk);
    for (int i = 0; i < 40; ++i) {
      RunAndEnd(Numbers(1, 500 + i));
      for (const int n : {20, 50, 80, 100}) found[chunk == 1].push_back(Found(Numbers(n)));
    }
  }
  EXPECT_EQ(found[0], found[1]);
}

TEST_F(PrefixReuse, AModelWithOnlyWindowsNeedsOnlyTheLastOne) {
  Open({20}, 4);
  RunAndEnd(Numbers(100), 4);  // 7 blocks through a pool of 4: the first are evicted
  EXPECT_GT(cache_->counters().blocks_evicted, 0);
  EXPECT_EQ(Found(Numbers(101)), 100);
  const BlockTables again = Start(Numbers(101));
  EXPECT_EQ(again.num_blocks(), 2);
}

TEST_F(PrefixReuse, AWindowOfOneTokenNeedsNothingButTheTail) {
  Open({1}, 4);
  BlockTables tables = Start(Numbers(33), 1);
  EXPECT_EQ(tables.num_blocks(), 1);
  EXPECT_TRUE(Compute(tables, Numbers(48), 1));
  EXPECT_EQ(tables.num_blocks(), 0);
}

// Gemma 3 270M: 3 full layers, 15 with a window of 512; blocks of 49,152 bytes in six groups. At
// 32,768 tokens a cache without windows would take 6 * 2,048 = 12,288 blocks.
TEST_F(PrefixReuse, Gemma3At32KTokensHoldsAFifthAndASecondUserStillFindsAll) {
  std::vector<KvLayerShape> shapes(18, {1, 256, 256, 512});
  for (const int layer : {5, 11, 17}) shapes[layer].window = 0;
  cache_ = KvCache::Create(KvLayout::Make(shapes, KvType::kF16).value(), 2500).value();
  const auto tokens = Numbers(32768);
  BlockTables first = cache_->Acquire(root_, tokens, 32767).value();
  int64_t most_used = 0;
  for (int end = 512; end <= 32768; end += 512) {
    ASSERT_TRUE(cache_->Reserve(first, end));
    most_used = std::max(most_used, cache_->usage().used_blocks);
    cache_->Commit(first, std::span(tokens).first(end));
  }
  // While it computes 512 tokens: 64 blocks a windowed group. Afterwards: 32.
  EXPECT_EQ(most_used, 2048 + 5 * 64);
  EXPECT_EQ(cache_->usage().used_blocks, 2048 + 5 * 32);
  EXPECT_LT(most_used, 12288 * 0.195);
  EXPECT_LT(cache_->usage().used_blocks, 12288 * 0.18);
  const PrefixMatch match = Match(Join(tokens, {7}));
  EXPECT_EQ(match.num_tokens, 32768);
  EXPECT_EQ(match.blocks_used, 2048 + 5 * 32) << "while the first runs";
  {
    const BlockTables gone = std::move(first);
  }
  EXPECT_EQ(Match(Join(tokens, {7})).blocks_cached, 2048 + 5 * 32) << "and after it";
  const BlockTables second = cache_->Acquire(root_, tokens, 32768).value();
  EXPECT_EQ(second.num_tokens(), 32768);
}

}  // namespace
}  // namespace quire
