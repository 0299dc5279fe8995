#include "engine/generation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/engine_fixture.h"
#include "support/rigs.h"
#include "support/scratch_directory.h"

namespace quire {
namespace {

// Token texts are spelled in the byte-level alphabet: a space is U+0120.
constexpr const char* kSpace = "\u0120";

class GenerationTest : public ::testing::Test {
 protected:
  // A model that says `next[i]` after token i, always.
  std::unique_ptr<Engine> Scripted(const std::vector<testing::RigToken>& tokens,
                                   const std::vector<int>& next, int rows = 0) {
    std::vector<std::vector<float>> logits(
        tokens.size(), std::vector<float>(std::max<size_t>(rows, tokens.size()), 0.0f));
    for (size_t i = 0; i < next.size(); ++i) logits[i][next[i]] = 20;
    testing::WriteMarkovModel(Path(), tokens, logits);
    return testing::MakeTestEngine(Path());
  }

  std::filesystem::path Path() const { return directory_.path() / "rig.gguf"; }

  // The one answer, by the best token each time.
  static Choice Run(Engine& engine, std::vector<int32_t> prompt, Request request,
                    std::string* streamed = nullptr) {
    request.prompt = std::move(prompt);
    request.sampling.temperature = 0;
    GenerationHooks hooks;
    if (streamed != nullptr) {
      hooks.on_text = [streamed](std::string_view text) { *streamed += text; };
    }
    auto result = Generate(engine, std::move(request), hooks);
    if (!result.ok()) {
      ADD_FAILURE() << result.error().message;
      return {};
    }
    return std::move(result->choices[0]);
  }

