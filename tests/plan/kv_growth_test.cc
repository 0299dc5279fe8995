#include "plan/kv_growth.h"

#include <algorithm>

#include "plan/explain_json.h"
#include "plan/plan_fixture.h"

namespace quire::testing {
namespace {

using ::testing::HasSubstr;

KvGrowth Growth(const ModelShape& shape, const GrowthOptions& options = {},
                std::string_view element = "f16") {
  auto growth = MakeKvGrowth(shape.config, *FindKvElement(element), options);
  QUIRE_CHECK(growth.ok(), "{}", growth.error().message);
  return *std::move(growth);
}

const GrowthSeries* Find(const KvGrowth& growth, std::string_view name) {
  const auto series = std::ranges::find(growth.series, name, &GrowthSeries::name);
  return series == growth.series.end() ? nullptr : &*series;
}

const GrowthSeries& Series(const KvGrowth& growth, std::string_view name) {
  const GrowthSeries* series = Find(growth, name);
  QUIRE_CHECK(series != nullptr, "no series {}", name);
  return *series;
}

// 30 layers, 9 query heads on 3 key heads of 64 elements.
TEST(KvGrowth, OfSmolLm2IsWhatTheFormulaSays) {
  const KvGrowth growth = Growth(Preset("smollm2-135m"), {.max_tokens = 8192, .num_points = 5});
  EXPECT_EQ(growth.bytes_per_token, 30u * 3 * (64 + 64) * 2);
  EXPECT_EQ(growth.tokens, (std::vector<int>{0, 2048, 4096, 6144, 8192}));
  EXPECT_EQ(Series(growth, "formula").bytes,
            (std::vector<uint64_t>{0, 47185920, 94371840, 141557760, 188743680}));
  ASSERT_EQ(growth.terms.size(), 1u);
  EXPECT_EQ(growth.terms[0].num_layers, 30);
  EXPECT_EQ(growth.terms[0].bytes_per_token, growth.bytes_per_token);
  EXPECT_EQ(Series(growth, "multi_head").bytes.back(), 3u * 188743680);
  EXPECT_EQ(Series(growth, "grouped").bytes.back(), 188743680u);
  EXPECT_EQ(Series(growth, "multi_query").bytes.back(), 188743680u / 3);
  EXPECT_EQ(Series(growth, "window").bytes.back(), 512u * growth.bytes_per_token);
  EXPECT_EQ(Series(growth, "type_q8_0").bytes.back(), 188743680u / 64 * 34);
  EXPECT_EQ(Series(growth, "type_f32").bytes.back(), 188743680u * 2);
  EXPECT_EQ(Find(growth, "type_f16"), nullptr);
}

TEST(KvGrowth, IsThePlansCostAtEveryPoint) {
  for (const std::string name : {"gemma-3-270m", "llama-3-8b", "mistral-7b"}) {
    for (const std::string_view element : {"f16", "q8_0", "fp8"}) {
      const ModelShape shape = Preset(name);
      const KvGrowth growth =
          Growth(shape, {.max_tokens = 10'000, .num_points = 41, .chunk = 256}, element);
      const KvCost cost = Cost(shape, element);
      for (size_t i = 0; i < growth.tokens.size(); ++i) {
        const int tokens = growth.tokens[i];
        EXPECT_EQ(Series(growth, "formula").bytes[i], cost.FormulaBytes(tokens));
        EXPECT_EQ(Series(growth, "blocks").bytes[i], cost.BlockBytes(tokens, 256));
      }
      EXPECT_EQ(growth.block_bytes, cost.BytesPerBlock());
    }
  }
}

// 15 of 18 layers keep the last 512 tokens.
TEST(KvGrowth, OfWindowedLayersStopsWhereTheWindowIsFull) {
  const KvGrowth growth = Growth(Preset("gemma-3-270m"), {.max_tokens = 4096, .num_points = 9});
  ASSERT_EQ(growth.terms.size(), 2u);
  EXPECT_EQ(growth.terms[0].num_layers, 15);
  EXPECT_EQ(growth.terms[0].window, 512);
  const uint64_t layer = 1 * (256 + 256) * 2;
  EXPECT_EQ(Series(growth, "formula").bytes.back(), 3 * layer * 4096 + 15 * layer * 512);
  EXPECT_EQ(Series(growth, "grouped").bytes.back(), 18 * layer * 4096);
  EXPECT_EQ(Find(growth, "window"), nullptr);  // the model has some of its own
}

TEST(KvGrowth, LeavesTypesOutThatCannotStoreTheHeads) {
  ModelShape shape = Preset("smollm2-135m");
  for (LayerConfig& layer : shape.config.layers) layer.key_dim = 40;
  const KvGrowth growth = Growth(shape);
  EXPECT_EQ(Find(growth, "type_q8_0"), nullptr);
  EXPECT_NE(Find(growth, "type_fp8"), nullptr);
}

std::string Refusal(const ModelShape& shape, const GrowthOptions& options) {
  const auto growth = MakeKvGrowth(shape.config, *FindKvElement("f16"), options);
  return growth.ok() ? "accepted" : growth.error().message;
}

TEST(KvGrowth, RefusesOptionsOutOfRange) {
  const ModelShape shape = Preset("smollm2-135m");
  EXPECT_THAT(Refusal(shape, {.max_tokens = -1}), HasSubstr("expected 0 to"));
  EXPECT_THAT(Refusal(shape, {.num_points = 1}), HasSubstr("expected 2 to"));
  EXPECT_THAT(Refusal(shape, {.chunk = 0}), HasSubstr("steps of 0 tokens"));
  ModelShape endless = shape;
  endless.config.context_length = 0;
  EXPECT_THAT(Refusal(endless, {}), HasSubstr("say how many tokens"));
}

TEST(KvGrowth, OfFewTokensHasNoPointTwice) {
  EXPECT_EQ(Growth(Preset("smollm2-135m"), {.max_tokens = 3}).tokens,
            (std::vector<int>{0, 1, 2, 3}));
}

TEST(ExplainJson, SpellsWholeNumbersAndWrapsAView) {
  const auto graph = MakeModelGraph(Preset("smollm2-135m"), {});
  ASSERT_TRUE(graph.ok());
  const std::string json = ModelGraphAsJson(*graph);
  EXPECT_THAT(json, HasSubstr(R"("parameters":134515008,)"));
  EXPECT_THAT(json, HasSubstr(R"("kv_bytes_per_token":23040,)"));
  EXPECT_EQ(PageData("growth", R"({"tokens":[]})"), R"({"view":"growth","growth":{"tokens":[]}})");
  EXPECT_THAT(KvGrowthAsJson(Growth(Preset("smollm2-135m"))),
              HasSubstr(R"("terms":[{"layers":30)"));
}

}  // namespace
}  // namespace quire::testing
