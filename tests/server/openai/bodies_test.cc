// The bodies beside those of answers: embeddings, detokenized texts, models, rendered prompts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "server/openai/byte_tokenizer.h"
#include "server/openai/embedding.h"
#include "server/openai/model_list.h"
#include "server/openai/render.h"
#include "server/openai/tokenize.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace json = boost::json;

EmbeddingRequest Accepted(const std::string& text) {
  auto parsed = ParseEmbeddingRequest(text, {.vocab_size = 100});
  if (auto* error = std::get_if<ApiError>(&parsed)) {
    ADD_FAILURE() << error->message;
    return {};
  }
  return std::get<EmbeddingRequest>(std::move(parsed));
}

TEST(EmbeddingRequest, ReadsEveryField) {
  const EmbeddingRequest body = Accepted(R"({"model":"m","input":["a",""],
      "encoding_format":"base64","pooling":"last","dimensions":64,"truncate_prompt_tokens":-1,
      "add_special_tokens":false,"user":"u","priority":2,"cache_salt":"s","foo":1})");
  EXPECT_EQ(body.model, "m");
  EXPECT_THAT(body.inputs, ElementsAre(OpenAiPrompt("a"), OpenAiPrompt("")));
  EXPECT_TRUE(body.as_base64);
  EXPECT_EQ(body.pooling, Pooling::kLast);
  EXPECT_EQ(body.dimensions, 64);
  EXPECT_EQ(body.truncate_prompt_tokens, -1);
  EXPECT_FALSE(body.add_special_tokens);
  EXPECT_EQ(body.priority, 2);
  EXPECT_EQ(body.cache_salt, "s");
  EXPECT_THAT(body.ignored, ElementsAre("foo"));
}

TEST(EmbeddingRequest, TakesTheFourFormsOfInput) {
  using Ids = std::vector<int32_t>;
  EXPECT_THAT(Accepted(R"({"input":"a"})").inputs, ElementsAre(OpenAiPrompt("a")));
  EXPECT_THAT(Accepted(R"({"input":[1,2]})").inputs, ElementsAre(OpenAiPrompt(Ids{1, 2})));
  EXPECT_THAT(Accepted(R"({"input":[[1],[2]]})").inputs,
              ElementsAre(OpenAiPrompt(Ids{1}), OpenAiPrompt(Ids{2})));
}

TEST(EmbeddingRequest, RefusesByName) {
  for (const auto& [text, param] : std::vector<std::pair<std::string, std::string>>{
           {"{}", "input"},
           {R"({"input":[]})", "input"},
           {R"({"input":[100]})", "input"},
           {R"({"input":"a","encoding_format":"hex"})", "encoding_format"},
           {R"({"input":"a","pooling":"max"})", "pooling"},
           {R"({"input":"a","dimensions":0})", "dimensions"},
           {R"({"input":"a","truncate_prompt_tokens":0})", "truncate_prompt_tokens"}}) {
    const auto parsed = ParseEmbeddingRequest(text, {.vocab_size = 100});
    ASSERT_TRUE(std::holds_alternative<ApiError>(parsed)) << text;
    EXPECT_EQ(std::get<ApiError>(parsed).status, 400) << text;
    EXPECT_EQ(std::get<ApiError>(parsed).param, param) << text;
  }
}

TEST(EmbeddingBody, WritesFloatsOrTheirBytes) {
  const std::vector<RequestResult> results = {{.prompt_tokens = 3, .embedding = {0.1f, -2.0f}},
                                              {.prompt_tokens = 4, .embedding = {1.0f}}};
  const ResponseHead head = {.id = "embd-1", .model = "tiny", .created = 5};
  const auto floats = json::parse(EmbeddingBody({}, results, head));
  EXPECT_EQ(floats.at("object").as_string(), "list");
  EXPECT_EQ(floats.at("model").as_string(), "tiny");
  EXPECT_EQ(floats.at("data").at(0).at("object").as_string(), "embedding");
  EXPECT_EQ(static_cast<float>(floats.at("data").at(0).at("embedding").at(0).as_double()), 0.1f);
  EXPECT_EQ(floats.at("data").at(1).at("index").as_int64(), 1);
  EXPECT_EQ(floats.at("usage"), json::parse(R"({"prompt_tokens":7,"total_tokens":7})"));
  const auto bytes = json::parse(EmbeddingBody({.as_base64 = true}, results, head));
  // CD CC CC 3D 00 00 00 C0, and 00 00 80 3F.
  EXPECT_EQ(bytes.at("data").at(0).at("embedding").as_string(), "zczMPQAAAMA=");
  EXPECT_EQ(bytes.at("data").at(1).at("embedding").as_string(), "AACAPw==");
}

TEST(DetokenizeRequest, GivesTheTextOfItsTokens) {
  const auto tokenizer = ByteTokenizer();
  const auto parsed = ParseDetokenizeRequest(R"({"tokens":[256,258]})", {.vocab_size = 259});
  ASSERT_TRUE(std::holds_alternative<DetokenizeRequest>(parsed));
  EXPECT_EQ(DetokenizeBody(std::get<DetokenizeRequest>(parsed), *tokenizer),
            R"({"prompt":"<bos>ab"})");
  EXPECT_EQ(DetokenizeBody({}, *tokenizer), R"({"prompt":""})");
  for (const char* bad : {"{}", R"({"tokens":"a"})", R"({"tokens":[259]})", R"({"tokens":[-1]})"}) {
    const auto refused = ParseDetokenizeRequest(bad, {.vocab_size = 259});
    ASSERT_TRUE(std::holds_alternative<ApiError>(refused)) << bad;
    EXPECT_EQ(std::get<ApiError>(refused).param, "tokens") << bad;
  }
}

TEST(ModelListBody, NamesTheModelsAndTheirContext) {
  const std::vector<ModelEntry> entries = {
      {.id = "tiny", .created = 5, .max_model_len = 512},
      {.id = "alias", .created = 5, .max_model_len = 512, .root = "tiny"}};
  const auto list = json::parse(ModelListBody(entries));
  EXPECT_EQ(list.at("object").as_string(), "list");
  EXPECT_EQ(list.at("data").at(0), json::parse(ModelBody(entries[0])));
  EXPECT_EQ(list.at("data").at(1).at("root").as_string(), "tiny");
  EXPECT_EQ(json::parse(ModelBody(entries[0])), json::parse(R"({"id":"tiny","object":"model",
      "created":5,"owned_by":"quire","root":"tiny","max_model_len":512})"));
}

TEST(RenderBody, ShowsTextAndIds) {
  const std::vector<EngineRequest> prompts = {{.request = {.prompt = {1, 2}}, .text = "a\"b"},
                                              {.request = {.prompt = {3}}}};
  EXPECT_EQ(RenderBody(prompts, "tiny"),
            R"({"object":"prompt.render","model":"tiny","data":[{"index":0,"text":"a\"b",)"
            R"("prompt_token_ids":[1,2],"num_tokens":2},{"index":1,"text":null,)"
            R"("prompt_token_ids":[3],"num_tokens":1}]})");
}

}  // namespace
}  // namespace quire
