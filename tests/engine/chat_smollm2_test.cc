// SmolLM2's own template and vocabulary: a chat's next turn has the ids of the turn before.
#include <gtest/gtest.h>

#include "base/thread_pool.h"
#include "engine/chat.h"
#include "engine/prompt_fixture.h"
#include "support/model_cache.h"

namespace quire {
namespace {

constexpr const char* kFile = "SmolLM2-135M-Instruct.Q4_1.gguf";
using Ids = std::vector<int32_t>;

class ChatSmolLm2Test : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ThreadPool pool(2);
    auto model = LoadedModel::Load(testing::CachedModel(kFile), {}, pool);
    if (model.ok()) model_ = std::move(*model);
  }
  static void TearDownTestSuite() { model_.reset(); }
  void SetUp() override {
    if (model_ == nullptr) GTEST_FAIL() << "`quire pull smollm2-135m-instruct` first";
  }

  const Tokenizer& tokenizer() const { return model_->tokenizer(); }
  std::vector<PromptPiece> Render(const std::vector<Message>& messages) const {
    auto pieces = RenderChat(*model_, messages);
    QUIRE_CHECK(pieces.ok(), "{}", pieces.error().message);
    return std::move(*pieces);
  }
  Ids Encode(std::span<const PromptPiece> pieces) const {
    return EncodePrompt(tokenizer(), &answers_, Digest{}, pieces);
  }

  static inline std::unique_ptr<LoadedModel> model_;
  AnswerIndex answers_;
};

Ids Beginning(const Ids& ids, size_t count) {
  return Ids(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(std::min(count, ids.size())));
}

TEST_F(ChatSmolLm2Test, TheNextTurnBeginsWithTheIdsOfThePromptAndTheAnswer) {
  std::vector<Message> messages = {{"user", "Why is the sky blue?"}};
  Ids expected = Encode(Render(messages));
  for (const std::string answer : {"Because of scattering.", "Yes: 12 日本 🙂\n\nsee above "}) {
    const std::vector<PromptPiece> prompt = Render(messages);
    // Every character by itself, as the tokenizer never would, and the token that ends a turn.
    Ids sampled;
    for (std::string_view rest = answer; !rest.empty();) {
      const auto num_bytes = static_cast<size_t>(FirstCharacter(rest).num_bytes);
      const Ids character = tokenizer().Encode(rest.substr(0, num_bytes), {.add_special = false});
      sampled.insert(sampled.end(), character.begin(), character.end());
      rest.remove_prefix(num_bytes);
    }
    ASSERT_NE(sampled, tokenizer().Encode(answer, {.add_special = false}));
    sampled.push_back(tokenizer().FindToken("<|im_end|>"));
    answers_.Add(Digest{}, tokenizer(), prompt, expected, answer, sampled);

    messages.push_back({"assistant", answer});
    messages.push_back({"user", "Go on."});
    expected.insert(expected.end(), sampled.begin(), sampled.end());
    const std::vector<PromptPiece> next_prompt = Render(messages);
    const Ids next = Encode(next_prompt);
    ASSERT_GT(next.size(), expected.size());
    EXPECT_EQ(Beginning(next, expected.size()), expected);
    std::string text;
    for (const PromptPiece& piece : next_prompt) text += piece.text;
    EXPECT_EQ(tokenizer().Decode(next, /*with_control=*/true), text);
    expected = next;
  }
}

TEST_F(ChatSmolLm2Test, AnAnswerSpelledByAUserInATemplatesWordsIsNotTheAnswer) {
  const std::vector<PromptPiece> prompt = Render({{"user", "Hi"}});
  const Ids ids = Encode(prompt);
  answers_.Add(Digest{}, tokenizer(), prompt, ids, "Yo", tokenizer().Encode("Y", {}));
  std::string text;
  for (const PromptPiece& piece : prompt) text += piece.text;
  const std::vector<PromptPiece> spelled = {testing::FromUser(text + "Yo")};
  EXPECT_EQ(Encode(spelled), tokenizer().EncodePieces(spelled, true));
}

TEST_F(ChatSmolLm2Test, RandomAnswersComeBackAsTheirIdsAndSayTheSameText) {
  testing::ExpectAnswersComeBackAsTheirIds(tokenizer(), 100);
}

}  // namespace
}  // namespace quire
