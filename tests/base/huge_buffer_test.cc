#include "base/huge_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

namespace quire {
namespace {

TEST(HugeBuffer, IsZeroedWritableAndAlignedToTwoMebibytes) {
  for (const size_t size : {size_t{1}, size_t{4096}, size_t{2} << 20, (size_t{2} << 20) + 1}) {
    Result<HugeBuffer> buffer = HugeBuffer::Allocate(size);
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ(buffer->size(), size);
    EXPECT_EQ(buffer->bytes().size(), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % (size_t{2} << 20), 0u);
    EXPECT_TRUE(
        std::ranges::all_of(buffer->bytes(), [](std::byte b) { return b == std::byte{0}; }));
    buffer->bytes().front() = std::byte{1};
    buffer->bytes().back() = std::byte{2};
    EXPECT_EQ(buffer->bytes().back(), std::byte{2});
  }
}

TEST(HugeBuffer, NoBytesNeedNoMemory) {
  Result<HugeBuffer> buffer = HugeBuffer::Allocate(0);
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(buffer->data(), nullptr);
  EXPECT_TRUE(buffer->bytes().empty());
}

TEST(HugeBuffer, MoreThanTheAddressSpaceIsRefusedWithTheBytesAskedFor) {
  for (const size_t size : {size_t{1} << 60, std::numeric_limits<size_t>::max(),
                            std::numeric_limits<size_t>::max() - (size_t{2} << 20)}) {
    const Result<HugeBuffer> buffer = HugeBuffer::Allocate(size);
    ASSERT_FALSE(buffer.ok());
    EXPECT_EQ(buffer.error().code, ErrorCode::kResourceExhausted);
    EXPECT_NE(buffer.error().message.find(std::to_string(size)), std::string::npos);
  }
}

TEST(HugeBuffer, DecommitGivesBackThePagesThatLieWhollyInside) {
  const size_t page = HugeBuffer::page_bytes();
  HugeBuffer buffer = HugeBuffer::Allocate(4 * page).value();
  std::ranges::fill(buffer.bytes(), std::byte{7});
  buffer.Decommit(page - 1, 2 * page);  // of page 0 the last byte, of page 2 all but the last
  EXPECT_EQ(buffer.data()[page - 1], std::byte{7});
  EXPECT_EQ(buffer.data()[page], std::byte{0});
  EXPECT_EQ(buffer.data()[2 * page - 1], std::byte{0});
  EXPECT_EQ(buffer.data()[2 * page], std::byte{7});
  buffer.Decommit(3 * page, page);
  EXPECT_EQ(buffer.data()[4 * page - 1], std::byte{0});
}

TEST(HugeBufferDeathTest, DecommitBeyondTheEndEndsTheProcess) {
  HugeBuffer buffer = HugeBuffer::Allocate(100).value();
  EXPECT_DEATH(buffer.Decommit(50, 51), "broken invariant");
}

TEST(HugeBuffer, MovesHandOverTheMemory) {
  HugeBuffer first = HugeBuffer::Allocate(100).value();
  std::byte* data = first.data();
  data[99] = std::byte{7};
  HugeBuffer second(std::move(first));
  EXPECT_EQ(second.data(), data);
  HugeBuffer third;
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(third.size(), 100u);
  EXPECT_EQ(third.data()[99], std::byte{7});
}

}  // namespace
}  // namespace quire
