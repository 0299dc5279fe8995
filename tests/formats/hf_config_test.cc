#include "formats/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/scratch_directory.h"

namespace quire {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

HfConfig Parse(const std::string& text) {
  const auto config = ParseHfConfig(text, "config.json");
  QUIRE_CHECK(config.ok(), "{}", config.error().message);
  return *config;
}

std::string Refusal(const std::string& text, ErrorCode code = ErrorCode::kCorrupt) {
  const auto config = ParseHfConfig(text, "config.json");
  if (config.ok()) return "accepted";
  EXPECT_EQ(config.error().code, code) << config.error().message;
  EXPECT_THAT(config.error().message, HasSubstr("config.json"));
  return config.error().message;
}

// A whole configuration with some keys of the test's.
std::string With(const std::string& more) {
  return R"({"num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 8)" +
         (more.empty() ? "" : ", " + more) + "}";
}

TEST(HfConfig, ReadsALlama) {
  const HfConfig config = Parse(
      R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
          "intermediate_size": 14336, "num_attention_heads": 32, "num_hidden_layers": 32,
          "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192,
          "tie_word_embeddings": false, "torch_dtype": "bfloat16", "rope_scaling": null})");
  EXPECT_EQ(config.num_layers, 32);
  EXPECT_EQ(config.num_kv_heads, 8);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.ffn_dim, 14336);
  EXPECT_EQ(config.context_length, 8192);
  EXPECT_EQ(config.weight_bits, 16);
  EXPECT_TRUE(config.gated_ffn);
  EXPECT_FALSE(config.tied_embeddings);
  EXPECT_THAT(config.windows, Each(0));
}

TEST(HfConfig, ReadsTheFirstQwen) {
  const HfConfig config = Parse(
      R"({"model_type": "qwen", "hidden_size": 4096, "intermediate_size": 22016,
          "kv_channels": 128, "num_attention_heads": 32, "num_hidden_layers": 32,
          "seq_length": 8192, "vocab_size": 151936, "tie_word_embeddings": false})");
  EXPECT_EQ(config.num_kv_heads, 32);
  EXPECT_EQ(config.ffn_dim, 11008);
  EXPECT_EQ(config.context_length, 8192);
  EXPECT_TRUE(config.query_key_value_bias);
}

// Gemma 3 4B: the text part is nested and leaves out what its family takes for granted.
TEST(HfConfig, ReadsGemma3WithItsFamilysDefaults) {
  const HfConfig config = Parse(
      R"({"model_type": "gemma3", "mm_tokens_per_image": 256,
          "text_config": {"hidden_size": 2560, "intermediate_size": 10240,
                          "model_type": "gemma3_text", "num_hidden_layers": 34,
                          "sliding_window": 1024},
          "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27}})");
  EXPECT_EQ(config.num_layers, 34);
  EXPECT_EQ(config.num_heads, 8);
  EXPECT_EQ(config.num_kv_heads, 4);
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_EQ(config.vocab_size, 262208);
  EXPECT_EQ(std::ranges::count(config.windows, 0), 5);
  EXPECT_EQ(config.windows[4], 1024);
  EXPECT_EQ(config.windows[5], 0);
}

