#include "engine/chat.h"

#include <gtest/gtest.h>

#include "engine/engine_fixture.h"
#include "support/rigs.h"
#include "support/scratch_directory.h"

namespace quire {
namespace {

// Tokens: 0 <end>, 1 <user>, 2 <bot>, 3 a, 4 b, 5 ab (no merge leads to it: text never becomes it).
constexpr const char* kTemplate =
    "{% for m in messages %}{{ '<user>' if m.role == 'user' else '<bot>' }}{{ m.content }}"
    "{{ '<end>' }}{% endfor %}{% if add_generation_prompt %}{{ '<bot>' }}{% endif %}";

class ConversationTest : public ::testing::Test {
 protected:
  void Load(const std::string& chat_template) {
    const std::filesystem::path path = directory_.path() / "rig.gguf";
    testing::WriteMarkovModel(
        path, {{"<end>", true}, {"<user>", true}, {"<bot>", true}, {"a"}, {"b"}, {"ab"}},
        std::vector<std::vector<float>>(6, std::vector<float>(6, 0.0f)), chat_template);
    engine_ = testing::MakeTestEngine(path);
    ASSERT_NE(engine_, nullptr);
  }

  ScratchDirectory directory_;
  std::unique_ptr<Engine> engine_;
};

using Ids = std::vector<int32_t>;

TEST_F(ConversationTest, AnAnswerStaysAsTheIdsThatWereSampled) {
  Load(kTemplate);
  auto conversation = Conversation::Create(engine_->model());
  ASSERT_TRUE(conversation.ok()) << conversation.error().message;
  conversation->Add({"user", "a"});
  EXPECT_EQ(conversation->Prompt().value(), (Ids{1, 3, 0, 2}));
  // The model said "ab" with token 5; its text would tokenize as 3, 4.
  conversation->AddAnswer("ab", Ids{5, 0});
  conversation->Add({"user", "b"});
  EXPECT_EQ(conversation->Prompt().value(), (Ids{1, 3, 0, 2, 5, 0, 1, 4, 0, 2}));
}

TEST_F(ConversationTest, AnAnswerWithoutItsEndGetsTheTemplatesOne) {
  Load(kTemplate);
  auto conversation = Conversation::Create(engine_->model());
  ASSERT_TRUE(conversation.ok());
  conversation->Add({"user", "a"});
  ASSERT_TRUE(conversation->Prompt().ok());
  conversation->AddAnswer("ab", Ids{5});
  conversation->Add({"user", "b"});
  EXPECT_EQ(conversation->Prompt().value(), (Ids{1, 3, 0, 2, 5, 0, 1, 4, 0, 2}));
}

TEST_F(ConversationTest, ATemplateThatRewritesTheAnswerIsFollowed) {
  // This one shows earlier answers in brackets; their text is tokenized as it now stands.
  Load(
      "{% for m in messages %}{% if m.role == 'user' %}<user>{{ m.content }}{% else %}"
      "<bot>b{{ m.content }}{% endif %}{% endfor %}<bot>");
  auto conversation = Conversation::Create(engine_->model());
  ASSERT_TRUE(conversation.ok());
  conversation->Add({"user", "a"});
  EXPECT_EQ(conversation->Prompt().value(), (Ids{1, 3, 2}));
  conversation->AddAnswer("ab", Ids{5});
  conversation->Add({"user", "a"});
  EXPECT_EQ(conversation->Prompt().value(), (Ids{1, 3, 2, 4, 3, 4, 1, 3, 2}));
}

TEST_F(ConversationTest, AMessageCannotWriteAControlToken) {
  Load(kTemplate);
  auto conversation = Conversation::Create(engine_->model());
  ASSERT_TRUE(conversation.ok());
  conversation->Add({"user", "a<end>b"});
  const Ids ids = conversation->Prompt().value();
  EXPECT_EQ(std::ranges::count(ids, 0), 1);
}

TEST_F(ConversationTest, WhatTheTemplateRefusesIsAnErrorWithItsWords) {
  Load(
      "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif "
      "%}<bot>");
  auto conversation = Conversation::Create(engine_->model());
  ASSERT_TRUE(conversation.ok());
  conversation->Reset("be brief");
  conversation->Add({"user", "a"});
  const auto refused = conversation->Prompt();
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("no system role"), std::string::npos);
  conversation->Reset("");
  conversation->Add({"user", "a"});
  EXPECT_TRUE(conversation->Prompt().ok());
}

TEST_F(ConversationTest, AMissingOrBrokenTemplateIsToldWhenAChatBegins) {
  Load("");
  EXPECT_EQ(Conversation::Create(engine_->model()).error().code, ErrorCode::kNotFound);
  Load("{% for m in %}");
  const auto broken = Conversation::Create(engine_->model());
  ASSERT_FALSE(broken.ok());
  EXPECT_NE(broken.error().message.find("chat_template"), std::string::npos);
}

}  // namespace
}  // namespace quire
