// What of an answer's tokens its text shows: control tokens, and the token or string that ended it.
#include <algorithm>

#include "engine/answer.h"
#include "engine/requests_fixture.h"
#include "text/spm_tokenizer.h"
#include "text/tokenizer_fixtures.h"

namespace quire {
namespace {

using testing::GreedyRequest;
using testing::RunOne;
using testing::RunTogether;

class AnswerTextTest : public testing::RequestsFixture {
 protected:
  // After a: <ctl>, b, c, <end>.
  std::unique_ptr<Engine> WithControl() {
    std::vector<std::vector<float>> logits(6, std::vector<float>(6, 0.0f));
    const std::vector<size_t> next{0, 5, 3, 0, 0, 2};
    for (size_t i = 0; i < next.size(); ++i) logits[i][next[i]] = 20;
    testing::WriteMarkovModel(
        Path(), {{"<end>", true}, {"a"}, {"b"}, {"c"}, {"d"}, {"<ctl>", true}}, logits);
    return testing::MakeTestEngine(Path());
  }

  // The choice, whose text is what its pieces say.
  static Choice Streamed(Engine& engine, const Request& request) {
    std::string text;
    RequestResult result;
    const auto id = engine.Submit(
        request, {.on_piece = [&](const AnswerPiece& piece) { text += piece.text; },
                  .on_finish = [&](RequestResult ended) { result = std::move(ended); }});
    EXPECT_TRUE(id.ok());
    testing::RunChecked(engine);
    if (request.beams.width == 0) {
      EXPECT_EQ(text, result.choices.at(0).text);
    }
    return result.choices.at(0);
  }
};

TEST_F(AnswerTextTest, ControlTokensAreSpelledOutWhereAskedFor) {
  const auto engine = WithControl();
  Request request = GreedyRequest({1}, 9);
  EXPECT_EQ(Streamed(*engine, request).text, "bc");
  request.show_control_tokens = true;
  const Choice shown = Streamed(*engine, request);
  EXPECT_EQ(shown.text, "<ctl>bc");
  EXPECT_EQ(shown.tokens, (std::vector<int32_t>{5, 2, 3, 0}));
  EXPECT_EQ(shown.matched_stop_token, 0);
  request.ignore_end_of_text = true;
  request.max_tokens = 5;
  EXPECT_EQ(Streamed(*engine, request).text, "<ctl>bc<end><end>");
}

TEST_F(AnswerTextTest, StopStringsSeeControlTokensThatAreShown) {
  const auto engine = WithControl();
  Request request = GreedyRequest({1}, 9);
  request.stops = {"l>b"};
  EXPECT_EQ(Streamed(*engine, request).text, "bc");
  request.show_control_tokens = true;
  const Choice stopped = Streamed(*engine, request);
  EXPECT_EQ(stopped.text, "<ct");
  EXPECT_EQ(stopped.matched_stop, "l>b");
  EXPECT_EQ(stopped.tokens, (std::vector<int32_t>{5, 2}));
}

TEST_F(AnswerTextTest, TheTokenThatEndsAnAnswerIsShownWithIncludeStopOnly) {
  const auto engine = WithControl();
  Request request = GreedyRequest({1}, 9);
  request.include_stop = true;
  EXPECT_EQ(Streamed(*engine, request).text, "bc");  // a control token has no text
  request.show_control_tokens = true;
  EXPECT_EQ(Streamed(*engine, request).text, "<ctl>bc<end>");
  request.show_control_tokens = false;
  request.stop_token_ids = {3};
  const Choice kept = Streamed(*engine, request);
  EXPECT_EQ(kept.text, "bc");
  EXPECT_EQ(kept.matched_stop_token, 3);
  EXPECT_EQ(kept.finish_reason, FinishReason::kStop);
  EXPECT_EQ(kept.tokens.back(), 3);
  request.include_stop = false;
  EXPECT_EQ(Streamed(*engine, request).text, "b");
}

TEST_F(AnswerTextTest, AStopStringThatTheStopTokenCompletesIsMatched) {
  const auto engine = WithControl();
  Request request = GreedyRequest({1}, 9);
  request.stop_token_ids = {3};
  request.stops = {"bc"};
  EXPECT_EQ(Streamed(*engine, request).text, "b");  // c is no part of the text
  request.include_stop = true;
  const Choice kept = Streamed(*engine, request);
  EXPECT_EQ(kept.text, "bc");
  EXPECT_EQ(kept.matched_stop, "bc");
  EXPECT_EQ(kept.matched_stop_token, 3);
  EXPECT_EQ(kept.finish_reason, FinishReason::kStop);
}

TEST_F(AnswerTextTest, ATextThatOnlyBeginsAStopStringIsShownBeforeTheStopToken) {
  const auto engine = WithControl();
  Request request = GreedyRequest({1}, 9);
  request.stop_token_ids = {3};
  request.stops = {"bcd"};
  EXPECT_EQ(Streamed(*engine, request).text, "b");
  request.include_stop = true;
  EXPECT_EQ(Streamed(*engine, request).text, "bc");
}

TEST_F(AnswerTextTest, BeamsShowTheSame) {
  const auto engine = WithControl();
  Request request = GreedyRequest({1}, 9);
  request.beams.width = 1;
  EXPECT_EQ(Streamed(*engine, request).text, "bc");
  request.show_control_tokens = true;
  EXPECT_EQ(Streamed(*engine, request).text, "<ctl>bc");
  request.include_stop = true;
  EXPECT_EQ(Streamed(*engine, request).text, "<ctl>bc<end>");
}

// The dummy space in front of a SentencePiece text goes once, whatever holds pieces back.
TEST_F(AnswerTextTest, TheDummySpaceGoesOnceStreamedOrNot) {
  const auto tokenizer = SpmTokenizer::Create(MinimalVocabulary("llama2_minimal"));
  ASSERT_TRUE(tokenizer.ok());
  const Tokenizer& base = **tokenizer;
  const std::vector<int32_t> ids{29871, 8236, 921};
  for (const std::vector<std::string>& stops :
       {std::vector<std::string>{}, {"never", " leading y"}}) {
    for (const bool show_control_tokens : {false, true}) {
      const Request request{
          .prompt = {1}, .stops = stops, .show_control_tokens = show_control_tokens};
      auto answer = Answer::Create(base, request, 0, 1, 100);
      ASSERT_TRUE(answer.ok());
      std::string streamed;
      for (const int32_t id : ids) streamed += answer->Push({.token = id, .log_probs = {}});
      streamed += answer->Finish(FinishReason::kLength);
      EXPECT_EQ(streamed, " leading x");
      EXPECT_EQ(answer->choice().text, streamed);
      EXPECT_EQ(base.Decode(ids, show_control_tokens), streamed);
    }
  }
}

// Whatever an answer shows, a prompt that repeats it is read as text: nobody gets a control token
// into a prompt by quoting one.
TEST_F(AnswerTextTest, AnAnswerWithControlTokensComesBackAsText) {
  const auto engine = Tiny();
  const Tokenizer& tokenizer = engine->model().tokenizer();
  const int32_t control = tokenizer.FindToken("<|im_start|>");
  ASSERT_GE(control, 0);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<PromptPiece> pieces{{"<|im_start|>", true}, {"hello", false}};
    Request request = Sampled(engine->EncodePrompt(pieces, ""), 12, seed);
    request.prompt_pieces = pieces;
    request.show_control_tokens = true;
    request.sampling.allowed_token_ids = {control, 'a', 'b', 'c', ' ', 't', 'h'};
    const Choice choice = RunOne(*engine, request).choices.at(0);
    pieces.push_back({choice.text, false});
    const std::vector<int32_t> next = engine->EncodePrompt(pieces, "");
    EXPECT_EQ(std::ranges::count(next, control), 1) << choice.text;
    EXPECT_EQ(tokenizer.Decode(next), "hello" + choice.text);
    // The ids before the first control token are those that were sampled.
    const auto known =
        static_cast<size_t>(std::ranges::find(choice.tokens, control) - choice.tokens.begin());
    const size_t prompt_tokens = request.prompt.size();
    ASSERT_GE(next.size(), prompt_tokens + known);
    EXPECT_TRUE(std::equal(choice.tokens.begin(),
                           choice.tokens.begin() + static_cast<ptrdiff_t>(known),
                           next.begin() + static_cast<ptrdiff_t>(prompt_tokens)));
  }
}

}  // namespace
}  // namespace quire
