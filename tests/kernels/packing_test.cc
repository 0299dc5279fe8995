#include "kernels/packing.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/random_weights.h"
#include "tensor/dequantize.h"

namespace quire {
namespace {

constexpr uint32_t kSeed = 7;

class PackingOfFormat : public testing::TestWithParam<DType> {};

TEST_P(PackingOfFormat, KeepsEveryValueOfEveryRow) {
  for (int num_cols : {32, 96, 256, 1280}) {
    if (num_cols % static_cast<int>(InfoOf(GetParam()).block_elements) != 0) continue;
    for (int num_rows : {1, 15, 16, 37}) {
      std::mt19937 random(kSeed);
      const OwnedMatrix matrix(GetParam(), num_rows, num_cols, Scales::kWild, random);
      const size_t row_bytes = RowBytes(GetParam(), num_cols);
      std::vector<float> expected(num_cols), got(num_cols);
      for (int row = 0; row < num_rows; ++row) {
        DequantizeRow(GetParam(), matrix.file.data() + row * row_bytes, num_cols, expected.data());
        UnpackRow(matrix.view, row, got.data());
        for (int k = 0; k < num_cols; ++k) {
          ASSERT_EQ(got[k], expected[k]) << "row " << row << " of " << num_rows << ", column " << k
                                         << " of " << num_cols << ", seed " << kSeed;
        }
      }
    }
  }
}

TEST_P(PackingOfFormat, WritesEveryByteAndNothingThatVaries) {
  constexpr int kRows = 5, kCols = 256;
  std::mt19937 random(kSeed);
  const auto file = RandomFileRows(GetParam(), kRows, kCols, Scales::kWild, random);
  const size_t size = PackedRowBlockBytes(GetParam(), kCols);
  std::vector<std::byte> first(size, std::byte{0x00}), second(size, std::byte{0xff});
  for (auto* out : {&first, &second}) {
    PackRowBlock(GetParam(), file.data(), RowBytes(GetParam(), kCols), kRows, kCols, out->data());
  }
  EXPECT_EQ(first, second);
}

TEST_P(PackingOfFormat, FillsRowsPastTheEndWithZeros) {
  constexpr int kCols = 256;
  std::mt19937 random(kSeed);
  const OwnedMatrix matrix(GetParam(), 3, kCols, Scales::kTame, random);
  PackedMatrix padded = matrix.view;
  padded.num_rows = kPackRows;
  std::vector<float> row(kCols, 1.0f);
  for (int n = 3; n < kPackRows; ++n) {
    UnpackRow(padded, n, row.data());
    for (float value : row) ASSERT_EQ(value, 0.0f) << "row " << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, PackingOfFormat, testing::ValuesIn(kAllDTypes),
                         [](const auto& info) { return std::string(InfoOf(info.param).name); });

TEST(Packing, LaysQ8_0OutAsTheHeaderSays) {
  // One row of one block: d = 1, values 0..31.
  std::vector<std::byte> file(34);
  const uint16_t one = 0x3c00;
  std::memcpy(file.data(), &one, 2);
  for (int i = 0; i < 32; ++i) file[2 + i] = static_cast<std::byte>(i);
  std::vector<std::byte> out(PackedRowBlockBytes(DType::kQ8_0, 32));
  PackRowBlock(DType::kQ8_0, file.data(), file.size(), 1, 32, out.data());
  EXPECT_EQ(out.size(), 64u + 2 * 512u);
  EXPECT_EQ(out[1], std::byte{0x3c});
  for (int k = 0; k < 32; ++k) {
    // Step k / 4, row 0, byte k % 4.
    EXPECT_EQ(out[64 + k / 4 * 64 + k % 4], static_cast<std::byte>(128 + k));
  }
}

}  // namespace
}  // namespace quire
