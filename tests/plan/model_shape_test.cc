#include "plan/model_shape.h"

#include "formats/gguf.h"
#include "models/weight_plan.h"
#include "plan/plan_fixture.h"
#include "support/scratch_directory.h"
#include "support/tiny_llama.h"

namespace quire {
namespace {

using namespace testing;

TEST(Presets, HaveThePublishedNumberOfParameters) {
  const std::pair<const char*, uint64_t> expected[] = {
      {"llama-7b", 6'738'415'616},         {"llama-13b", 13'015'864'320},
      {"llama-2-7b", 6'738'415'616},       {"llama-2-13b", 13'015'864'320},
      {"llama-2-70b", 68'976'648'192},     {"llama-3-8b", 8'030'261'248},
      {"llama-3-70b", 70'553'706'496},     {"llama-3.1-8b", 8'030'261'248},
      {"llama-3.1-405b", 405'853'388'800}, {"llama-3.2-1b", 1'235'814'400},
      {"llama-3.2-3b", 3'212'749'824},     {"mistral-7b", 7'241'732'096},
      {"qwen-7b", 7'721'324'544},          {"qwen2.5-0.5b", 494'032'768},
      {"qwen2.5-1.5b", 1'543'714'304},     {"qwen2.5-7b", 7'615'616'512},
      {"qwen2.5-72b", 72'706'203'648},     {"qwen3-0.6b", 596'049'920},
      {"qwen3-4b", 4'022'468'096},         {"qwen3-8b", 8'190'735'360},
      {"gemma-3-270m", 268'098'176},       {"gemma-3-1b", 999'885'952},
      {"gemma-3-4b", 3'880'263'168},       {"gemma-3-27b", 27'009'346'304},
      {"smollm2-135m", 134'515'008},
  };
  for (const auto& [name, parameters] : expected) {
    EXPECT_EQ(Preset(name).parameters, parameters) << name;
  }
  EXPECT_EQ(PresetNames().size(), std::size(expected));
  EXPECT_FALSE(FindPreset("llama").has_value());
}

TEST(ModelShape, GptParametersIncludePositionsAndBiases) {
  const ModelShape shape = ShapeOfJson(
      R"({"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024,
          "vocab_size": 50257})");
  EXPECT_EQ(shape.parameters, 124'439'808u);
}

TEST(ModelShape, WhatIsNotKnownIsNotGuessed) {
  const char kExperts[] =
      R"({"model_type": "mixtral", "num_hidden_layers": 32, "hidden_size": 4096,
          "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
          "vocab_size": 32000, "num_local_experts": 8, "torch_dtype": "bfloat16"})";
  EXPECT_EQ(ShapeOfJson(kExperts).weight_bytes, 0u);
  EXPECT_EQ(Cost(ShapeOfJson(kExperts)).BytesPerToken(), 131'072u);
  EXPECT_FALSE(PlanMemory(ShapeOfJson(kExperts), {}).ok());  // no context
}

TEST(ModelShape, AFileCountsItsWeightsAsTheyLieInMemory) {
  ScratchDirectory directory;
  const auto path = directory.path() / "model.gguf";
  ASSERT_TRUE(TinyLlama({.matrices = DType::kQ8_0}).Write(path));
  const auto file = GgufFile::Open(path);
  ASSERT_TRUE(file.ok());
  const auto shape = ShapeOfFile(*file);
  ASSERT_TRUE(shape.ok()) << shape.error().message;
  const auto weights = PlanWeights(*file, shape->config);
  EXPECT_EQ(shape->weight_bytes, weights->packed_bytes);
  EXPECT_EQ(Cost(*shape).BytesPerToken(), 2u * 2 * (16 + 16) * 2);
  // The header is what lies in front of the tensors' data.
  EXPECT_GT(shape->mapped_bytes, 0u);
  EXPECT_LT(shape->mapped_bytes, file->parts()[0].bytes().size());
  EXPECT_GT(shape->text_bytes, 64u * 40);
}

}  // namespace
}  // namespace quire
