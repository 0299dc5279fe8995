#include "models/config.h"

#include <cmath>

#include "models/models_fixture.h"

namespace quire::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class ConfigTest : public ModelsTest {
 protected:
  // How a tiny model with one key changed is refused.
  template <typename T>
  std::string RefusalWith(const std::string& key, T value) {
    TinyLlama model({});
    model.Set(key, value);
    return Refusal(model);
  }
};

TEST_F(ConfigTest, AnUnknownArchitectureIsUnsupportedAndNotDamaged) {
  TinyLlama model({});
  model.SetString("general.architecture", "foo");
  ErrorCode code{};
  EXPECT_THAT(Refusal(model, &code),
              AllOf(HasSubstr("architecture 'foo' is not supported"), HasSubstr("llama"),
                    Not(HasSubstr("corrupt")), Not(HasSubstr("damage"))));
  EXPECT_EQ(code, ErrorCode::kUnsupported);
  TinyLlama experts({});
  experts.Set("llama.expert_count", uint32_t{8});
  EXPECT_THAT(Refusal(experts, &code), HasSubstr("8 experts"));
  EXPECT_EQ(code, ErrorCode::kUnsupported);
}

TEST_F(ConfigTest, ReadsEveryLayerOfAnArray) {
  const PlannedFile planned =
      PlanOf(TinyLlama({.layers = {{4, 2, 48}, {6, 6, 96}, {4, 1, 16}}, .value_dim = 8}));
  std::vector<int> kv_heads, ffn_dims;
  for (const LayerConfig& layer : planned.config.layers) {
    kv_heads.push_back(layer.num_kv_heads);
    ffn_dims.push_back(layer.ffn_dim);
    EXPECT_EQ(layer.key_dim, 16);
    EXPECT_EQ(layer.value_dim, 8);
  }
  EXPECT_THAT(kv_heads, ElementsAre(2, 6, 1));
  EXPECT_THAT(ffn_dims, ElementsAre(48, 96, 16));
}

TEST_F(ConfigTest, AnArrayOfAnotherLengthThanTheLayersIsRefusedByKey) {
  for (const char* key : {"llama.attention.head_count", "llama.attention.head_count_kv",
                          "llama.feed_forward_length"}) {
    for (const size_t length : {1, 3}) {
      TinyLlama model({});
      model.SetList(key, std::vector<uint32_t>(length, 2));
      EXPECT_THAT(Refusal(model), HasSubstr(key));
    }
  }
}

TEST_F(ConfigTest, ALayerWithoutHeadsIsRefusedByKey) {
  TinyLlama model({.layers = {{}, {}, {}, {}}});
  model.SetList("llama.attention.head_count_kv", std::vector<uint32_t>{2, 2, 1, 0});
  EXPECT_THAT(Refusal(model), HasSubstr("llama.attention.head_count_kv is 0"));
}

TEST_F(ConfigTest, HeadsAreAMultipleOfKeyHeads) {
  TinyLlama model({});
  model.SetList("llama.attention.head_count_kv", std::vector<uint32_t>{2, 3});
  EXPECT_THAT(Refusal(model), AllOf(HasSubstr("layer 1"), HasSubstr("4 attention heads over 3")));
}

TEST_F(ConfigTest, SizesOutOfRangeAreRefusedByKey) {
  for (const char* key :
       {"llama.embedding_length", "llama.context_length", "llama.block_count",
        "llama.attention.key_length", "llama.attention.value_length", "llama.feed_forward_length",
        "llama.attention.head_count", "llama.rope.dimension_count"}) {
    EXPECT_THAT(RefusalWith(key, uint64_t{1} << 31), HasSubstr(key));
    EXPECT_THAT(RefusalWith(key, ~uint64_t{0}), HasSubstr(key));
    EXPECT_THAT(RefusalWith(key, int32_t{-1}), HasSubstr(key));
  }
  for (const char* key : {"llama.embedding_length", "llama.context_length", "llama.block_count",
                          "llama.feed_forward_length", "llama.attention.head_count"}) {
    EXPECT_THAT(RefusalWith(key, uint32_t{0}), HasSubstr(key));
    TinyLlama model({});
    model.RemoveKey(key);
    EXPECT_THAT(Refusal(model), HasSubstr(key));
  }
}

