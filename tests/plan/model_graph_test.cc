#include "plan/model_graph.h"

#include <algorithm>
#include <filesystem>

#include "formats/gguf.h"
#include "models/weights.h"
#include "plan/plan_fixture.h"
#include "support/scratch_directory.h"
#include "support/tiny_llama.h"

namespace quire::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelGraph Graph(const ModelShape& shape, const GraphOptions& options = {}) {
  auto graph = MakeModelGraph(shape, options);
  QUIRE_CHECK(graph.ok(), "{}", graph.error().message);
  return *std::move(graph);
}

const GraphStage& Stage(const GraphPart& part, std::string_view name) {
  const auto stage = std::ranges::find(part.stages, name, &GraphStage::name);
  QUIRE_CHECK(stage != part.stages.end(), "no stage {}", name);
  return *stage;
}

std::vector<std::string_view> StageNames(const GraphPart& part) {
  std::vector<std::string_view> names;
  for (const GraphStage& stage : part.stages) names.push_back(stage.name);
  return names;
}

ModelShape ShapeOfTiny(const TinyLlama& model) {
  const ScratchDirectory directory;
  EXPECT_TRUE(model.Write(directory.path() / "model.gguf"));
  const auto file = GgufFile::Open(directory.path() / "model.gguf");
  QUIRE_CHECK(file.ok(), "{}", file.error().message);
  auto shape = ShapeOfFile(*file);
  QUIRE_CHECK(shape.ok(), "{}", shape.error().message);
  return *std::move(shape);
}

// Two layers of width 64: 4 query heads on 2 key heads of 16 elements, a feed-forward network of
// 64, a vocabulary of 64 with an output layer of its own, all F32.
TEST(ModelGraph, HasTheNumbersOfASmallModelComputedByHand) {
  const ModelGraph graph =
      Graph(ShapeOfTiny(TinyLlama({})), {.prefill_tokens = 10, .decode_position = 20});
  EXPECT_EQ(graph.parameters,
            64u * 64 + 2 * (2 * 64 + 2 * 64 * 64 + 2 * 32 * 64 + 3 * 64 * 64) + 64 + 64 * 64);
  ASSERT_EQ(graph.parts.size(), 3u);
  const GraphPart& layers = graph.parts[1];
  EXPECT_THAT(layers.layers, ElementsAre(0, 1));
  EXPECT_THAT(StageNames(layers),
              ElementsAre("attention_norm", "query", "key", "value", "rope", "store_kv", "scores",
                          "softmax", "weighted_values", "attention_output", "attention_residual",
                          "ffn_norm", "gate", "up", "activation", "down", "ffn_residual"));

  const GraphStage& query = Stage(layers, "query");
  EXPECT_THAT(query.tensors.front().shape, ElementsAre(64, 64));
  EXPECT_THAT(query.prefill.output, ElementsAre(10, 4, 16));
  EXPECT_THAT(query.decode.output, ElementsAre(1, 4, 16));
  EXPECT_EQ(query.prefill.cost.f32_ops, 2 * 2.0 * 64 * 64 * 10);
  EXPECT_EQ(query.decode.cost.weight_bytes, 2.0 * 64 * 64 * 4);

  // Queries at 0..9 read 1 + 2 + ... + 10 keys; the query at 20 reads 21.
  const GraphStage& scores = Stage(layers, "scores");
  EXPECT_THAT(scores.prefill.output, ElementsAre(4, 10, 10));
  EXPECT_THAT(scores.decode.output, ElementsAre(4, 1, 21));
  EXPECT_EQ(scores.prefill.cost.f32_ops, 2 * 2.0 * 4 * 16 * 55);
  EXPECT_EQ(scores.decode.cost.f32_ops, 2 * 2.0 * 4 * 16 * 21);
  EXPECT_EQ(scores.decode.cost.kv_bytes, 2 * 2.0 * 16 * 2 * 21);
  EXPECT_EQ(Stage(layers, "softmax").decode.elementwise_ops, 2 * 5.0 * 4 * 21);
  EXPECT_EQ(Stage(layers, "store_kv").prefill.cost.kv_bytes, 2 * 10 * 2 * (16 + 16) * 2.0);
  EXPECT_THAT(Stage(graph.parts[2], "output").prefill.output, ElementsAre(1, 64));
  EXPECT_EQ(graph.kv_bytes_per_token, 2 * 2 * (16 + 16) * 2.0);
}

