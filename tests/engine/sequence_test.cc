#include "engine/sequence.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

class SequenceTest : public ::testing::Test {
 protected:
  SequenceTest()
      : pool_(
            BlockPool::Create(KvLayout::Make(std::vector<KvLayerShape>{{1, 4, 4}}, KvType::kF16), 8)
                .value()),
        sequence_(pool_) {}

  void Compute(int count) {
    ASSERT_TRUE(sequence_.Reserve(count));
    sequence_.Commit(count);
  }

  BlockPool pool_;
  Sequence sequence_;
};

TEST_F(SequenceTest, ANewTextKeepsTheEntriesOfItsCommonBeginning) {
  sequence_.SetTokens(std::vector<int32_t>{1, 2, 3, 4, 5});
  Compute(5);
  sequence_.SetTokens(std::vector<int32_t>{1, 2, 3, 9});
  EXPECT_EQ(sequence_.num_computed(), 3);
  EXPECT_EQ(sequence_.num_tokens(), 4);
}

TEST_F(SequenceTest, ATextThatGoesOnKeepsAllEntries) {
  sequence_.SetTokens(std::vector<int32_t>{1, 2});
  Compute(2);
  sequence_.SetTokens(std::vector<int32_t>{1, 2, 3});
  EXPECT_EQ(sequence_.num_computed(), 2);
}

TEST_F(SequenceTest, EntriesAreCountedNoFurtherThanTheyWereComputed) {
  sequence_.SetTokens(std::vector<int32_t>{1, 2, 3});
  Compute(1);
  sequence_.SetTokens(std::vector<int32_t>{1, 2, 3, 4});
  EXPECT_EQ(sequence_.num_computed(), 1);
}

TEST_F(SequenceTest, ForgettingGivesBlocksBack) {
  sequence_.SetTokens(std::vector<int32_t>(40, 1));
  Compute(40);
  EXPECT_EQ(pool_.num_used(), 3);
  sequence_.Forget(16);
  EXPECT_EQ(pool_.num_used(), 1);
  EXPECT_EQ(sequence_.num_tokens(), 40);
  sequence_.Forget(30);
  EXPECT_EQ(sequence_.num_computed(), 16);
}

}  // namespace
}  // namespace quire
