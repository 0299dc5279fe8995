#include "plan/byte_size.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(ByteSize, PowersOfTenAndOfTwoDiffer) {
  EXPECT_EQ(*ParseByteSize("8GB"), 8'000'000'000u);
  EXPECT_EQ(*ParseByteSize("8GiB"), 8'589'934'592u);
  EXPECT_EQ(*ParseByteSize("8 gib"), 8'589'934'592u);
  EXPECT_EQ(*ParseByteSize("1.5MiB"), 1'572'864u);
  EXPECT_EQ(*ParseByteSize("15.44GB"), 15'440'000'000u);
  EXPECT_EQ(*ParseByteSize("4096"), 4096u);
  EXPECT_EQ(*ParseByteSize("4096B"), 4096u);
  EXPECT_EQ(*ParseByteSize("0"), 0u);
}

TEST(ByteSize, WhatMayMeanTwoThingsIsRefused) {
  for (const char* text : {"", "8G", "8M", "GB", "-1GB", "8 GB!", "1e3MB", "nan", "inf", "infGB",
                           "99999999999TB", "8GBGB", "0x10"}) {
    const auto size = ParseByteSize(text);
    ASSERT_FALSE(size.ok()) << text;
    EXPECT_EQ(size.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(size.error().message.find("GiB"), std::string::npos);
  }
}

TEST(ByteSize, EveryPrintedUnitIsLabelled) {
  EXPECT_EQ(FormatBytes(1'610'612'736), "1,610,612,736 bytes (1,536.0 MiB, 1,610.6 MB)");
  EXPECT_EQ(FormatBytes(0), "0 bytes (0.0 KiB, 0.0 kB)");
  EXPECT_EQ(FormatBytes(1'048'575), "1,048,575 bytes (1,024.0 KiB, 1,048.6 kB)");
  EXPECT_EQ(FormatBytes(28'672), "28,672 bytes (28.0 KiB, 28.7 kB)");
  EXPECT_EQ(GroupDigits(999), "999");
  EXPECT_EQ(GroupDigits(1'000), "1,000");
}

}  // namespace
}  // namespace quire
