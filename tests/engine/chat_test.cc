#include "engine/chat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/thread_pool.h"
#include "engine/prompt_encoder.h"
#include "support/rigs.h"
#include "support/scratch_directory.h"
#include "text/chat_template/json_text.h"
#include "text/chat_template/messages.h"

namespace quire {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;

// Tokens: 0 <end>, 1 <user>, 2 <bot>, 3 a, 4 b, 5 ab (no merge leads to it: text never becomes it).
constexpr const char* kTemplate =
    "{% for m in messages %}{{ '<user>' if m.role == 'user' else '<bot>' }}{{ m.content }}"
    "{{ '<end>' }}{% endfor %}{% if add_generation_prompt %}{{ '<bot>' }}{% endif %}";

class ChatTest : public ::testing::Test {
 protected:
  void Load(const std::string& chat_template) {
    const std::filesystem::path path = directory_.path() / "rig.gguf";
    testing::WriteMarkovModel(
        path, {{"<end>", true}, {"<user>", true}, {"<bot>", true}, {"a"}, {"b"}, {"ab"}},
        std::vector<std::vector<float>>(6, std::vector<float>(6, 0.0f)), chat_template);
    auto model = LoadedModel::Load(path, {}, pool_);
    ASSERT_TRUE(model.ok()) << model.error().message;
    model_ = std::move(*model);
  }

  Result<Ids> Prompt(const std::vector<Message>& messages) {
    QUIRE_ASSIGN_OR_RETURN(pieces_, RenderChat(*model_, messages));
    return EncodePrompt(model_->tokenizer(), &answers_, Digest{}, pieces_);
  }
  // The answer to the last prompt.
  void Answer(const Ids& prompt_ids, std::string_view text, const Ids& ids) {
    answers_.Add(Digest{}, model_->tokenizer(), pieces_, prompt_ids, text, ids);
  }

  ScratchDirectory directory_;
  ThreadPool pool_{1};
  std::unique_ptr<LoadedModel> model_;
  std::vector<PromptPiece> pieces_;
  AnswerIndex answers_;
};

TEST_F(ChatTest, AnAnswerStaysAsTheIdsThatWereSampled) {
  Load(kTemplate);
  const Ids first = Prompt({{"user", "a"}}).value();
  EXPECT_EQ(first, (Ids{1, 3, 0, 2}));
  // The model said "ab" with token 5; its text would tokenize as 3, 4.
  Answer(first, "ab", {5, 0});
  EXPECT_EQ(Prompt({{"user", "a"}, {"assistant", "ab"}, {"user", "b"}}).value(),
            (Ids{1, 3, 0, 2, 5, 0, 1, 4, 0, 2}));
}

TEST_F(ChatTest, AnAnswerWithoutItsEndGetsTheTemplatesOne) {
  Load(kTemplate);
  Answer(Prompt({{"user", "a"}}).value(), "ab", {5});
  EXPECT_EQ(Prompt({{"user", "a"}, {"assistant", "ab"}, {"user", "b"}}).value(),
            (Ids{1, 3, 0, 2, 5, 0, 1, 4, 0, 2}));
}

TEST_F(ChatTest, AnEditedAnswerIsTokenizedAnew) {
  Load(kTemplate);
  Answer(Prompt({{"user", "a"}}).value(), "ab", {5, 0});
  EXPECT_EQ(Prompt({{"user", "a"}, {"assistant", "aa"}}).value(), (Ids{1, 3, 0, 2, 3, 3, 0, 2}));
}

TEST_F(ChatTest, ATemplateThatRewritesTheAnswerIsFollowed) {
  // This one writes a b in front of earlier answers; their text is tokenized as it now stands.
  Load(
      "{% for m in messages %}{% if m.role == 'user' %}<user>{{ m.content }}{% else %}"
      "<bot>b{{ m.content }}{% endif %}{% endfor %}<bot>");
  const Ids first = Prompt({{"user", "a"}}).value();
  EXPECT_EQ(first, (Ids{1, 3, 2}));
  Answer(first, "ab", {5});
  EXPECT_EQ(Prompt({{"user", "a"}, {"assistant", "ab"}, {"user", "a"}}).value(),
            (Ids{1, 3, 2, 4, 3, 4, 1, 3, 2}));
}

TEST_F(ChatTest, AMessageCannotWriteAControlToken) {
  Load(kTemplate);
  const Ids ids = Prompt({{"user", "a<end>b"}}).value();
  EXPECT_EQ(std::ranges::count(ids, 0), 1);
}

TEST_F(ChatTest, TheTemplateSeesToolsToolCallsAndVariablesOfTheRequest) {
  Load(
      "{{ bos_token }}{{ tools[0].name }}{% for m in messages %}{{ m.content }}"
      "{% for call in m.tool_calls or [] %}{{ call.function.arguments.x }}{% endfor %}{% endfor %}"
      "{{ 'b' if enable_thinking }}");
  TemplateInput input;
  input.messages =
      NormalizeMessages(jinja::ValueFromJson(
                            R"([{"role": "user", "content": [{"type": "text", "text": "a"}]},
                               {"role": "assistant", "content": null, "tool_calls": [
                                 {"type": "function", "id": "1", "function":
                                   {"name": "f", "arguments": "{\"x\": \"b\"}"}}]}])")
                            .value())
          .value();
  input.tools = jinja::ValueFromJson(R"([{"name": "aa"}])").value();
  input.extra = jinja::ValueFromJson(R"({"enable_thinking": true})").value();
  const auto pieces = RenderChat(*model_, std::move(input));
  ASSERT_TRUE(pieces.ok()) << pieces.error().message;
  std::string text;
  for (const PromptPiece& piece : *pieces) text += piece.text;
  EXPECT_THAT(text, ::testing::EndsWith("aaabb"));
}

TEST_F(ChatTest, WhatTheTemplateRefusesIsAnErrorWithItsWords) {
  Load(
      "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif "
      "%}<bot>");
  const auto refused = Prompt({{"system", "be brief"}, {"user", "a"}});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("no system role"));
  EXPECT_TRUE(Prompt({{"user", "a"}}).ok());
}

TEST_F(ChatTest, AMissingOrBrokenTemplateIsTold) {
  Load("");
  EXPECT_EQ(Prompt({{"user", "a"}}).error().code, ErrorCode::kNotFound);
  Load("{% for m in %}");
  const auto broken = Prompt({{"user", "a"}});
  ASSERT_FALSE(broken.ok());
  EXPECT_THAT(broken.error().message, HasSubstr("chat_template"));
}

}  // namespace
}  // namespace quire