// A step's cost, whose own numbers are tested by themselves.
StepCost CostOfFile(const GgufFile& file, int first_position, int num_tokens) {
  const auto config = ReadModelConfig(file);
  QUIRE_CHECK(config.ok(), "{}", config.error().message);
  const auto plan = PlanWeights(file, *config);
  QUIRE_CHECK(plan.ok(), "{}", plan.error().message);
  const std::vector<std::byte> packed(plan->packed_bytes);
  const Weights weights = BindWeights(*plan, config->num_layers(), packed.data());
  return CostOfStep(*config, weights, KvType::kF16, first_position, num_tokens, 1);
}

void ExpectSame(const StepCost& a, const StepCost& b) {
  EXPECT_EQ(a.int8_ops, b.int8_ops);
  EXPECT_EQ(a.f32_ops, b.f32_ops);
  EXPECT_EQ(a.weight_bytes, b.weight_bytes);
  EXPECT_EQ(a.kv_bytes, b.kv_bytes);
}

TEST(ModelGraph, AddsUpToTheParametersTheBytesAndTheStepsOfEveryFamily) {
  int num_models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(QUIRE_TESTS_DIR "/golden/models")) {
    SCOPED_TRACE(entry.path().filename().string());
    const auto file = GgufFile::Open(entry.path());
    ASSERT_TRUE(file.ok()) << file.error().message;
    const auto shape = ShapeOfFile(*file);
    ASSERT_TRUE(shape.ok()) << shape.error().message;
    const ModelGraph graph = Graph(*shape, {.prefill_tokens = 37, .decode_position = 50});
    EXPECT_EQ(graph.parameters, shape->parameters);
    EXPECT_EQ(graph.held_bytes, shape->weight_bytes);
    ExpectSame(graph.prefill, CostOfFile(*file, 0, 37));
    ExpectSame(graph.decode, CostOfFile(*file, 50, 1));
    ++num_models;
  }
  EXPECT_GE(num_models, 8);
}

TEST(ModelGraph, PlacesTheNormsOfTheClassicModelAfterTheResiduals) {
  const auto file = GgufFile::Open(QUIRE_TESTS_DIR "/golden/models/tiny-classic.gguf");
  ASSERT_TRUE(file.ok());
  const auto shape = ShapeOfFile(*file);
  ASSERT_TRUE(shape.ok());
  const ModelGraph graph = Graph(*shape);
  EXPECT_THAT(StageNames(graph.parts[0]), ElementsAre("token_embedding", "position_embedding"));
  EXPECT_THAT(
      StageNames(graph.parts[1]),
      ElementsAre("query", "key", "value", "store_kv", "scores", "softmax", "weighted_values",
                  "attention_output", "attention_residual", "attention_norm", "up", "activation",
                  "down", "ffn_residual", "ffn_norm"));
  EXPECT_EQ(Stage(graph.parts[1], "activation").formula, "relu(up)");
}

TEST(ModelGraph, OfAPublishedShapeHasThePublishedParameters) {
  EXPECT_EQ(Graph(Preset("smollm2-135m")).parameters, 134'515'008u);
  for (const std::string_view name : PresetNames()) {
    SCOPED_TRACE(name);
    const ModelShape shape = Preset(std::string(name));
    const ModelGraph graph = Graph(shape);
    EXPECT_EQ(graph.parameters, shape.parameters);
    EXPECT_EQ(graph.held_bytes, shape.weight_bytes);
  }
}

