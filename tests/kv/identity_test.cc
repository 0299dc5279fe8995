#include "kv/identity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "kv/layout.h"

namespace quire {
namespace {

std::vector<int32_t> Tokens(int count) {
  std::vector<int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 100);
  return tokens;
}

Digest LayoutOf(KvType type, int window = 0) {
  const std::vector<KvLayerShape> shapes = {{1, 32, 32, window}};
  return KvLayout::Make(shapes, type).value().LayoutDigest();
}

TEST(Identity, EachIngredientAloneChangesTheRoot) {
  const FingerprintInput base = {
      .weights = {1}, .architecture = {2}, .layout = LayoutOf(KvType::kF16), .numerics_version = 3};
  std::set<Digest> roots = {RootOf(FingerprintOf(base), "")};
  const std::vector<std::function<void(FingerprintInput&)>> changes = {
      [](FingerprintInput& input) { input.weights[31] ^= 1; },
      [](FingerprintInput& input) { input.architecture[31] ^= 1; },
      [](FingerprintInput& input) { input.layout = LayoutOf(KvType::kBF16); },
      [](FingerprintInput& input) { input.layout = LayoutOf(KvType::kF16, 64); },
      [](FingerprintInput& input) { ++input.numerics_version; },
      [](FingerprintInput& input) { std::swap(input.weights, input.architecture); },
  };
  for (const auto& change : changes) {
    FingerprintInput input = base;
    change(input);
    roots.insert(RootOf(FingerprintOf(input), ""));
  }
  roots.insert(RootOf(FingerprintOf(base), "tenant"));
  roots.insert(RootOf(FingerprintOf(base), "", "adapter"));
  EXPECT_EQ(roots.size(), 9u);
  EXPECT_TRUE(roots.contains(RootOf(FingerprintOf(base), ""))) << "and nothing else does";
}

TEST(Identity, SaltAndAdapterDoNotRunIntoEachOther) {
  EXPECT_NE(RootOf({}, "ab", "c"), RootOf({}, "a", "bc"));
  EXPECT_NE(RootOf({}, "ab"), RootOf({}, "", "ab"));
  EXPECT_NE(RootOf({}, std::string_view("\0", 1)), RootOf({}, ""));
}

TEST(Identity, EveryTokenAndEveryParentCounts) {
  const auto tokens = Tokens(16);
  const Digest id = ChildOf({}, tokens);
  EXPECT_EQ(ChildOf({}, tokens), id);
  EXPECT_NE(ChildOf({1}, tokens), id);
  for (size_t i = 0; i < tokens.size(); ++i) {
    auto other = tokens;
    other[i] ^= 1 << 24;
    EXPECT_NE(ChildOf({}, other), id) << "token " << i;
    EXPECT_NE(ChildOf({}, std::span(tokens).first(std::max<size_t>(i, 1))), id);
  }
}

TEST(Identity, KindsOfDigestDoNotMeet) {
  EXPECT_NE(RootOf({}, ""), FingerprintOf({}));
  EXPECT_NE(RootOf({}, std::string(8, '\0')), ChildOf({}, std::vector<int32_t>{0, 0}));
}

TEST(Identity, AChainNamesWholeBlocksAndGrows) {
  const auto tokens = Tokens(50);
  const Digest root = RootOf({}, "");
  IdentityChain chain(root);
  chain.Extend(std::span(tokens).first(15));
  EXPECT_TRUE(chain.ids().empty());
  chain.Extend(std::span(tokens).first(33));
  chain.Extend(tokens);
  ASSERT_EQ(chain.ids().size(), 3u);
  EXPECT_EQ(chain.ids()[0], ChildOf(root, std::span(tokens).subspan(0, 16)));
  EXPECT_EQ(chain.ids()[1], ChildOf(chain.ids()[0], std::span(tokens).subspan(16, 16)));
  EXPECT_EQ(chain.parent(0), root);
  EXPECT_EQ(chain.parent(2), chain.ids()[1]);
}

TEST(Identity, ATruncatedChainGoesOnWithOtherTokens) {
  auto tokens = Tokens(48);
  IdentityChain chain(Digest{});
  chain.Extend(tokens);
  const Digest first = chain.ids()[0];
  const Digest second = chain.ids()[1];
  tokens[20] = 7;
  chain.Truncate(1);
  chain.Extend(tokens);
  ASSERT_EQ(chain.ids().size(), 3u);
  EXPECT_EQ(chain.ids()[0], first);
  EXPECT_NE(chain.ids()[1], second);
}

}  // namespace
}  // namespace quire
