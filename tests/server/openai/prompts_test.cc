#include "server/openai/prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/thread_pool.h"
#include "engine/loaded_model.h"
#include "server/openai/tokenize.h"
#include "support/rigs.h"
#include "support/scratch_directory.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;

// Tokens: 0 <end>, 1 <user>, 2 <bot>, 3 a, 4 b, 5 space, 6 c, then those of a model that fills in.
constexpr const char* kTemplate =
    "{% for d in documents or [] %}{{ d.text }}{% endfor %}"
    "{% for m in messages %}{{ '<user>' if m.role == 'user' else '<bot>' }}{{ m.content }}"
    "{{ '<end>' }}{% endfor %}{% if add_generation_prompt %}{{ '<bot>' }}{% endif %}";

class PromptsTest : public ::testing::Test {
 protected:
  void Load(const std::string& chat_template = kTemplate, bool fills_in = true) {
    const std::filesystem::path path = directory_.path() / "rig.gguf";
    std::vector<testing::RigToken> tokens = {
        {"<end>", true}, {"<user>", true}, {"<bot>", true}, {"a"}, {"b"}, {"\u0120"}, {"c"}};
    if (fills_in) {
      for (const char* name : {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"}) {
        tokens.push_back({name, true});
      }
    }
    const size_t rows = tokens.size() + tokens.size() % 2;
    testing::WriteMarkovModel(
        path, tokens, std::vector(tokens.size(), std::vector<float>(rows, 0.0f)), chat_template);
    LoadFile(path);
  }
  void LoadFile(const std::filesystem::path& path) {
    auto model = LoadedModel::Load(path, {}, pool_);
    ASSERT_TRUE(model.ok()) << model.error().message;
    model_ = std::move(*model);
  }

  PromptSource Source() {
    return {.model = *model_,
            .context_length = 32,
            .encode = [this](std::span<const PromptPiece> pieces, std::string_view) {
              return model_->tokenizer().EncodePieces(pieces, /*add_special=*/true);
            }};
  }
  std::variant<std::vector<EngineRequest>, ApiError> Make(OpenAiEndpoint endpoint,
                                                          const std::string& text) {
    auto body = ParseOpenAiRequest(endpoint, text);
    if (auto* error = std::get_if<ApiError>(&body)) return *error;
    return EngineRequestsOf(std::get<OpenAiRequest>(body), Source());
  }
  EngineRequest MakeOne(OpenAiEndpoint endpoint, const std::string& text) {
    auto made = Make(endpoint, text);
    if (const auto* error = std::get_if<ApiError>(&made)) {
      ADD_FAILURE() << error->message;
      return {};
    }
    return std::get<std::vector<EngineRequest>>(made).at(0);
  }
  EngineRequest Completion(const std::string& members) {
    return MakeOne(OpenAiEndpoint::kCompletions, "{" + members + "}");
  }
  EngineRequest Chat(const std::string& members) {
    return MakeOne(OpenAiEndpoint::kChatCompletions, "{" + members + "}");
  }
  ApiError Refused(OpenAiEndpoint endpoint, const std::string& members) {
    auto made = Make(endpoint, "{" + members + "}");
    if (const auto* error = std::get_if<ApiError>(&made)) return *error;
    ADD_FAILURE() << "accepted";
    return {};
  }

  ScratchDirectory directory_;
  ThreadPool pool_{1};
  std::unique_ptr<LoadedModel> model_;
};

TEST_F(PromptsTest, AFinalMessageIsContinuedRightAfterItsContent) {
  Load();
  const std::string messages =
      R"("continue_final_message":true,"messages":[{"role":"user","content":"a"},
         {"role":"assistant","content":"b<end>b "}])";
  const EngineRequest made = Chat(messages);
  // Byte for byte the content, its space at the end included; text of a message is no control
  // token, so its <end> would be spelled out where the vocabulary had the letters.
  EXPECT_EQ(made.text, "<user>a<end><bot>b<end>b ");
  EXPECT_EQ(made.request.prompt.back(), 5);
  EXPECT_FALSE(made.request.prompt_pieces.back().from_template);
}

TEST_F(PromptsTest, WhatCannotBeContinuedIsRefused) {
  Load();
  const ApiError calls =
      Refused(OpenAiEndpoint::kChatCompletions,
              R"("continue_final_message":true,"messages":[{"role":"user","content":"a"},
         {"role":"assistant","content":"","tool_calls":[{"function":{"name":"f"}}]}])");
  EXPECT_EQ(calls.status, 400);
  EXPECT_EQ(calls.param, "messages");
  EXPECT_THAT(calls.message, HasSubstr("calls tools"));
  Load("<user>{{ messages[0].content }}");
  const ApiError hidden =
      Refused(OpenAiEndpoint::kChatCompletions,
              R"("continue_final_message":true,"messages":[{"role":"user","content":"a"},
         {"role":"assistant","content":"b"}])");
  EXPECT_EQ(hidden.status, 400);
  EXPECT_THAT(hidden.message, HasSubstr("does not show"));
}

TEST_F(PromptsTest, TheTemplatesOwnRefusalIsA400) {
  Load("{{ raise_exception('no system role') }}");
  const ApiError error =
      Refused(OpenAiEndpoint::kChatCompletions, R"("messages":[{"role":"system","content":"a"}])");
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.param, "messages");
  EXPECT_THAT(error.message, HasSubstr("no system role"));
}

