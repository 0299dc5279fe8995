// What calculators of other projects have got wrong, with the right figures.
#include "plan/plan_fixture.h"

namespace quire {
namespace {

using namespace testing;
using ::testing::HasSubstr;

constexpr char kLlama8b[] = R"({"model_type": "llama", "num_hidden_layers": 32,
    "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16"})";

// 26 layers, every sixth of which sees everything: 4 full and 22 with a window.
constexpr char kWindowed[] = R"({"model_type": "gemma3_text", "num_hidden_layers": 26,
    "hidden_size": 1152, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256,
    "intermediate_size": 6912, "vocab_size": 262144, "max_position_embeddings": 32768,
    "sliding_window": 512, "sliding_window_pattern": 6})";

TEST(CapacityCases, KeyHeadsCountAndNotQueryHeads) {
  const KvCost cost = Cost(ShapeOfJson(kLlama8b));
  EXPECT_EQ(cost.BytesPerToken(), 131'072u);
  EXPECT_EQ(cost.FormulaBytes(8192), kGiB);
}

TEST(CapacityCases, TheHeadDimensionIsReadAndNotDerived) {
  const ModelShape shape = ShapeOfJson(
      R"({"model_type": "qwen3", "hidden_size": 2560, "num_attention_heads": 32, "head_dim": 128,
          "num_key_value_heads": 8, "num_hidden_layers": 36})");
  const KvCost cost = Cost(shape, "bf16");
  EXPECT_EQ(cost.BytesPerToken(), 147'456u);
  EXPECT_EQ(cost.FormulaBytes(40'960), kGiB * 5625 / 1000);
  EXPECT_EQ(Cost(Preset("qwen3-4b")).BytesPerToken(), 147'456u);
}

TEST(CapacityCases, AWindowIsChargedOnceAndNotForTheWholeContext) {
  const KvCost cost = Cost(ShapeOfJson(kWindowed));
  EXPECT_EQ(cost.FormulaBytes(32'768), 145'752'064u);
  EXPECT_EQ(145'752'064u, 139 * kMiB);
}

TEST(CapacityCases, BlocksOfAWindowAreOneMoreThanItFillsAndTheChunk) {
  const KvCost cost = Cost(ShapeOfJson(kWindowed));
  // Groups of two layers: 2 full ones of 2048 blocks, 11 with a window. A token a step sees 512
  // positions, which lie in 33 blocks at the worst.
  EXPECT_EQ(cost.layout().num_groups(), 13);
  EXPECT_EQ(cost.Blocks(32'768, 1), 2 * 2048 + 11 * 33);
  // 256 tokens a step: 511 + 256 positions lie in 49 blocks.
  EXPECT_EQ(cost.Blocks(32'768, 256), 2 * 2048 + 11 * 49);
  EXPECT_EQ(cost.BytesPerBlock(), 2u * 16 * 2 * 256 * 2);
  // Both are the layout's own figures, which the engine allocates by.
  EXPECT_EQ(cost.BlockBytes(32'768, 256),
            cost.layout().PeakBlocks(32'768, 256) * cost.layout().block_bytes);
  EXPECT_EQ(cost.FormulaBytes(32'768), cost.layout().FormulaBytes(32'768));
}

TEST(CapacityCases, TheElementTypeCountsInBothDirections) {
  const ModelShape shape = ShapeOfJson(kLlama8b);
  EXPECT_EQ(Cost(shape, "fp8").FormulaBytes(8192), 512 * kMiB);
  EXPECT_EQ(Cost(shape, "q8_0").FormulaBytes(8192), 544 * kMiB);
  EXPECT_EQ(Cost(shape, "q4_0").FormulaBytes(8192), 288 * kMiB);
  EXPECT_TRUE(FindKvElement("fp8")->planned_only());
  EXPECT_TRUE(FindKvElement("q4_0")->planned_only());
  EXPECT_FALSE(FindKvElement("q8_0")->planned_only());
  for (const std::string_view element : {"f16", "f32", "q8_0", "fp8", "q4_0"}) {
    const KvCost cost = Cost(shape, element);
    EXPECT_EQ(cost.LargestContext(KvBasis::kFormula, cost.FormulaBytes(8192), 1, 256), 8192)
        << element;
    EXPECT_EQ(cost.LargestContext(KvBasis::kBlocks, cost.FormulaBytes(8192), 1, 256), 8192)
        << element;
  }
}

TEST(CapacityCases, GptNamesAndMultiQueryAreUnderstood) {
  const KvCost many = Cost(ShapeOfJson(R"({"n_layer": 12, "n_embd": 768, "n_head": 12})"));
  EXPECT_EQ(many.FormulaBytes(8192), 301'989'888u);
  const KvCost one =
      Cost(ShapeOfJson(R"({"n_layer": 24, "n_embd": 2048, "n_head": 16, "multi_query": true})"));
  EXPECT_EQ(one.FormulaBytes(8192), 100'663'296u);
  const KvCost null = Cost(
      ShapeOfJson(R"({"n_layer": 12, "n_embd": 768, "n_head": 12, "num_key_value_heads": null})"));
  EXPECT_EQ(null.FormulaBytes(8192), 301'989'888u);
}

TEST(CapacityCases, ConcurrencyIsAboutWholeRequestsAtFullLength) {
  const KvCost cost = Cost(ShapeOfJson(kLlama8b));
  const auto there =
      PlanConcurrency(cost, 302'921 * cost.BytesPerToken(), {.context_tokens = 131'072});
  ASSERT_TRUE(there.ok()) << there.error().message;
  EXPECT_NEAR(there->worst_case_ratio, 2.31, 0.005);
  EXPECT_EQ(there->worst_case, 2);
  EXPECT_GT(there->expected, 100);  // of the usual, much shorter ones
}

TEST(CapacityCases, ATierIsSizedByTheBytesOfAToken) {
  const auto bf16_layers = [](int num_layers) {
    return Cost(ShapeOfJson(fmt::format(
                    R"({{"num_hidden_layers": {}, "hidden_size": 4096, "num_attention_heads": 32,
                        "num_key_value_heads": 8, "head_dim": 128}})",
                    num_layers)),
                "bf16");
  };
  EXPECT_EQ(bf16_layers(62).BytesPerToken(), 253'952u);
  EXPECT_EQ(bf16_layers(62).FormulaBytes(47'000), 11'935'744'000u);
  EXPECT_EQ(bf16_layers(36).BytesPerToken(), 147'456u);
  EXPECT_EQ(bf16_layers(36).FormulaBytes(118), 16'992 * kKiB);
}

TEST(CapacityCases, GigabytesAreNotGibibytes) {
  const KvCost cost = Cost(ShapeOfJson(kLlama8b));
  EXPECT_EQ(cost.LargestContext(KvBasis::kFormula, 8'000'000'000, 1, 256), 61'035);
  EXPECT_EQ(cost.LargestContext(KvBasis::kFormula, 8 * kGiB, 1, 256), 65'536);
  EXPECT_EQ(cost.LargestContext(KvBasis::kBlocks, 8'000'000'000, 1, 256), 61'024);
}

TEST(CapacityCases, AGroupThatMayBeACountOrASizeIsRefused) {
  for (const std::string name : {"num_kv_groups", "n_kv_groups", "kv_n_heads", "gqa_factor",
                                 "num_query_groups", "num_key_value_groups"}) {
    const auto config = ParseHfConfig(
        fmt::format(R"({{"num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
                        "{}": 8}})",
                    name),
        "config.json");
    ASSERT_FALSE(config.ok()) << name;
    EXPECT_EQ(config.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(config.error().message, HasSubstr(name));
    EXPECT_THAT(config.error().message, HasSubstr("num_key_value_heads"));
  }
}

TEST(CapacityCases, TheInverseAgreesWithTheForwardAnswer) {
  const KvCost cost = Cost(ShapeOfJson(kWindowed));
  EXPECT_EQ(cost.LargestContext(KvBasis::kFormula, 139 * kMiB, 1, 256), 32'768);
  EXPECT_EQ(cost.LargestContext(KvBasis::kFormula, 300 * kMiB, 1, 256), 73'984);
  for (const KvBasis basis : {KvBasis::kFormula, KvBasis::kBlocks}) {
    for (const uint64_t budget : {uint64_t{1}, kMiB, 11 * kMiB, 139 * kMiB, 300 * kMiB}) {
      const int context = cost.LargestContext(basis, budget, 3, 64);
      EXPECT_LE(3 * cost.Bytes(basis, context, 64), budget);
      EXPECT_GT(3 * cost.Bytes(basis, context + 1, 64), budget);
    }
  }
}

}  // namespace
}  // namespace quire
