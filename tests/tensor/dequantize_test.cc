#include "tensor/dequantize.h"

#include <gtest/gtest.h>

#include <bit>

#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tensor/float16.h"

namespace quire {
namespace {

constexpr DType kAllTypes[] = {DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ4_0,
                               DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0,
                               DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};

std::optional<DType> TypeByName(std::string_view name) {
  for (DType dtype : kAllTypes) {
    if (InfoOf(dtype).name == name) return dtype;
  }
  return std::nullopt;
}

std::vector<std::byte> BytesOf(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

std::vector<float> Dequantize(DType dtype, std::span<const std::byte> bytes) {
  const DTypeInfo& info = InfoOf(dtype);
  std::vector<float> out(bytes.size() / info.block_bytes * info.block_elements);
  DequantizeRow(dtype, bytes.data(), out.size(), out.data());
  return out;
}

// A block of zero bytes with `values` (offset, byte) set.
std::vector<std::byte> Block(DType dtype, std::vector<std::pair<int, int>> values) {
  std::vector<std::byte> block(InfoOf(dtype).block_bytes);
  for (const auto& [offset, value] : values) block[offset] = static_cast<std::byte>(value);
  return block;
}

TEST(DequantizeRow, EqualsTheGgufPackageBitForBit) {
  std::ifstream lines(QUIRE_TESTS_DIR "/tensor/dequantize_golden.txt");
  std::string name, stored, floats;
  int num_formats = 0;
  while (lines >> name >> stored >> floats) {
    const auto dtype = TypeByName(name);
    ASSERT_TRUE(dtype.has_value()) << name;
    const std::vector<float> got = Dequantize(*dtype, BytesOf(stored));
    ASSERT_EQ(got.size() * 8, floats.size()) << name;
    for (size_t i = 0; i < got.size(); ++i) {
      const uint32_t expected = std::stoul(floats.substr(i * 8, 8), nullptr, 16);
      ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), expected) << name << " element " << i;
    }
    ++num_formats;
  }
  EXPECT_EQ(num_formats, 10);
}

TEST(DequantizeRow, CopiesFloatsAtAnyAddress) {
  const std::vector<float> values = {0.0f, -0.0f, 1.5f, std::numeric_limits<float>::denorm_min()};
  std::vector<std::byte> bytes(1 + values.size() * 4);
  std::memcpy(bytes.data() + 1, values.data(), values.size() * 4);
  const auto got = Dequantize(DType::kF32, std::span(bytes).subspan(1));
  EXPECT_EQ(std::memcmp(got.data(), values.data(), values.size() * 4), 0);
}

// 0x3c00 is 1.0: d at bytes 0-1 except in Q6_K.
TEST(DequantizeRow, PutsTheLowNibblesOfQ4_0First) {
  const auto got = Dequantize(DType::kQ4_0, Block(DType::kQ4_0, {{1, 0x3c}, {2, 0xf1}}));
  EXPECT_EQ(got[0], 1 - 8);
  EXPECT_EQ(got[16], 15 - 8);
  EXPECT_EQ(got[1], -8);
}

TEST(DequantizeRow, AddsTheMinimumOfQ4_1) {
  // m = 2.0 (0x4000).
  const auto got = Dequantize(DType::kQ4_1, Block(DType::kQ4_1, {{1, 0x3c}, {3, 0x40}, {4, 0x03}}));
  EXPECT_EQ(got[0], 3 + 2);
  EXPECT_EQ(got[16], 2);
}

TEST(DequantizeRow, TakesTheFifthBitOfQ5_0FromTheElementsOwnPlace) {
  // Bits 0 and 17 of the high bits.
  const auto got = Dequantize(DType::kQ5_0, Block(DType::kQ5_0, {{1, 0x3c}, {2, 1}, {4, 2}}));
  EXPECT_EQ(got[0], 16 - 16);
  EXPECT_EQ(got[17], 16 - 16);
  EXPECT_EQ(got[1], -16);
}

TEST(DequantizeRow, ReadsQ8_0AsSignedBytes) {
  const auto got = Dequantize(DType::kQ8_0, Block(DType::kQ8_0, {{1, 0x3c}, {2, 0x80}, {33, 127}}));
  EXPECT_EQ(got[0], -128);
  EXPECT_EQ(got[31], 127);
}

TEST(DequantizeRow, SubtractsTheMinimumOfQ4_K) {
  // d = dmin = 1; group 0 has scale 2 and minimum 3, and its first code is 5.
  const auto got = Dequantize(
      DType::kQ4_K, Block(DType::kQ4_K, {{1, 0x3c}, {3, 0x3c}, {4, 2}, {8, 3}, {16, 0x05}}));
  EXPECT_EQ(got[0], 2 * 5 - 3);
  EXPECT_EQ(got[1], -3);
  EXPECT_EQ(got[32], 0);
}

TEST(DequantizeRow, JoinsTheSplitScalesOfTheLastGroupsOfQ4_K) {
  // Group 7: scale low bits in byte 11's low nibble, top bits in byte 3; minimum in byte 11's high
  // nibble and byte 7's top bits. Scale 0b110001 = 49, minimum 0b100010 = 34.
  const auto got = Dequantize(
      DType::kQ4_K,
      Block(
          DType::kQ4_K,
          {{1, 0x3c}, {3, 0x3c}, {4 + 11, 0x21}, {4 + 3, 0xc0}, {4 + 7, 0x80}, {16 + 127, 0x10}}));
  EXPECT_EQ(got[255], 49 - 34);
  EXPECT_EQ(got[224], -34);
}

TEST(DequantizeRow, TakesBitGOfAFifthByteOfQ5_KForGroupG) {
  // Scales of groups 0-3 are 1; fifth byte 4 has bit 2.
  const auto got = Dequantize(
      DType::kQ5_K, Block(DType::kQ5_K, {{1, 0x3c}, {4, 1}, {5, 1}, {6, 1}, {7, 1}, {16 + 4, 4}}));
  EXPECT_EQ(got[2 * 32 + 4], 16);
  EXPECT_EQ(got[1 * 32 + 4], 0);
}

TEST(DequantizeRow, GivesEverySixteenElementsOfQ6_KTheirScale) {
  // d = 1; scale 15 is -2 and scale 0 is 1; all codes 0 mean -32.
  const auto got =
      Dequantize(DType::kQ6_K, Block(DType::kQ6_K, {{209, 0x3c}, {192, 1}, {192 + 15, 0xfe}}));
  EXPECT_EQ(got[0], -32);
  EXPECT_EQ(got[15], -32);
  EXPECT_EQ(got[16], 0);
  EXPECT_EQ(got[239], 0);
  EXPECT_EQ(got[240], 64);
  EXPECT_EQ(got[255], 64);
}

TEST(DequantizeRow, TreatsEachBlockAlike) {
  for (DType dtype : kAllTypes) {
    const DTypeInfo& info = InfoOf(dtype);
    std::vector<std::byte> one(info.block_bytes);
    for (size_t i = 0; i < one.size(); ++i) one[i] = static_cast<std::byte>(i * 37 % 61);
    std::vector<std::byte> three;
    for (int i = 0; i < 3; ++i) three.insert(three.end(), one.begin(), one.end());
    const auto expected = Dequantize(dtype, one);
    const auto got = Dequantize(dtype, three);
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i], expected[i % expected.size()]) << info.name << " element " << i;
    }
  }
}

}  // namespace
}  // namespace quire
