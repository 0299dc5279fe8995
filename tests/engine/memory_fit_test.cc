#include "engine/memory_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;

// 8 layers of 4 key heads of 64 elements: 8 KiB a token in f16, 128 KiB a block.
ModelShape Shape() {
  ModelShape shape;
  shape.config.d_model = 256;
  shape.config.vocab_size = 1000;
  shape.config.context_length = 4096;
  shape.config.layers.assign(
      8, {.num_heads = 4, .num_kv_heads = 4, .key_dim = 64, .value_dim = 64, .ffn_dim = 512});
  shape.weight_bytes = 10 * kMiB;
  return shape;
}

TEST(MemoryFit, AWholeContextFitsWhereThereIsMemory) {
  const auto fit = FitMemory(Shape(), {});
  ASSERT_TRUE(fit.ok()) << fit.error().message;
  EXPECT_EQ(fit->context_length, 4096);
  EXPECT_EQ(fit->num_blocks, 256);
  EXPECT_EQ(fit->layout.block_bytes, 128u << 10);
}

TEST(MemoryFit, MoreSequencesTakeMoreButNotOverHalfOfWhatIsLeft) {
  EXPECT_EQ(FitMemory(Shape(), {.num_sequences = 3})->num_blocks, 3 * 256);
  const auto fit = FitMemory(Shape(), {.num_sequences = 100, .available_bytes = 512 * kMiB});
  ASSERT_TRUE(fit.ok()) << fit.error().message;
  EXPECT_GE(fit->num_blocks, 256);
  EXPECT_LT(fit->num_blocks, 256 * 8);
}

TEST(MemoryFit, OfABudgetKeysAndValuesGetWhatTheRestLeaves) {
  const auto small = FitMemory(Shape(), {.budget_bytes = 128 * kMiB});
  const auto large = FitMemory(Shape(), {.budget_bytes = 160 * kMiB});
  ASSERT_TRUE(small.ok()) << small.error().message;
  ASSERT_TRUE(large.ok()) << large.error().message;
  // 128 KiB a block.
  EXPECT_EQ(large->num_blocks - small->num_blocks, 256);
  EXPECT_LT(small->num_blocks, 8 * 128);
  const auto short_of = FitMemory(
      Shape(), {.context_length = 4096, .available_bytes = 32 * kMiB, .budget_bytes = 160 * kMiB});
  ASSERT_FALSE(short_of.ok());
  EXPECT_EQ(short_of.error().code, ErrorCode::kResourceExhausted);
}

TEST(MemoryFit, WithoutAContextAskedForItIsAsLongAsFits) {
  const auto fit = FitMemory(Shape(), {.kv_bytes = 8 * kMiB});
  ASSERT_TRUE(fit.ok()) << fit.error().message;
  EXPECT_EQ(fit->num_blocks, 64);
  EXPECT_EQ(fit->context_length, 64 * 16);
  const auto small = FitMemory(Shape(), {.available_bytes = 40 * kMiB});
  ASSERT_TRUE(small.ok()) << small.error().message;
  EXPECT_GT(small->context_length, 0);
  EXPECT_LT(small->context_length, 4096);
}

TEST(MemoryFit, WhatCannotFitIsRefusedWithWhatWould) {
  const auto asked = FitMemory(Shape(), {.context_length = 2048, .kv_bytes = 8 * kMiB});
  ASSERT_FALSE(asked.ok());
  EXPECT_EQ(asked.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(asked.error().message, HasSubstr("2048 tokens takes 16777216 bytes"));
  EXPECT_THAT(asked.error().message, HasSubstr("1024 tokens would fit"));
  EXPECT_FALSE(FitMemory(Shape(), {.available_bytes = 5 * kMiB}).ok());
  const auto kv = FitMemory(Shape(), {.kv_bytes = 100 * kMiB, .available_bytes = 80 * kMiB});
  ASSERT_FALSE(kv.ok());
  EXPECT_THAT(kv.error().message, HasSubstr("--kv-size"));
}

TEST(MemoryFit, AContextBeyondTheModelsIsRefused) {
  EXPECT_EQ(FitMemory(Shape(), {.context_length = 4097}).error().code, ErrorCode::kInvalidArgument);
}

TEST(MemoryFit, AWindowIsNotChargedBeyondItself) {
  ModelShape shape = Shape();
  for (size_t i = 0; i < 6; ++i) shape.config.layers[i].window = 128;
  const auto fit = FitMemory(shape, {.max_batched_tokens = 64});
  ASSERT_TRUE(fit.ok()) << fit.error().message;
  // Four groups of two layers: one holds all 256 blocks, three at most 13 (a window of 128 before
  // a chunk of 64, at the worst place).
  EXPECT_EQ(fit->layout.num_groups(), 4);
  EXPECT_EQ(fit->num_blocks, 256 + 3 * 13);
}

}  // namespace
}  // namespace quire
