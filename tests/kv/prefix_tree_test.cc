// The index as a tree whose branches are one node each.
#include "kv/prefix_tree.h"

#include <algorithm>
#include <random>
#include <set>

#include "kv/kv_fixture.h"

namespace quire {
namespace {

class PrefixTreeTest : public KvFixture {
 protected:
  // The tokens that a node stands for, one entry after the other.
  static std::vector<int32_t> TokensOf(const PrefixTree::Node& node,
                                       const std::vector<PrefixEntry>& entries) {
    std::vector<int32_t> tokens;
    for (const int idx : node.entries) {
      const auto part = entries[static_cast<size_t>(idx)].tokens();
      tokens.insert(tokens.end(), part.begin(), part.end());
    }
    return tokens;
  }
};

TEST_F(PrefixTreeTest, APromptAloneIsOneNode) {
  Open({0}, 16);
  RunAndEnd(Numbers(70));
  const auto entries = ListPrefixes(*cache_);
  const PrefixTree tree = GrowTree(entries, 100);
  ASSERT_EQ(tree.nodes.size(), 1u);
  EXPECT_EQ(tree.nodes[0].parent, -1);
  EXPECT_EQ(TokensOf(tree.nodes[0], entries), Numbers(70));
  EXPECT_FALSE(tree.is_truncated);
}

TEST_F(PrefixTreeTest, BranchesWherePromptsPart) {
  Open({0}, 64);
  const BlockTables held = Start(Join(Numbers(32), Numbers(32, 1000)));
  RunAndEnd(Join(Numbers(32), Numbers(16, 2000)));
  RunAndEnd(Numbers(48, 5000));
  const auto entries = ListPrefixes(*cache_);
  const PrefixTree tree = GrowTree(entries, 100);
  ASSERT_EQ(tree.nodes.size(), 4u);
  // The stem with all that is on it has the most blocks.
  EXPECT_EQ(tree.nodes[0].parent, -1);
  EXPECT_EQ(TokensOf(tree.nodes[0], entries), Numbers(32));
  EXPECT_EQ(std::ranges::count(tree.nodes, 0, &PrefixTree::Node::parent), 2);
  const auto other = std::ranges::find_if(tree.nodes.begin() + 1, tree.nodes.end(),
                                          [](const auto& node) { return node.parent == -1; });
  EXPECT_EQ(TokensOf(*other, entries), Numbers(48, 5000));
  for (const PrefixEntry& entry : entries) {
    const bool is_held = entry.token_ids[0] < 2000;
    EXPECT_EQ(entry.references, is_held ? 1 : 0) << entry.token_ids[0];
  }
}

TEST_F(PrefixTreeTest, ALimitKeepsTheLargestAndSaysSo) {
  Open({0}, 128);
  RunAndEnd(Numbers(16, 100));
  RunAndEnd(Numbers(160, 1000));
  RunAndEnd(Numbers(48, 5000));
  const auto entries = ListPrefixes(*cache_);
  const PrefixTree tree = GrowTree(entries, 2);
  EXPECT_TRUE(tree.is_truncated);
  ASSERT_EQ(tree.nodes.size(), 2u);
  EXPECT_EQ(TokensOf(tree.nodes[0], entries), Numbers(160, 1000));
  EXPECT_EQ(TokensOf(tree.nodes[1], entries), Numbers(48, 5000));
  EXPECT_TRUE(GrowTree(entries, 0).nodes.empty());
}

TEST_F(PrefixTreeTest, CountsTheBlocksOfAllGroups) {
  Open({0, 32}, 32);
  RunAndEnd(Numbers(32));
  const auto entries = ListPrefixes(*cache_);
  ASSERT_EQ(entries.size(), 2u);
  for (const PrefixEntry& entry : entries) {
    EXPECT_EQ(entry.num_blocks, 2);
    EXPECT_EQ(entry.groups, 3u);
  }
}

TEST_F(PrefixTreeTest, WhatOutlivedItsParentBeginsATree) {
  std::vector<PrefixEntry> entries(2);
  entries[0] = {.id = {1}, .parent = {9}, .entry = 3, .num_tokens = 16, .num_blocks = 1};
  entries[1] = {.id = {2}, .parent = {1}, .entry = 4, .num_tokens = 16, .num_blocks = 1};
  const PrefixTree tree = GrowTree(entries, 10);
  ASSERT_EQ(tree.nodes.size(), 1u);
  EXPECT_EQ(tree.nodes[0].entries, (std::vector<int>{0, 1}));
}

TEST_F(PrefixTreeTest, EntriesThatNameEachOtherEndAllTheSame) {
  std::vector<PrefixEntry> entries(2);
  entries[0] = {.id = {1}, .parent = {2}, .entry = 1, .num_tokens = 16, .num_blocks = 1};
  entries[1] = {.id = {2}, .parent = {1}, .entry = 1, .num_tokens = 16, .num_blocks = 1};
  EXPECT_EQ(GrowTree(entries, 10).nodes.size(), 2u);
}

// Every entry is in one node, behind its parent, whatever the prompts.
TEST_F(PrefixTreeTest, HoldsEveryEntryOnceBehindItsParent) {
  Open({0}, 400);
  std::mt19937 random(11);
  for (int i = 0; i < 60; ++i) {
    std::vector<int32_t> tokens;
    const int num_blocks = 1 + static_cast<int>(random() % 4);
    for (int block = 0; block < num_blocks; ++block) {
      tokens = Join(tokens, Numbers(16, static_cast<int>(random() % 3) * 100));
    }
    RunAndEnd(Join(tokens, Numbers(static_cast<int>(random() % 5) + 1, 900)));
  }
  const auto entries = ListPrefixes(*cache_);
  const PrefixTree tree = GrowTree(entries, 10'000);
  std::set<int> seen;
  for (size_t i = 0; i < tree.nodes.size(); ++i) {
    const PrefixTree::Node& node = tree.nodes[i];
    ASSERT_LT(node.parent, static_cast<int>(i));
    Digest parent = entries[static_cast<size_t>(node.entries.front())].parent;
    if (node.parent >= 0) {
      const int last = tree.nodes[static_cast<size_t>(node.parent)].entries.back();
      EXPECT_EQ(parent, entries[static_cast<size_t>(last)].id);
    } else {
      EXPECT_EQ(parent, root_);
    }
    for (const int idx : node.entries) {
      EXPECT_TRUE(seen.insert(idx).second);
      EXPECT_EQ(entries[static_cast<size_t>(idx)].parent, parent);
      parent = entries[static_cast<size_t>(idx)].id;
    }
  }
  EXPECT_EQ(seen.size(), entries.size());
}

}  // namespace
}  // namespace quire
