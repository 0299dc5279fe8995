#include "base/bytes.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>

namespace quire {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

TEST(CheckedArithmetic, GivesNothingWhenTheResultDoesNotFit) {
  EXPECT_EQ(CheckedAdd(3, 4), 7u);
  EXPECT_EQ(CheckedAdd(kMax - 1, 1), kMax);
  EXPECT_EQ(CheckedAdd(kMax, 1), std::nullopt);
  EXPECT_EQ(CheckedMul(1u << 31, 1u << 31), uint64_t{1} << 62);
  EXPECT_EQ(CheckedMul(kMax, 0), 0u);
  EXPECT_EQ(CheckedMul(uint64_t{1} << 32, uint64_t{1} << 32), std::nullopt);
}

TEST(AlignUp, RoundsToTheNextMultiple) {
  EXPECT_EQ(AlignUp(0, 64), 0u);
  EXPECT_EQ(AlignUp(1, 64), 64u);
  EXPECT_EQ(AlignUp(64, 64), 64u);
  EXPECT_EQ(AlignUp(65, 64), 128u);
}

constexpr std::array<std::byte, 7> kSeven = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4},
                                             std::byte{5}, std::byte{6}, std::byte{7}};

TEST(ByteReader, ReadsLittleEndianValuesFrontToBack) {
  ByteReader reader(kSeven);
  EXPECT_EQ(reader.Read<uint8_t>(), 1);
  EXPECT_EQ(reader.Read<uint32_t>(), 0x05040302u);
  EXPECT_EQ(reader.position(), 5u);
  EXPECT_EQ(reader.Read<uint16_t>(), 0x0706);
  EXPECT_EQ(reader.remaining(), 0u);
}

TEST(ByteReader, AReadPastTheEndMovesNothing) {
  ByteReader reader(kSeven);
  EXPECT_EQ(reader.Read<uint64_t>(), std::nullopt);
  EXPECT_EQ(reader.position(), 0u);
  EXPECT_FALSE(reader.ReadBytes(8).has_value());
  EXPECT_FALSE(reader.ReadBytes(kMax).has_value());
  ASSERT_TRUE(reader.ReadBytes(6).has_value());
  EXPECT_EQ(reader.Read<uint16_t>(), std::nullopt);
  EXPECT_EQ(reader.Read<uint8_t>(), 7);
}

TEST(ByteReader, AnEmptyReadAtTheEndIsFine) {
  ByteReader reader(kSeven);
  EXPECT_EQ(reader.ReadBytes(7)->size(), 7u);
  EXPECT_EQ(reader.ReadBytes(0)->size(), 0u);
}

}  // namespace
}  // namespace quire