  ScratchDirectory directory_;
};

TEST_F(GenerationTest, AStopStringSpreadOverTokensIsNeverShown) {
  const std::string al = "al", pha = std::string("pha") + kSpace + "be",
                    ta = std::string("ta") + kSpace + "gam";
  const auto engine =
      Scripted({{"<end>", true}, {"al"}, {pha}, {ta}, {"ma"}, {"x"}}, {0, 2, 3, 4, 5, 1});
  ASSERT_NE(engine, nullptr);
  std::string streamed;
  // After x comes al, pha be, ta gam, ma: the text "alpha beta gamma".
  const Choice result = Run(*engine, {5}, {.max_tokens = 10, .stops = {"beta gamma"}}, &streamed);
  EXPECT_EQ(result.text, "alpha ");
  EXPECT_EQ(streamed, "alpha ");
  EXPECT_EQ(result.finish_reason, FinishReason::kStop);
}

TEST_F(GenerationTest, EachEndHasItsReason) {
  const auto engine = Scripted({{"<end>", true}, {"a"}, {"b"}, {"c"}}, {0, 2, 3, 0});
  ASSERT_NE(engine, nullptr);
  const Choice ended = Run(*engine, {1}, {.max_tokens = 10});
  EXPECT_EQ(ended.finish_reason, FinishReason::kStop);
  EXPECT_EQ(ended.text, "bc");
  EXPECT_EQ(ended.tokens, (std::vector<int32_t>{2, 3, 0}));
  EXPECT_EQ(Run(*engine, {1}, {.max_tokens = 2}).finish_reason, FinishReason::kLength);
  EXPECT_EQ(Run(*engine, {1}, {.max_tokens = 10, .stops = {"c"}}).text, "b");
  EXPECT_EQ(Run(*engine, {1}, {.max_tokens = 10, .stop_token_ids = {3}}).text, "b");
}

TEST_F(GenerationTest, EndOfTextCanBeIgnored) {
  const auto engine = Scripted({{"<end>", true}, {"a"}, {"b"}}, {1, 0, 2});
  ASSERT_NE(engine, nullptr);
  const Choice result = Run(*engine, {1}, {.max_tokens = 4, .ignore_end_of_text = true});
  EXPECT_EQ(result.tokens, (std::vector<int32_t>{0, 1, 0, 1}));
  EXPECT_EQ(result.text, "aa");
}

TEST_F(GenerationTest, AnAnswerThatEndsInsideACharacterIsStillText) {
  // F0 9F are the first bytes of an emoji, in the byte-level alphabet U+00F0 and U+0141.
  const auto engine = Scripted({{"<end>", true}, {"\u00f0"}, {"\u0141"}, {"x"}}, {0, 2, 0, 1});
  ASSERT_NE(engine, nullptr);
  std::string streamed;
  EXPECT_EQ(Run(*engine, {3}, {.max_tokens = 10}, &streamed).text, "\ufffd");
  EXPECT_EQ(streamed, "\ufffd");
  EXPECT_EQ(Run(*engine, {3}, {.max_tokens = 1}).text, "\ufffd");
}

TEST_F(GenerationTest, ATokenWithoutTextIsPassedOver) {
  // Row 4 of the embedding has no token: vocabularies are padded.
  const auto engine = Scripted({{"<end>", true}, {"a"}, {"b"}}, {0, 4, 0}, /*rows=*/6);
  ASSERT_NE(engine, nullptr);
  const Choice result = Run(*engine, {1}, {.max_tokens = 2});
  EXPECT_EQ(result.tokens[0], 4);
  EXPECT_EQ(result.tokens.size(), 2u);
}

TEST_F(GenerationTest, AFullContextEndsTheAnswerAndALongerPromptIsRefused) {
  testing::WriteCountModel(Path(), 16, 256);
  const auto engine = testing::MakeTestEngine(Path());
  ASSERT_NE(engine, nullptr);
  const Request options{.max_tokens = -1, .ignore_end_of_text = true};
  EXPECT_EQ(Run(*engine, std::vector<int32_t>(255, 1), options).tokens.size(), 1u);
  EXPECT_EQ(Run(*engine, std::vector<int32_t>(200, 1), options).tokens.size(), 56u);
  for (const size_t count : {256u, 257u, 5000u}) {
    Request request = options;
    request.prompt.assign(count, 1);
    const auto result = Generate(*engine, request);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, ErrorCode::kContextLength);
    EXPECT_NE(result.error().message.find(std::to_string(count)), std::string::npos);
    EXPECT_NE(result.error().message.find("256"), std::string::npos);
  }
}

TEST_F(GenerationTest, EveryStoredEntryIsAttendedOnce) {
  testing::WriteCountModel(Path(), 16, 256);
  const auto engine = testing::MakeTestEngine(Path());
  ASSERT_NE(engine, nullptr);
  const auto scores = [&](std::vector<int32_t> tokens) {
    std::vector<float> rows = testing::AllLogits(engine->runner(), tokens);
    return std::vector<float>(rows.end() - 16, rows.end());
  };
  // Logits are 10 times the share of the counts' length: 1,1,1,2 gives 3 / sqrt(10), 1 / sqrt(10).
  const std::vector<float> few = scores({1, 1, 1, 2});
  EXPECT_NEAR(few[1] / 10, 0.9477, 2e-3);
  EXPECT_NEAR(few[2] / 10, 0.3191, 4e-3);
  EXPECT_NEAR(few[5] / 10, 0.0, 1e-3);
  // Four others in front; and around the end of the first block.
  const std::vector<float> more = scores({5, 5, 5, 5, 1, 1, 1, 2});
  EXPECT_NEAR(more[1] / 10, 0.5879, 3e-3);
  EXPECT_NEAR(more[5] / 10, 0.7839, 3e-3);
  for (const auto& [count, gap] : {std::pair{15, 0.92844}, {16, 0.93287}, {17, 0.93676}}) {
    std::vector<int32_t> tokens(count, 1);
    tokens.push_back(2);
    const std::vector<float> row = scores(tokens);
    EXPECT_NEAR((row[1] - row[2]) / 10, gap, 1e-3) << count;
  }
}

TEST_F(GenerationTest, ThePromptsEntriesAndTheSampledOnesButOneAreStored) {
  testing::WriteCountModel(Path(), 16, 256);
  const auto engine = testing::MakeTestEngine(Path());
  ASSERT_NE(engine, nullptr);
  std::vector<StepItem> steps;
  engine->SetStepObserver([&](const StepReport& report) {
    ASSERT_EQ(report.items.size(), 1u);
    EXPECT_EQ(report.logits.size(), 1u);
    const SequenceId id = report.items[0].sequence;
    EXPECT_EQ(engine->batch().num_computed(id),
              static_cast<int>(engine->batch().tokens(id).size()));
    steps.push_back(report.items[0]);
  });
  Request request = testing::GreedyRequest({1, 2, 3, 4}, 5);
  request.ignore_end_of_text = true;
  ASSERT_TRUE(Generate(*engine, request).ok());
  ASSERT_EQ(steps.size(), 5u);
  EXPECT_EQ(steps[0].num_tokens, 4);
  EXPECT_EQ(steps[4].num_tokens, 1);
  EXPECT_EQ(steps[4].first_position, 7);  // 4 + 5 - 1 entries in all
}

TEST_F(GenerationTest, AnAnswerIsInterruptedBetweenSteps) {
  const auto engine = Scripted({{"<end>", true}, {"a"}, {"b"}}, {0, 2, 1});
  ASSERT_NE(engine, nullptr);
  int asked = 0;
  const GenerationHooks hooks{.interrupted = [&] { return ++asked > 3; }};
  const auto result = Generate(*engine, testing::GreedyRequest({1}), hooks);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->choices[0].finish_reason, FinishReason::kAborted);
  EXPECT_EQ(result->choices[0].text, "bab");
}

TEST_F(GenerationTest, PenaltiesLookAtPromptAndAnswer) {
  // All rows alike: 2 for token 1, 1.9 for token 2. Token 1 is in the prompt.
  testing::WriteMarkovModel(Path(), {{"<end>", true}, {"a"}, {"b"}, {"c"}},
                            std::vector<std::vector<float>>(4, {-9, 2.0f, 1.9f, 1.5f}));
  const auto engine = testing::MakeTestEngine(Path());
  ASSERT_NE(engine, nullptr);
  Request options{.max_tokens = 3};
  options.sampling.repetition_penalty = 1.5f;
  // a is penalised by the prompt, then b and c by the answer: a, b and c stand at 1.33, 1.27, 1.
  EXPECT_EQ(Run(*engine, {1}, options).text, "bca");
}

TEST_F(GenerationTest, WrongRequestsAreRefusedByName) {
  const auto engine = Scripted({{"<end>", true}, {"a"}}, {1, 1});
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(Generate(*engine, {}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(Generate(*engine, {.prompt = {1}, .max_tokens = 0}).error().message.find("max_tokens"),
            std::string::npos);
  EXPECT_FALSE(Generate(*engine, {.prompt = {1}, .stops = {""}}).ok());
}

}  // namespace
}  // namespace quire
