#include "kv/arena.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace quire {
namespace {

class ArenaTest : public ::testing::Test {
 protected:
  const size_t page_ = HugeBuffer::page_bytes();
  Arena arena_ = Arena::Reserve(100 * page_).value();
};

TEST_F(ArenaTest, ReservedSpaceIsNotCommitted) { EXPECT_EQ(arena_.committed_bytes(), 0u); }

TEST_F(ArenaTest, APageIsCountedOnceHoweverManyRangesTouchIt) {
  arena_.Commit(0, page_ / 2);
  arena_.Commit(page_ / 2, page_);  // the other half, and half of the next page
  EXPECT_EQ(arena_.committed_bytes(), 2 * page_);
  arena_.Commit(5 * page_, 0);
  EXPECT_EQ(arena_.committed_bytes(), 2 * page_);
  arena_.CheckInvariants();
}

TEST_F(ArenaTest, OnlyWholePagesGoBack) {
  arena_.Commit(0, 4 * page_);
  arena_.data()[0] = arena_.data()[page_] = arena_.data()[3 * page_] = std::byte{1};
  arena_.Decommit(1, 3 * page_);
  EXPECT_EQ(arena_.committed_bytes(), 2 * page_);
  EXPECT_EQ(arena_.data()[0], std::byte{1});
  EXPECT_EQ(arena_.data()[page_], std::byte{0});
  EXPECT_EQ(arena_.data()[3 * page_], std::byte{1});
  arena_.Decommit(50 * page_, 50 * page_);  // never committed
  EXPECT_EQ(arena_.committed_bytes(), 2 * page_);
  arena_.CheckInvariants();
}

TEST_F(ArenaTest, MoreThanTheAddressSpaceIsAnErrorThatNamesTheBytes) {
  const Result<Arena> arena = Arena::Reserve(size_t{1} << 60);
  ASSERT_FALSE(arena.ok());
  EXPECT_EQ(arena.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(arena.error().message.find("1152921504606846976"), std::string::npos);
}

}  // namespace
}  // namespace quire