TEST(HfConfig, WindowsFollowTheLayersOrThePatternOrAllLayers) {
  EXPECT_THAT(Parse(With(R"("sliding_window": 32)")).windows, Each(32));
  EXPECT_THAT(Parse(With(R"("sliding_window": null)")).windows, Each(0));
  EXPECT_THAT(Parse(With(R"("sliding_window": 32, "use_sliding_window": false)")).windows, Each(0));
  EXPECT_THAT(Parse(With(R"("sliding_window": 32, "use_sliding_window": true,
                            "max_window_layers": 3)"))
                  .windows,
              ElementsAre(0, 0, 0, 32));
  EXPECT_THAT(Parse(With(R"("sliding_window": 32, "sliding_window_pattern": 2)")).windows,
              ElementsAre(32, 0, 32, 0));
  EXPECT_THAT(Parse(With(R"("sliding_window": 32, "layer_types": ["full_attention",
                 "sliding_attention", "sliding_attention", "full_attention"])"))
                  .windows,
              ElementsAre(0, 32, 32, 0));
}

TEST(HfConfig, KeyHeadsAreCountedByEveryAcceptedName) {
  EXPECT_EQ(Parse(With("")).num_kv_heads, 8);
  EXPECT_EQ(Parse(With(R"("num_key_value_heads": null)")).num_kv_heads, 8);
  EXPECT_EQ(Parse(With(R"("num_key_value_heads": 2)")).num_kv_heads, 2);
  EXPECT_EQ(Parse(With(R"("num_kv_heads": 4, "multi_query": true,
                          "new_decoder_architecture": true)"))
                .num_kv_heads,
            4);
  EXPECT_EQ(Parse(With(R"("multi_query": true)")).num_kv_heads, 1);
  EXPECT_EQ(Parse(With(R"("multi_query": false)")).num_kv_heads, 8);
  EXPECT_EQ(
      Parse(With(R"("model_type": "falcon", "num_kv_heads": 8, "multi_query": true)")).num_kv_heads,
      1);
  EXPECT_THAT(Refusal(With(R"("num_kv_heads": 8, "multi_query": true)")), HasSubstr("multi_query"));
  EXPECT_THAT(Refusal(With(R"("num_kv_heads": 2, "num_key_value_heads": 4)")),
              HasSubstr("expected one value"));
  // A name that is not understood does no harm beside one that is.
  EXPECT_EQ(Parse(With(R"("num_key_value_heads": 2, "num_kv_groups": 4)")).num_kv_heads, 2);
  EXPECT_THAT(Refusal(With(R"("attn_config": {"kv_n_heads": 2})"), ErrorCode::kUnsupported),
              HasSubstr("kv_n_heads"));
}

TEST(HfConfig, WhatKeepsSomethingElseThanKeysAndValuesIsUnsupported) {
  for (const char* more :
       {R"("kv_lora_rank": 512)", R"("ssm_cfg": {})", R"("num_kv_shared_layers": 10)",
        R"("is_encoder_decoder": true)", R"("attention_chunk_size": 8192)",
        R"("sliding_window": 8, "layer_types": ["full_attention", "linear_attention",
            "full_attention", "full_attention"])"}) {
    EXPECT_NE(Refusal(With(more), ErrorCode::kUnsupported), "accepted") << more;
  }
}

TEST(HfConfig, AMissingSizeIsNamedWithItsAcceptedNames) {
  EXPECT_THAT(Refusal(R"({"hidden_size": 64, "num_attention_heads": 8})", ErrorCode::kUnsupported),
              AllOf(HasSubstr("layers"), HasSubstr("num_hidden_layers"), HasSubstr("n_layer")));
  EXPECT_THAT(Refusal("{}", ErrorCode::kUnsupported), HasSubstr("num_hidden_layers"));
  EXPECT_THAT(Refusal(R"({"num_hidden_layers": 4, "hidden_size": 64})", ErrorCode::kUnsupported),
              HasSubstr("n_head"));
}

TEST(HfConfig, ValuesThatAreNoSizesAreRefused) {
  for (const char* value : {"0", "-1", "1.5", "\"8\"", "[8]", "{}", "true", "1e400", "99999999999",
                            "18446744073709551615"}) {
    EXPECT_NE(Refusal(With(fmt::format(R"("num_key_value_heads": {})", value))), "accepted")
        << value;
  }
  EXPECT_THAT(Refusal(With(R"("num_key_value_heads": 3)")), HasSubstr("expected a multiple"));
  EXPECT_THAT(Refusal(R"({"num_hidden_layers": 4, "hidden_size": 65, "num_attention_heads": 8})"),
              HasSubstr("head_dim"));
  EXPECT_THAT(Refusal(With(R"("sliding_window": 8, "layer_types": ["full_attention"])")),
              HasSubstr("one a layer"));
  EXPECT_THAT(Refusal(With(R"("layer_types": ["sliding_attention", "full_attention",
                              "full_attention", "full_attention"])")),
              HasSubstr("\"sliding_window\" is missing"));
  EXPECT_THAT(Refusal(With(R"("tie_word_embeddings": 1)")), HasSubstr("true or false"));
  EXPECT_THAT(Refusal(With(R"("model_type": 1)")), HasSubstr("a string"));
  EXPECT_THAT(Refusal(With(R"("sliding_window": 8, "use_sliding_window": true,
                              "max_window_layers": -1)")),
              HasSubstr("0 or more"));
}

TEST(HfConfig, WhatIsNoConfigurationIsRefused) {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("null"),
        std::string(R"({"text_config": 3})"), std::string("{\"a\": \"\xff\"}"),
        std::string(1000, '['), std::string(kMaxHfConfigBytes + 1, ' ')}) {
    EXPECT_NE(Refusal(text), "accepted") << text.substr(0, 40);
  }
}

TEST(HfConfig, IsFoundInAFolder) {
  ScratchDirectory directory;
  EXPECT_EQ(ReadHfConfig(directory.path()).error().code, ErrorCode::kNotFound);
  WriteFile(directory.path() / "config.json", With(""));
  ASSERT_TRUE(ReadHfConfig(directory.path()).ok());
  EXPECT_EQ(ReadHfConfig(directory.path() / "config.json")->num_layers, 4);
}

}  // namespace
}  // namespace quire
