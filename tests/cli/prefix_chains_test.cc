#include "cli/cache/prefix_chains.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using ::testing::ElementsAre;

RecordName Name(uint8_t number) {
  RecordName name;
  name.digest[0] = number;
  return name;
}

// A record whose name is a number, of a model that is one, too.
CataloguedRecord Record(uint8_t name, uint8_t parent, int entry, double last_use_s = 1,
                        int group = 0, uint8_t model = 1) {
  CataloguedRecord record{.name = Name(name),
                          .parent = Name(parent),
                          .group = group,
                          .entry = entry,
                          .last_use_s = last_use_s,
                          .bytes = 100};
  record.fingerprint[0] = model;
  return record;
}

std::vector<uint8_t> PathOf(const PrefixChain& chain) {
  std::vector<uint8_t> names;
  for (const CataloguedRecord& record : chain.path) names.push_back(record.name.digest[0]);
  return names;
}

std::vector<PrefixChain> ChainsOf(const std::vector<CataloguedRecord>& records) {
  const std::vector<RecordIndex> indexes = IndexRecords(records);
  EXPECT_EQ(indexes.size(), 1u);
  return PrefixChains(indexes[0]);
}

TEST(PrefixChains, RunFromTheFirstBlockToEachLastOne) {
  // 1 - 2 - 3, and 4 beside 3; 9 is the root, of which there is no record.
  const auto chains =
      ChainsOf({Record(3, 2, 2, 10), Record(1, 9, 0), Record(4, 2, 2, 20), Record(2, 1, 1)});
  ASSERT_EQ(chains.size(), 2u);
  EXPECT_THAT(PathOf(chains[0]), ElementsAre(1, 2, 4));
  EXPECT_THAT(PathOf(chains[1]), ElementsAre(1, 2, 3));
  EXPECT_EQ(chains[0].num_tokens(), 48);
  EXPECT_EQ(chains[0].bytes(), 300u);
  EXPECT_TRUE(chains[0].is_whole());
}

TEST(PrefixChains, EndWhereABlockIsMissing) {
  const auto chains = ChainsOf({Record(3, 2, 2), Record(4, 3, 3)});
  ASSERT_EQ(chains.size(), 1u);
  EXPECT_THAT(PathOf(chains[0]), ElementsAre(3, 4));
  EXPECT_FALSE(chains[0].is_whole());
}

TEST(PrefixChains, DoNotFollowLinksThatLeadInACircleOrToAnotherPlace) {
  // 1 and 2 name each other; 5's parent is not the block before it.
  const auto chains = ChainsOf({Record(1, 2, 1), Record(2, 1, 1), Record(5, 2, 7)});
  for (const PrefixChain& chain : chains) EXPECT_EQ(chain.path.size(), 1u);
  EXPECT_EQ(chains.size(), 1u);
}

TEST(PrefixChains, AreFollowedInTheGroupThatHasMostOfThem) {
  const std::vector<CataloguedRecord> records = {Record(12, 11, 1, 1, /*group=*/0),
                                                 Record(1, 9, 0, 1, /*group=*/1),
                                                 Record(2, 1, 1, 1, /*group=*/1)};
  const auto chains = ChainsOf(records);
  ASSERT_EQ(chains.size(), 1u);
  EXPECT_THAT(PathOf(chains[0]), ElementsAre(1, 2));
  EXPECT_EQ(chains[0].bytes(), 400u);  // two blocks in two groups
}

TEST(PrefixChains, OfModelsAreApart) {
  const std::vector<CataloguedRecord> records = {Record(1, 9, 0, 1, 0, /*model=*/1),
                                                 Record(2, 1, 1, 1, 0, /*model=*/2)};
  const auto indexes = IndexRecords(records);
  ASSERT_EQ(indexes.size(), 2u);
  EXPECT_THAT(PathOf(PrefixChains(indexes[0])[0]), ElementsAre(1));
  EXPECT_THAT(PathOf(PrefixChains(indexes[1])[0]), ElementsAre(2));
}

}  // namespace
}  // namespace quire
