#include "kv/prefix_index.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

using Tokens = std::vector<int32_t>;

class PrefixIndexTest : public ::testing::Test {
 protected:
  bool Insert(const Tokens& tokens, int group, BlockId block) {
    return index_.Insert({.id = ChildOf(parent_, tokens), .parent = parent_, .tokens = tokens},
                         group, block);
  }
  const PrefixIndex::Node* Find(const Tokens& tokens) {
    return index_.Find({.id = ChildOf(parent_, tokens), .parent = parent_, .tokens = tokens});
  }
  PrefixIndex::Beginning Beginning(const Tokens& tokens, int group = 0) {
    return index_.FindBeginning(parent_, tokens, group);
  }

  const Digest parent_ = {1};
  PrefixIndex index_{2};
};

TEST_F(PrefixIndexTest, NamesABlockAGroup) {
  EXPECT_TRUE(Insert({1, 2, 3}, 0, 5));
  EXPECT_TRUE(Insert({1, 2, 3}, 1, 6));
  EXPECT_EQ(Find({1, 2, 3})->blocks, (std::vector<BlockId>{5, 6}));
  EXPECT_EQ(index_.NodeOf(6), Find({1, 2, 3}));
  EXPECT_EQ(Find({1, 2}), nullptr);
  EXPECT_EQ(index_.NodeOf(4), nullptr);
  index_.CheckInvariants();
}

TEST_F(PrefixIndexTest, TheSecondBlockOfTheSameContentGetsNoName) {
  EXPECT_TRUE(Insert({1, 2, 3}, 0, 5));
  EXPECT_FALSE(Insert({1, 2, 3}, 0, 6));
  EXPECT_EQ(index_.NodeOf(6), nullptr);
  EXPECT_EQ(index_.NodeOf(5), Find({1, 2, 3}));
}

TEST_F(PrefixIndexTest, ANodeGoesWithItsLastBlock) {
  Insert({1, 2, 3}, 0, 5);
  Insert({1, 2, 3}, 1, 6);
  index_.Erase(5);
  EXPECT_EQ(Find({1, 2, 3})->blocks, (std::vector<BlockId>{kNoBlock, 6}));
  index_.Erase(6);
  EXPECT_EQ(Find({1, 2, 3}), nullptr);
  EXPECT_EQ(index_.num_nodes(), 0u);
  EXPECT_EQ(Beginning({1, 2, 3}).num_tokens, 0);
  index_.CheckInvariants();
}

TEST_F(PrefixIndexTest, ACollisionIsAMiss) {
  // The same identity for other tokens, or after another parent: what a broken hash would give.
  const Digest id = {9};
  const Tokens tokens = {1, 2, 3};
  const Tokens others = {1, 2, 4};
  const Digest other_parent = {2};
  ASSERT_TRUE(index_.Insert({.id = id, .parent = parent_, .tokens = tokens}, 0, 5));
  EXPECT_NE(index_.Find({.id = id, .parent = parent_, .tokens = tokens}), nullptr);
  EXPECT_EQ(index_.Find({.id = id, .parent = parent_, .tokens = others}), nullptr);
  EXPECT_EQ(index_.Find({.id = id, .parent = other_parent, .tokens = tokens}), nullptr);
  EXPECT_FALSE(index_.Insert({.id = id, .parent = parent_, .tokens = others}, 1, 6));
  EXPECT_FALSE(index_.Insert({.id = id, .parent = other_parent, .tokens = tokens}, 1, 6));
  EXPECT_EQ(index_.NodeOf(6), nullptr);
}

TEST_F(PrefixIndexTest, ABlockThatBeginsWithTheTokensIsFound) {
  Insert({4, 4, 9}, 0, 1);
  Insert({4, 7, 1, 2}, 0, 2);
  Insert({4, 7, 3}, 0, 3);
  EXPECT_EQ(Beginning({4, 7, 1, 5}).num_tokens, 3);
  EXPECT_EQ(Beginning({4, 7, 1, 5}).block, 2);
  EXPECT_EQ(Beginning({4, 7, 3, 1}).num_tokens, 3) << "all of a tail";
  EXPECT_EQ(Beginning({4, 7, 3, 1}).block, 3);
  EXPECT_EQ(Beginning({4, 4}).num_tokens, 2) << "no more than is looked for";
  EXPECT_EQ(Beginning({4}).num_tokens, 1);
  EXPECT_EQ(Beginning({5}).num_tokens, 0);
  EXPECT_EQ(Beginning({5}).block, kNoBlock);
  EXPECT_EQ(Beginning({}).num_tokens, 0);
}

TEST_F(PrefixIndexTest, OnlyChildrenOfTheParentAreFound) {
  const Tokens tokens = {1, 2, 3};
  const Digest other = {2};
  ASSERT_TRUE(
      index_.Insert({.id = ChildOf(other, tokens), .parent = other, .tokens = tokens}, 0, 1));
  EXPECT_EQ(Beginning({1, 2, 3}).num_tokens, 0);
}

TEST_F(PrefixIndexTest, ABeginningIsLookedForInItsGroup) {
  Insert({1, 2, 3, 4}, 0, 1);
  Insert({1, 2, 7}, 1, 2);
  EXPECT_EQ(Beginning({1, 2, 3, 4}, 0).num_tokens, 4);
  EXPECT_EQ(Beginning({1, 2, 3, 4}, 1).num_tokens, 2);
  EXPECT_EQ(Beginning({1, 2, 3, 4}, 1).block, 2);
}

TEST_F(PrefixIndexTest, TheBestOfThousandsOfChildrenIsFound) {
  for (int i = 0; i < 5000; ++i) Insert({7, i / 50, i % 50}, 0, i);
  for (const int i : {0, 1, 49, 50, 2500, 4999}) {
    EXPECT_EQ(Beginning({7, i / 50, i % 50, 3}).num_tokens, 3);
    EXPECT_EQ(Beginning({7, i / 50, i % 50, 3}).block, i);
  }
  index_.CheckInvariants();
}

TEST_F(PrefixIndexTest, NeighboursWithoutABlockInTheGroupArePassedOverUpToABound) {
  constexpr int kNear = PrefixIndex::kMaxSkipped;
  Insert({7, kNear + 1}, 1, 9999);
  for (int i = 1; i <= kNear; ++i) Insert({7, i}, 0, i);
  EXPECT_EQ(Beginning({7, 0}, 1).block, 9999);
  Insert({7, 0}, 0, 0);
  EXPECT_EQ(Beginning({7, 0}, 1).num_tokens, 0);
  EXPECT_EQ(Beginning({7, 1}, 1).block, 9999);
}

TEST(PrefixIndexDeathTest, ANodeUnderAnIdentityThatIsNotItsOwnFailsTheCheck) {
  PrefixIndex index(1);
  const Tokens tokens = {1, 2, 3};
  const Digest id = {9};
  const Digest parent = {};
  ASSERT_TRUE(index.Insert({.id = id, .parent = parent, .tokens = tokens}, 0, 0));
  EXPECT_DEATH(index.CheckInvariants(), "not its identity");
}

}  // namespace
}  // namespace quire