TEST(ModelGraph, PartsLayersByWhatTheyKeep) {
  const ModelGraph graph =
      Graph(Preset("gemma-3-270m"), {.prefill_tokens = 2048, .decode_position = 4096});
  ASSERT_EQ(graph.parts.size(), 4u);
  const GraphPart& windowed = graph.parts[1];
  const GraphPart& full = graph.parts[2];
  EXPECT_EQ(windowed.num_layers(), 15);
  EXPECT_THAT(full.layers, ElementsAre(5, 11, 17));
  EXPECT_EQ(RangesText(windowed.layers), "0-4, 6-10, 12-16");
  EXPECT_THAT(Stage(windowed, "scores").decode.output, ElementsAre(4, 1, 512));
  EXPECT_THAT(Stage(full, "scores").decode.output, ElementsAre(4, 1, 4097));
  EXPECT_THAT(Stage(full, "query_key_norm").tensors.front().shape, ElementsAre(256));
  EXPECT_EQ(Stage(full, "attention_post_norm").parameters, 3u * 640);
}

TEST(ModelGraph, ATiedOutputLayerReadsTheEmbeddingAndHoldsNothing) {
  const ModelGraph graph = Graph(Preset("smollm2-135m"));
  EXPECT_TRUE(graph.is_tied);
  const GraphStage& output = Stage(graph.parts.back(), "output");
  EXPECT_EQ(output.parameters, 0u);
  EXPECT_EQ(output.held_bytes, 0u);
  EXPECT_EQ(output.decode.cost.weight_bytes, 49152.0 * 576 * 2);
  EXPECT_FALSE(Graph(Preset("llama-3-8b")).is_tied);
}

TEST(ModelGraph, TellsTheTypesOfLayersThatAreAlikeOtherwise) {
  ModelShape shape = ShapeOfTiny(TinyLlama({.matrices = DType::kQ8_0}));
  auto value = std::ranges::find(shape.tensors, WeightRole::kValue, &ModelTensor::role);
  ASSERT_NE(value, shape.tensors.end());
  value->type = "F16";
  value->is_quantized = false;
  const ModelGraph graph = Graph(shape, {.prefill_tokens = 1});
  ASSERT_EQ(graph.parts.size(), 3u);
  const GraphStage& stage = Stage(graph.parts[1], "value");
  ASSERT_EQ(stage.tensors.size(), 1u);
  ASSERT_EQ(stage.tensors[0].types.size(), 2u);
  EXPECT_EQ(stage.tensors[0].types[0].type, "F16");
  EXPECT_EQ(stage.tensors[0].types[1].num_tensors, 1);
  EXPECT_EQ(stage.prefill.cost.f32_ops, stage.prefill.cost.int8_ops);
}

std::string Refusal(const ModelShape& shape, const GraphOptions& options) {
  const auto graph = MakeModelGraph(shape, options);
  return graph.ok() ? "accepted" : graph.error().message;
}

TEST(ModelGraph, RefusesWhatItCannotTell) {
  const ModelShape smollm = Preset("smollm2-135m");
  EXPECT_THAT(Refusal(smollm, {.prefill_tokens = 0}), HasSubstr("expected 1 to"));
  EXPECT_THAT(Refusal(smollm, {.decode_position = -2}), HasSubstr("position -2"));
  const ModelShape unknown =
      ShapeOfJson(R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64,
                      "num_attention_heads": 4})");
  EXPECT_THAT(Refusal(unknown, {}), HasSubstr("does not give all sizes"));
  EXPECT_THAT(Refusal(ShapeOfTiny(TinyLlama({})), {.kv_type = KvType::kQ8_0}),
              HasSubstr("stores multiples of 32"));
}

TEST(Ranges, AreToldByTheirEnds) {
  EXPECT_EQ(RangesText({}), "");
  EXPECT_EQ(RangesText({3}), "3");
  EXPECT_EQ(RangesText({0, 1, 2, 4, 6, 7}), "0-2, 4, 6-7");
}

}  // namespace
}  // namespace quire::testing