TEST_F(ConfigTest, LayersBeyondAnyModelAreRefusedBeforeTheyAreMade) {
  EXPECT_THAT(RefusalWith("llama.block_count", uint32_t{2'000'000'000}),
              HasSubstr("llama.block_count"));
  EXPECT_THAT(RefusalWith("llama.block_count", uint32_t{4097}), HasSubstr("llama.block_count"));
}

TEST_F(ConfigTest, RopeNumbersOutOfRangeAreRefusedByKey) {
  for (const float base : {0.0f, 1.0f, -10000.0f, 1e13f, NAN, INFINITY}) {
    EXPECT_THAT(RefusalWith("llama.rope.freq_base", base), HasSubstr("llama.rope.freq_base"))
        << base;
  }
  for (const float factor : {0.0f, -1.0f, 1e-4f, 1e7f, NAN, INFINITY}) {
    TinyLlama model({});
    model.SetString("llama.rope.scaling.type", "linear");
    model.Set("llama.rope.scaling.factor", factor);
    EXPECT_THAT(Refusal(model), HasSubstr("llama.rope.scaling.factor")) << factor;
  }
  for (const uint32_t dims : {0u, 1u, 7u, 18u, 2'000'000'000u}) {
    EXPECT_NE(RefusalWith("llama.rope.dimension_count", dims), "accepted") << dims;
  }
}

TEST_F(ConfigTest, TheNormsEpsilonIsASmallPositiveNumber) {
  for (const float epsilon : {-1.0f, NAN, INFINITY, 1e10f}) {
    EXPECT_THAT(RefusalWith("llama.attention.layer_norm_rms_epsilon", epsilon),
                HasSubstr("llama.attention.layer_norm_rms_epsilon"))
        << epsilon;
  }
}

TEST_F(ConfigTest, AnUnknownRopeScalingIsUnsupportedByName) {
  TinyLlama model({});
  model.SetString("llama.rope.scaling.type", "yarn");
  ErrorCode code{};
  EXPECT_THAT(Refusal(model, &code), AllOf(HasSubstr("'yarn'"), HasSubstr("linear")));
  EXPECT_EQ(code, ErrorCode::kUnsupported);
}

TEST_F(ConfigTest, Llama3ScalingNeedsItsDivisors) {
  TinyLlama model({});
  model.SetString("llama.rope.scaling.type", "llama3");
  EXPECT_THAT(Refusal(model), HasSubstr("rope_freqs.weight"));
}

TEST_F(ConfigTest, RopeDivisorsOfAWrongSizeTypeOrValueAreRefused) {
  const auto with = [&](std::vector<uint64_t> dimensions, DType dtype, float value) {
    TinyLlama model({});
    TinyTensor divisors{"rope_freqs.weight", dtype, dimensions, {}};
    divisors.bytes.resize(dimensions[0] * InfoOf(dtype).block_bytes);
    for (size_t i = 0; dtype == DType::kF32 && i < dimensions[0]; ++i) divisors.SetValue(i, value);
    model.AddTensor(divisors);
    return Refusal(model);
  };
  EXPECT_EQ(with({8}, DType::kF32, 1.0f), "accepted");
  EXPECT_THAT(with({7}, DType::kF32, 1.0f), HasSubstr("rope_freqs.weight"));
  EXPECT_THAT(with({16}, DType::kF32, 1.0f), HasSubstr("rope_freqs.weight"));
  EXPECT_THAT(with({8, 1}, DType::kF32, 1.0f), HasSubstr("rope_freqs.weight"));
  EXPECT_THAT(with({8}, DType::kF16, 1.0f), HasSubstr("rope_freqs.weight"));
  for (const float value : {0.0f, -1.0f, NAN, INFINITY, 1e7f, 1e-7f}) {
    EXPECT_THAT(with({8}, DType::kF32, value), HasSubstr("rope_freqs.weight")) << value;
  }
}

// The tables of the Llama 3.1 release, computed from its four numbers.
TEST_F(ConfigTest, FrequenciesAreTheBasesPowersOverTheDivisors) {
  RopeConfig rope{.base = 500000, .rotary_dim = 64};
  std::vector<double> plain = rope.Frequencies();
  ASSERT_EQ(plain.size(), 32u);
  for (int i = 0; i < 32; ++i) {
    EXPECT_NEAR(plain[i] / std::pow(500000.0, -i / 32.0), 1.0, 1e-12);
  }
  rope.linear_factor = 4;
  rope.divisors.assign(32, 2.0f);
  for (int i = 0; i < 32; ++i) EXPECT_DOUBLE_EQ(rope.Frequencies()[i], plain[i] / 8);
}

class GemmaConfigTest : public ModelsTest {
 protected:
  // A tiny gemma3 file's configuration with one key changed.
  std::string Refusal(const std::string& key, float value) {
    GgufWriter writer;
    writer.AddString("general.architecture", "gemma3");
    const auto add = [&](const std::string& name, auto number) {
      if (name != key) writer.Add(name, number);
    };
    add("gemma3.block_count", uint32_t{6});
    add("gemma3.embedding_length", uint32_t{64});
    add("gemma3.context_length", uint32_t{64});
    add("gemma3.feed_forward_length", uint32_t{64});
    add("gemma3.attention.head_count", uint32_t{4});
    add("gemma3.attention.sliding_window", uint32_t{16});
    add("gemma3.attention.layer_norm_rms_epsilon", 1e-6f);
    if (!key.empty()) writer.Add(key, value);
    writer.AddTensorF32("token_embd.weight", {64, 4}, std::vector<float>(256));
    EXPECT_TRUE(writer.Write(Path("gemma.gguf")));
    const auto file = GgufFile::Open(Path("gemma.gguf"));
    if (!file.ok()) return file.error().message;
    const auto config = ReadModelConfig(*file);
    return config.ok() ? "accepted" : config.error().message;
  }
};

TEST_F(GemmaConfigTest, TheWindowsRopeBaseIsCheckedLikeTheOther) {
  EXPECT_EQ(Refusal("", 0), "accepted");
  for (const char* key : {"gemma3.rope.freq_base", "gemma3.rope.freq_base_swa"}) {
    for (const float base : {0.0f, 1e-30f, -10000.0f, 1e13f}) {
      EXPECT_THAT(Refusal(key, base), HasSubstr(key)) << base;
    }
  }
}

TEST_F(GemmaConfigTest, TheAttentionScaleIsAPositiveNumber) {
  for (const float scale : {-1.0f, NAN, INFINITY}) {
    EXPECT_THAT(Refusal("gemma3.attention.scale", scale), HasSubstr("gemma3.attention.scale"))
        << scale;
  }
}

}  // namespace
}  // namespace quire::testing
