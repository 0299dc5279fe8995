// Products of the kernel sets: equal to the last bit, and near what the file's numbers give.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>

#include "kernels/avx2/kernels.h"
#include "kernels/avx512/kernels.h"
#include "kernels/kernel_set.h"
#include "kernels/packing.h"
#include "kernels/random_weights.h"

namespace quire {
namespace {

constexpr uint32_t kSeed = 20261129;

struct AlignedFree {
  void operator()(void* memory) const { std::free(memory); }
};

template <typename T>
std::unique_ptr<T[], AlignedFree> Aligned(size_t count) {
  const size_t bytes = (count * sizeof(T) + 127) / 64 * 64;
  void* memory = std::aligned_alloc(64, bytes);
  std::memset(memory, 0xa5, bytes);
  return std::unique_ptr<T[], AlignedFree>(static_cast<T*>(memory));
}

// Rows of activations and, when the set could quantise them, their int8 form.
struct Activations {
  std::vector<float> rows;
  QuantizedRows quantized;
  std::unique_ptr<int8_t[], AlignedFree> quants;
  std::unique_ptr<float[], AlignedFree> scales, scaled_sums;
  std::unique_ptr<int32_t[], AlignedFree> negated_sums;

  Activations(const KernelSet& set, std::vector<float> values, int num_rows, int num_cols)
      : rows(std::move(values)) {
    if (num_cols % kGroupColumns != 0) return;
    const size_t groups = static_cast<size_t>(num_rows) * (num_cols / kGroupColumns);
    quants = Aligned<int8_t>(groups * kGroupColumns);
    scales = Aligned<float>(groups);
    scaled_sums = Aligned<float>(groups);
    negated_sums = Aligned<int32_t>(groups * 2);
    quantized = {num_rows,     num_cols,          quants.get(),
                 scales.get(), scaled_sums.get(), negated_sums.get()};
    EXPECT_TRUE(set.quantize_rows(rows.data(), num_cols, &quantized));
  }
};

// The sets of this processor, with both products of AVX-512 where it has VNNI.
std::vector<KernelSet> Sets() {
  std::vector<KernelSet> sets;
  for (const KernelSet* set : AvailableKernels()) {
    sets.push_back(*set);
    if (set->matmul == avx512::Matmul) {
      sets.push_back(*set);
      sets.back().name = "avx512 without VNNI";
      sets.back().matmul = avx512::MatmulWithoutVnni;
    }
  }
  return sets;
}

// Row blocks in one call, or in calls of `piece` row blocks; out is surrounded by canaries.
std::vector<float> Product(const KernelSet& set, const PackedMatrix& matrix,
                           const Activations& activations, int num_rows, int piece = 1 << 30) {
  constexpr float kCanary = 12345.0f;
  const size_t stride = matrix.num_rows + 5;
  std::vector<float> out(num_rows * stride, kCanary);
  auto scratch = Aligned<std::byte>(MatmulScratchBytes(num_rows));
  const MatmulJob job = {.weights = &matrix,
                         .quantized = &activations.quantized,
                         .rows = activations.rows.data(),
                         .row_stride = static_cast<size_t>(matrix.num_cols),
                         .num_rows = num_rows,
                         .out = out.data(),
                         .out_stride = stride,
                         .scratch = scratch.get()};
  for (int begin = 0; begin < matrix.num_row_blocks();) {
    const int end =
        matrix.num_row_blocks() - begin < piece ? matrix.num_row_blocks() : begin + piece;
    set.matmul(job, begin, end);
    begin = end;
  }
  std::vector<float> result;
  for (int m = 0; m < num_rows; ++m) {
    for (size_t n = 0; n < stride; ++n) {
      if (n < static_cast<size_t>(matrix.num_rows)) {
        result.push_back(out[m * stride + n]);
      } else {
        EXPECT_EQ(out[m * stride + n], kCanary) << set.name << " wrote past column " << n;
      }
    }
  }
  return result;
}

std::string Describe(DType dtype, int num_outputs, int num_cols, int num_rows) {
  return std::string(InfoOf(dtype).name) + " [" + std::to_string(num_outputs) + ", " +
         std::to_string(num_cols) + "], " + std::to_string(num_rows) + " rows, seed " +
         std::to_string(kSeed);
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

struct Shape {
  int num_outputs, num_cols, num_rows;
};

class MatmulOfFormat : public testing::TestWithParam<DType> {
 protected:
  bool Takes(int num_cols) const {
    return num_cols % static_cast<int>(InfoOf(GetParam()).block_elements) == 0;
  }
};

TEST_P(MatmulOfFormat, GivesTheBitsOfTheReferenceInEverySet) {
  constexpr Shape kShapes[] = {{1, 32, 1},    {16, 96, 5},    {33, 256, 1},   {31, 256, 13},
                               {20, 640, 3},  {48, 1312, 2},  {17, 1312, 17}, {33, 2304, 20},
                               {9, 2304, 1},  {50, 768, 12},  {3, 4864, 8},   {64, 1024, 7},
                               {40, 512, 40}, {16, 8960, 9},  {35, 8960, 1},  {47, 2048, 16},
                               {32, 2560, 4}, {18, 2080, 19}, {5, 4128, 1},   {100, 256, 27}};
  const std::vector<KernelSet> sets = Sets();
  for (const Shape& shape : kShapes) {
    if (!Takes(shape.num_cols)) continue;
    SCOPED_TRACE(Describe(GetParam(), shape.num_outputs, shape.num_cols, shape.num_rows));
    std::mt19937 random(kSeed + shape.num_cols);
    const OwnedMatrix matrix(GetParam(), shape.num_outputs, shape.num_cols, Scales::kWild, random);
    const std::vector<float> rows =
        RandomRows(shape.num_rows, shape.num_cols, Scales::kWild, random);
    std::vector<float> expected;
    for (const KernelSet& set : sets) {
      const Activations activations(set, rows, shape.num_rows, shape.num_cols);
      const auto got = Product(set, matrix.view, activations, shape.num_rows);
      if (expected.empty()) expected = got;
      for (float value : got) ASSERT_TRUE(std::isfinite(value)) << set.name;
      EXPECT_TRUE(SameBits(got, expected)) << set.name;
    }
  }
}

// Byte products added in pairs of 16 bits would saturate first here.
TEST_P(MatmulOfFormat, GivesTheBitsOfTheReferenceForTheLargestCodesAndValues) {
  constexpr int kCols = 1280, kOutputs = 48;
  for (int num_rows : {1, 2, 4, 8, 35}) {
    std::mt19937 random(kSeed + num_rows);
    const OwnedMatrix matrix(GetParam(), kOutputs, kCols, Scales::kLargest, random);
    const std::vector<float> rows = RandomRows(num_rows, kCols, Scales::kLargest, random);
    std::vector<float> expected;
    for (const KernelSet& set : Sets()) {
      const auto got = Product(set, matrix.view, Activations(set, rows, num_rows, kCols), num_rows);
      if (expected.empty()) expected = got;
      EXPECT_TRUE(SameBits(got, expected)) << set.name << ", " << num_rows << " rows";
    }
  }
}

TEST_P(MatmulOfFormat, GivesARowTheSameBitsAloneAndInACrowd) {
  constexpr int kCols = 2304, kOutputs = 37, kCrowd = 29;
  std::mt19937 random(kSeed);
  const OwnedMatrix matrix(GetParam(), kOutputs, kCols, Scales::kWild, random);
  const std::vector<float> rows = RandomRows(kCrowd, kCols, Scales::kWild, random);
  for (const KernelSet& set : Sets()) {
    const auto crowd = Product(set, matrix.view, Activations(set, rows, kCrowd, kCols), kCrowd);
    for (int m = 0; m < kCrowd; ++m) {
      const std::vector<float> row(rows.begin() + m * kCols, rows.begin() + (m + 1) * kCols);
      const auto alone = Product(set, matrix.view, Activations(set, row, 1, kCols), 1);
      const std::vector<float> there(crowd.begin() + m * kOutputs,
                                     crowd.begin() + (m + 1) * kOutputs);
      EXPECT_TRUE(SameBits(alone, there)) << set.name << ", row " << m << ", seed " << kSeed;
    }
  }
}

TEST_P(MatmulOfFormat, GivesTheSameBitsHoweverRowBlocksAreSplit) {
  constexpr int kCols = 768, kOutputs = 165;
  std::mt19937 random(kSeed);
  const OwnedMatrix matrix(GetParam(), kOutputs, kCols, Scales::kWild, random);
  for (int num_rows : {1, 6, 18}) {
    const std::vector<float> rows = RandomRows(num_rows, kCols, Scales::kWild, random);
    for (const KernelSet& set : Sets()) {
      const Activations activations(set, rows, num_rows, kCols);
      const auto whole = Product(set, matrix.view, activations, num_rows);
      for (int piece : {1, 2, 3, 5}) {
        EXPECT_TRUE(SameBits(Product(set, matrix.view, activations, num_rows, piece), whole))
            << set.name << ", " << num_rows << " rows in pieces of " << piece;
      }
    }
  }
}

// int8 activations are off by at most half a step of absmax / 127 each; the sum of 2,304 products
// of independent errors stays within 1 % of the norms, and a wrong code, scale or order would not.
TEST_P(MatmulOfFormat, IsNearTheProductInDoublePrecision) {
  constexpr int kCols = 2304, kOutputs = 21, kRows = 3;
  std::mt19937 random(kSeed);
  const OwnedMatrix matrix(GetParam(), kOutputs, kCols, Scales::kTame, random);
  const std::vector<float> rows = RandomRows(kRows, kCols, Scales::kTame, random);
  const KernelSet& reference = *AvailableKernels().front();
  const auto got =
      Product(reference, matrix.view, Activations(reference, rows, kRows, kCols), kRows);
  std::vector<float> weights(kCols);
  for (int n = 0; n < kOutputs; ++n) {
    UnpackRow(matrix.view, n, weights.data());
    for (int m = 0; m < kRows; ++m) {
      double sum = 0, weights_square = 0, values_square = 0;
      for (int k = 0; k < kCols; ++k) {
        const double w = weights[k], x = rows[m * kCols + k];
        sum += w * x;
        weights_square += w * w;
        values_square += x * x;
      }
      const double norms = std::sqrt(weights_square * values_square);
      EXPECT_NEAR(got[m * kOutputs + n], sum, 0.01 * norms) << "row " << m << ", output " << n;
    }
  }
}

// 16-bit sums of Q6_K wrap around on their way and must come back: whole runs of -32 and 31 times
// activations of one sign, with the largest scales that a file can hold.
TEST(MatmulOfQ6K, GivesTheBitsOfTheReferenceForTheLargestCodesScalesAndValues) {
  constexpr int kCols = 1024, kOutputs = 32;
  constexpr int kBlockBytes = 210, kScaleBytes = 192, kHalfBytes = 208;
  const size_t row_bytes = RowBytes(DType::kQ6_K, kCols);
  std::mt19937 random(kSeed);
  std::vector<std::byte> file(kOutputs * row_bytes);
  for (size_t block = 0; block < file.size(); block += kBlockBytes) {
    std::memset(file.data() + block, random() % 2 == 0 ? 0x00 : 0xff, kScaleBytes);
    for (int i = kScaleBytes; i < kHalfBytes; ++i) {
      file[block + i] = static_cast<std::byte>(random() % 4 == 0 ? 127 : -128);
    }
    constexpr uint16_t kOne = 0x3c00;
    std::memcpy(file.data() + block + kHalfBytes, &kOne, sizeof(kOne));
  }
  PackedMatrix matrix{DType::kQ6_K, kOutputs, kCols};
  auto memory = Aligned<std::byte>(matrix.bytes());
  matrix.data = memory.get();
  for (int b = 0; b < matrix.num_row_blocks(); ++b) {
    PackRowBlock(DType::kQ6_K, file.data() + b * kPackRows * row_bytes, row_bytes, kPackRows, kCols,
                 memory.get() + b * matrix.row_block_bytes());
  }
  for (int num_rows : {1, 7, 8, 15, 34}) {
    const std::vector<float> rows = RandomRows(num_rows, kCols, Scales::kLargest, random);
    std::vector<float> expected;
    for (const KernelSet& set : Sets()) {
      const auto got = Product(set, matrix, Activations(set, rows, num_rows, kCols), num_rows);
      if (expected.empty()) expected = got;
      EXPECT_TRUE(SameBits(got, expected)) << set.name << ", " << num_rows << " rows";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, MatmulOfFormat, testing::ValuesIn(kAllDTypes),
                         [](const auto& info) { return std::string(InfoOf(info.param).name); });

TEST(QuantizeRows, GivesTheBytesOfTheReferenceInEverySet) {
  const auto sets = AvailableKernels();
  for (int num_cols : {32, 96, 1312}) {
    for (int num_rows = 1; num_rows <= 20; ++num_rows) {
      std::mt19937 random(kSeed + num_rows);
      const auto rows = RandomRows(num_rows, num_cols, Scales::kWild, random);
      const Activations expected(*sets.front(), rows, num_rows, num_cols);
      for (const KernelSet* set : sets) {
        SCOPED_TRACE(std::string(set->name) + ", " + std::to_string(num_rows) + " rows of " +
                     std::to_string(num_cols) + ", seed " + std::to_string(kSeed));
        const Activations got(*set, rows, num_rows, num_cols);
        const size_t groups = static_cast<size_t>(num_rows) * num_cols / kGroupColumns;
        EXPECT_EQ(std::memcmp(got.quants.get(), expected.quants.get(), groups * 32), 0);
        EXPECT_EQ(std::memcmp(got.scales.get(), expected.scales.get(), groups * 4), 0);
        EXPECT_EQ(std::memcmp(got.scaled_sums.get(), expected.scaled_sums.get(), groups * 4), 0);
        EXPECT_EQ(std::memcmp(got.negated_sums.get(), expected.negated_sums.get(), groups * 8), 0);
      }
    }
  }
}

TEST(QuantizeRows, RoundsTiesToEvenAndStaysWithin127) {
  for (const KernelSet* set : AvailableKernels()) {
    std::vector<float> row(32, 0.0f);
    row[0] = -127.0f;  // absmax, so that a step is 1
    row[1] = 0.5f;
    row[2] = 1.5f;
    row[3] = -2.5f;
    row[17] = 126.5f;
    const Activations got(*set, row, 1, 32);
    const std::vector<int> first(got.quants.get(), got.quants.get() + 4);
    EXPECT_THAT(first, testing::ElementsAre(-127, 0, 2, -2)) << set->name;
    EXPECT_EQ(got.quants[17], 126) << set->name;
    EXPECT_EQ(got.scales[0], 1.0f);
    EXPECT_EQ(got.negated_sums[0], 127);
    EXPECT_EQ(got.negated_sums[1], -126);
    EXPECT_EQ(got.scaled_sums[0], -1.0f);
  }
}

TEST(QuantizeRows, RefusesNanAndInfinityWhereverTheyAre) {
  constexpr float kBad[] = {
      std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN(),
      std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()};
  constexpr int kRows = 15, kCols = 64;
  auto quants = Aligned<int8_t>(kRows * kCols);
  auto floats = Aligned<float>(kRows * kCols);
  auto ints = Aligned<int32_t>(kRows * kCols);
  for (const KernelSet* set : AvailableKernels()) {
    for (float bad : kBad) {
      for (int at = 0; at < kRows * kCols; at += 5) {
        std::vector<float> rows(kRows * kCols, 1.0f);
        rows[at] = bad;
        QuantizedRows out = {kRows, kCols, quants.get(), floats.get(), floats.get(), ints.get()};
        EXPECT_FALSE(set->quantize_rows(rows.data(), kCols, &out)) << set->name << " at " << at;
      }
    }
  }
}

TEST(QuantizeRows, GroupsCanBeQuantisedInAnyPieces) {
  constexpr int kRows = 15, kCols = 160;
  std::mt19937 random(kSeed);
  const auto rows = RandomRows(kRows, kCols, Scales::kWild, random);
  for (const KernelSet* set : AvailableKernels()) {
    const Activations expected(*set, rows, kRows, kCols);
    const Activations got(*set, std::vector<float>(kRows * kCols, 1.0f), kRows, kCols);
    for (const int group : {3, 0, 4, 1}) {
      const int end = group + (group == 1 ? 2 : 1);
      EXPECT_TRUE(set->quantize_groups(rows.data(), kCols, group, end, got.quantized));
    }
    const size_t groups = kRows * kCols / kGroupColumns;
    EXPECT_EQ(std::memcmp(got.quants.get(), expected.quants.get(), groups * 32), 0) << set->name;
    EXPECT_EQ(std::memcmp(got.scales.get(), expected.scales.get(), groups * 4), 0);
    EXPECT_EQ(std::memcmp(got.scaled_sums.get(), expected.scaled_sums.get(), groups * 4), 0);
    EXPECT_EQ(std::memcmp(got.negated_sums.get(), expected.negated_sums.get(), groups * 8), 0);
  }
}

TEST(KernelSets, ThatThisProcessorRuns) {
  std::string names;
  for (const KernelSet* set : AvailableKernels()) names.append(" ").append(set->name);
  std::printf("kernel sets compared:%s\n", names.c_str());
  EXPECT_EQ(AvailableKernels().front()->name, "reference");
  EXPECT_TRUE(SelectKernels("").ok());
  EXPECT_FALSE(SelectKernels("avx9000").ok());
}

}  // namespace
}  // namespace quire