TEST_F(PromptsTest, DocumentsAndArgumentsReachTheTemplate) {
  Load("{{ documents[0].text }}{{ word }}");
  EXPECT_EQ(Chat(R"("messages":[{"role":"user","content":"a"}],"documents":[{"text":"b"}],
                    "chat_template_kwargs":{"word":"c"})")
                .text,
            "bc");
}

TEST_F(PromptsTest, ASuffixIsSetAroundWhatIsToBeFilledIn) {
  Load();
  EXPECT_THAT(Completion(R"("prompt":"ab","suffix":"c")").request.prompt,
              ElementsAre(7, 3, 4, 8, 6, 9));
  EXPECT_THAT(Completion(R"("prompt":[3,4],"suffix":"c")").request.prompt,
              ElementsAre(7, 3, 4, 8, 6, 9));
  Load(kTemplate, /*fills_in=*/false);
  const ApiError error = Refused(OpenAiEndpoint::kCompletions, R"("prompt":"ab","suffix":"c")");
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.param, "suffix");
}

TEST_F(PromptsTest, TheLastTokensAreKeptWhereAPromptIsCut) {
  Load();
  EXPECT_THAT(Completion(R"("prompt":"abca","truncate_prompt_tokens":2)").request.prompt,
              ElementsAre(6, 3));
  EXPECT_THAT(Completion(R"("prompt":[3,4,6],"truncate_prompt_tokens":9)").request.prompt,
              ElementsAre(3, 4, 6));
  // What is remembered of an answer belongs to a whole text.
  EXPECT_TRUE(
      Completion(R"("prompt":"abca","truncate_prompt_tokens":2)").request.prompt_pieces.empty());
  // -1 leaves room for the answer in the context of 32.
  const std::string text = R"("prompt":")" + std::string(100, 'a') + "\"";
  EXPECT_EQ(
      Completion(text + R"(,"truncate_prompt_tokens":-1,"max_tokens":5)").request.prompt.size(),
      27u);
  EXPECT_EQ(
      Completion(text + R"(,"truncate_prompt_tokens":-1,"max_tokens":1000)").request.prompt.size(),
      1u);
  EXPECT_EQ(Refused(OpenAiEndpoint::kCompletions, text + R"(,"truncate_prompt_tokens":33)").param,
            "truncate_prompt_tokens");
}

TEST_F(PromptsTest, BadWordsAreBannedWithAndWithoutASpaceInFront) {
  Load();
  EXPECT_THAT(Completion(R"("prompt":"a","bad_words":["ab"])").request.sampling.bad_words,
              ElementsAre(Ids{3, 4}));
  // A vocabulary with a token for the space and the word together would ban that one, too; here a
  // space is a token of its own, and the bare word covers it.
  EXPECT_THAT(Completion(R"("prompt":"a","bad_words":[" c"])").request.sampling.bad_words,
              ElementsAre(Ids{6}));
}

TEST_F(PromptsTest, AnEmptyPromptNeedsATokenToBeginWith) {
  Load();
  const ApiError error = Refused(OpenAiEndpoint::kCompletions, R"("prompt":"")");
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.param, "prompt");
}

TEST_F(PromptsTest, TokensInFrontAreLeftOutWhereTheBodySaysSo) {
  LoadFile(std::string(QUIRE_TESTS_DIR) + "/golden/models/tiny-gemma3.gguf");
  ASSERT_TRUE(model_->tokenizer().adds_bos());
  const EngineRequest with = Completion(R"("prompt":"a")");
  const EngineRequest without = Completion(R"("prompt":"a","add_special_tokens":false)");
  EXPECT_EQ(with.request.prompt.front(), model_->tokenizer().bos());
  EXPECT_EQ(with.num_added, 1);
  EXPECT_EQ(without.num_added, 0);
  EXPECT_EQ(without.request.prompt.size() + 1, with.request.prompt.size());
  EXPECT_TRUE(without.request.prompt_pieces.empty());
  // A cut takes the token in front first.
  EXPECT_EQ(Completion(R"("prompt":"a","truncate_prompt_tokens":1)").num_added, 0);
}

TEST_F(PromptsTest, TokenizeTellsTheIdsThatARequestWouldHave) {
  Load();
  const auto tokenize = [&](const std::string& text) {
    auto request = ParseTokenizeRequest(text);
    if (auto* error = std::get_if<ApiError>(&request)) return error->param + " refused";
    auto body = TokenizeBody(std::get<TokenizeRequest>(request), Source());
    if (auto* error = std::get_if<ApiError>(&body)) return error->param + " refused";
    return std::get<std::string>(body);
  };
  EXPECT_EQ(tokenize(R"({"prompt":"ab","return_token_strs":true})"),
            R"({"count":2,"max_model_len":32,"tokens":[3,4],"token_strs":["a","b"]})");
  EXPECT_EQ(tokenize(R"({"messages":[{"role":"user","content":"a"}]})"),
            R"({"count":4,"max_model_len":32,"tokens":[1,3,0,2],"token_strs":null})");
  EXPECT_EQ(tokenize(R"({"prompt":""})"),
            R"({"count":0,"max_model_len":32,"tokens":[],"token_strs":null})");
  EXPECT_EQ(tokenize("{}"), "prompt refused");
  EXPECT_EQ(tokenize(R"({"prompt":["a"]})"), "prompt refused");
  EXPECT_EQ(tokenize(R"({"prompt":"a","messages":[]})"), "prompt refused");
  EXPECT_EQ(tokenize(R"({"messages":[]})"), "messages refused");
}

}  // namespace
}  // namespace quire
