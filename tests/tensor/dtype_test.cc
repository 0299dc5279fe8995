#include "tensor/dtype.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(DType, KnowsTheBlocksOfEachFormat) {
  // Bits per element times 32: scale and minimum included.
  EXPECT_EQ(RowBytes(DType::kF32, 32), 128u);
  EXPECT_EQ(RowBytes(DType::kF16, 32), 64u);
  EXPECT_EQ(RowBytes(DType::kBF16, 32), 64u);
  EXPECT_EQ(RowBytes(DType::kQ4_0, 32), 18u);
  EXPECT_EQ(RowBytes(DType::kQ4_1, 32), 20u);
  EXPECT_EQ(RowBytes(DType::kQ5_0, 32), 22u);
  EXPECT_EQ(RowBytes(DType::kQ5_1, 32), 24u);
  EXPECT_EQ(RowBytes(DType::kQ8_0, 32), 34u);
  EXPECT_EQ(RowBytes(DType::kQ4_K, 512), 288u);
  EXPECT_EQ(RowBytes(DType::kQ5_K, 512), 352u);
  EXPECT_EQ(RowBytes(DType::kQ6_K, 512), 420u);
}

TEST(DType, RowBytesIsExactWhereA32BitProductWouldWrap) {
  EXPECT_EQ(RowBytes(DType::kQ4_K, uint64_t{1} << 40), (uint64_t{1} << 32) * 144);
}

TEST(DType, ATypeIsFoundByItsIdUnderItsGgmlName) {
  int num_found = 0;
  for (uint32_t id = 0; id < 100; ++id) {
    const auto info = FindDType(id);
    if (!info) continue;
    ++num_found;
    EXPECT_EQ(static_cast<uint32_t>(info->dtype), id);
    EXPECT_EQ(info->name, GgmlTypeName(id));
    EXPECT_EQ(InfoOf(info->dtype).block_bytes, info->block_bytes);
    EXPECT_EQ(IsQuantized(info->dtype), info->block_elements > 1);
  }
  EXPECT_EQ(num_found, 11);
}

TEST(DType, NamesTypesItDoesNotComputeWith) {
  EXPECT_EQ(GgmlTypeName(10), "Q2_K");
  EXPECT_EQ(GgmlTypeName(23), "IQ4_XS");
  EXPECT_EQ(GgmlTypeName(39), "MXFP4");
  EXPECT_EQ(GgmlTypeName(40), "unknown");
  EXPECT_EQ(GgmlTypeName(0xffffffffu), "unknown");
  EXPECT_FALSE(FindDType(10).has_value());
}

}  // namespace
}  // namespace quire
