#include "server/openai/response.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "server/openai/byte_tokenizer.h"

namespace quire {
namespace {

class OpenAiResponse : public BodyTest {
 protected:
  boost::json::value Respond(const OpenAiRequest& body, std::vector<PromptAnswer> answers) {
    return boost::json::parse(ResponseBody(
        body, answers, *tokenizer_, {.id = "cmpl-1", .model = "tiny", .created = 1700000000}));
  }

  static LogProbs Entry(int32_t chosen, double log_prob, std::vector<TokenLogProb> top) {
    return {.chosen = {chosen, log_prob}, .top = std::move(top)};
  }
  // "ab" as prompt; "é!" and the end-of-text token as answer.
  PromptAnswer Answer() const {
    const int32_t first = Byte(0xC3);
    const int32_t second = Byte(0xA9);
    const int32_t mark = Byte('!');
    PromptAnswer answer{.prompt = {kBos, kAb}, .num_added = 1};
    answer.result.prompt_tokens = 2;
    answer.result.prompt_log_probs = {std::nullopt, Entry(kAb, -0.5, {{mark, -0.25}, {kAb, -0.5}})};
    answer.result.choices.push_back(
        {.text = "é!",
         .tokens = {first, second, mark, kEos},
         .log_probs = {Entry(first, -1, {{mark, -0.5}, {first, -1}}),
                       Entry(second, -0.125, {{second, -0.125}}),
                       Entry(mark, -2, {{kAb, -0.5}, {mark, -2}}),
                       Entry(kEos, -INFINITY, {{kAb, -0.5}, {kEos, -INFINITY}})},
         .matched_stop_token = kEos});
    return answer;
  }
};

TEST_F(OpenAiResponse, OfAChatHasTheMessageAndTheUsage) {
  PromptAnswer answer = Answer();
  answer.result.prompt_tokens = 20;
  answer.result.cached_tokens = 16;
  const auto body = Respond(Chat(), {answer});
  EXPECT_EQ(body.at("object").as_string(), "chat.completion");
  EXPECT_EQ(body.at("id").as_string(), "cmpl-1");
  EXPECT_EQ(body.at("model").as_string(), "tiny");
  EXPECT_EQ(body.at("created").as_int64(), 1700000000);
  const auto& choice = body.at("choices").at(0);
  EXPECT_EQ(choice.at("index").as_int64(), 0);
  EXPECT_EQ(choice.at("message").at("role").as_string(), "assistant");
  EXPECT_EQ(choice.at("message").at("content").as_string(), "é!");
  EXPECT_EQ(choice.at("finish_reason").as_string(), "stop");
  EXPECT_TRUE(choice.at("stop_reason").is_null());
  EXPECT_TRUE(choice.at("logprobs").is_null());
  EXPECT_EQ(body.at("usage").at("prompt_tokens").as_int64(), 20);
  EXPECT_EQ(body.at("usage").at("completion_tokens").as_int64(), 4);
  EXPECT_EQ(body.at("usage").at("total_tokens").as_int64(), 24);
  EXPECT_EQ(body.at("usage").at("prompt_tokens_details").at("cached_tokens").as_int64(), 16);
}

TEST_F(OpenAiResponse, TellsDraftsThatWereDrawnAndThoseThatWereNot) {
  auto answer = Answer();
  answer.result.draft_tokens = 9;
  answer.result.accepted_draft_tokens = 3;
  const auto body = Respond(Chat(), {answer});
  EXPECT_EQ(
      body.at("usage").at("completion_tokens_details"),
      boost::json::parse(R"({"accepted_prediction_tokens":3,"rejected_prediction_tokens":6})"));
  const auto none = Respond(Chat(), {Answer()});
  EXPECT_EQ(
      none.at("usage").at("completion_tokens_details"),
      boost::json::parse(R"({"accepted_prediction_tokens":0,"rejected_prediction_tokens":0})"));
}

TEST_F(OpenAiResponse, SaysZeroCachedTokensOnAMiss) {
  const auto body = Respond(Completion(), {Answer()});
  EXPECT_EQ(body.at("usage").at("prompt_tokens_details").at("cached_tokens").as_int64(), 0);
}

TEST_F(OpenAiResponse, OfAChatWritesLogProbabilitiesWithBytes) {
  const auto body = Respond(Chat(R"("logprobs":true,"top_logprobs":1)"), {Answer()});
  const auto& content = body.at("choices").at(0).at("logprobs").at("content").as_array();
  ASSERT_EQ(content.size(), 4u);
  EXPECT_EQ(content[0].at("token").as_string(), "\xEF\xBF\xBD");
  EXPECT_EQ(content[0].at("bytes"), boost::json::parse("[195]"));
  EXPECT_EQ(content[0].at("logprob").as_double(), -1.0);
  // Exactly as many as asked for: the chosen token is not among them.
  ASSERT_EQ(content[0].at("top_logprobs").as_array().size(), 1u);
  EXPECT_EQ(content[0].at("top_logprobs").at(0).at("token").as_string(), "!");
  EXPECT_EQ(content[3].at("token").as_string(), "<eos>");
  EXPECT_EQ(content[3].at("logprob").as_double(), -9999.0);
  const auto none = Respond(Chat(R"("logprobs":true)"), {Answer()});
  EXPECT_TRUE(none.at("choices")
                  .at(0)
                  .at("logprobs")
                  .at("content")
                  .at(0)
                  .at("top_logprobs")
                  .as_array()
                  .empty());
}

TEST_F(OpenAiResponse, OfACompletionWritesParallelArrays) {
  const auto body = Respond(Completion(R"("logprobs":1)"), {Answer()});
  EXPECT_EQ(body.at("object").as_string(), "text_completion");
  const auto& choice = body.at("choices").at(0);
  EXPECT_EQ(choice.at("text").as_string(), "é!");
  const auto& logprobs = choice.at("logprobs");
  EXPECT_EQ(logprobs.at("tokens"),
            boost::json::parse(R"(["bytes:\\xc3","bytes:\\xa9","!","<eos>"])"));
  EXPECT_EQ(logprobs.at("token_logprobs"), boost::json::parse("[-1.0,-0.125,-2.0,-9999.0]"));
  // Characters: the two bytes of é are one.
  EXPECT_EQ(logprobs.at("text_offset"), boost::json::parse("[0,0,1,2]"));
  EXPECT_EQ(logprobs.at("top_logprobs").at(0),
            boost::json::parse(R"({"bytes:\\xc3":-1.0,"!":-0.5})"));
  const auto chosen = Respond(Completion(R"("logprobs":0)"), {Answer()});
  EXPECT_EQ(chosen.at("choices").at(0).at("logprobs").at("top_logprobs").at(2),
            boost::json::parse(R"({"!":-2.0})"));
}

TEST_F(OpenAiResponse, EchoesThePromptWithItsLogProbabilitiesInFront) {
  const auto body = Respond(Completion(R"("logprobs":1,"echo":true)"), {Answer()});
  const auto& choice = body.at("choices").at(0);
  EXPECT_EQ(choice.at("text").as_string(), "abé!");
  const auto& logprobs = choice.at("logprobs");
  EXPECT_EQ(logprobs.at("tokens"),
            boost::json::parse(R"(["<bos>","ab","bytes:\\xc3","bytes:\\xa9","!","<eos>"])"));
  EXPECT_TRUE(logprobs.at("token_logprobs").at(0).is_null());
  EXPECT_TRUE(logprobs.at("top_logprobs").at(0).is_null());
  EXPECT_EQ(logprobs.at("token_logprobs").at(1).as_double(), -0.5);
  EXPECT_EQ(logprobs.at("text_offset"), boost::json::parse("[0,0,2,2,3,4]"));
}

TEST_F(OpenAiResponse, OfNoNewTokensIsTheEchoAlone) {
  PromptAnswer answer = Answer();
  const auto body = Respond(Completion(R"("logprobs":1,"echo":true,"max_tokens":0)"), {answer});
  const auto& choice = body.at("choices").at(0);
  EXPECT_EQ(choice.at("text").as_string(), "ab");
  EXPECT_EQ(choice.at("finish_reason").as_string(), "length");
  EXPECT_EQ(choice.at("logprobs").at("tokens").as_array().size(), 2u);
  EXPECT_EQ(body.at("usage").at("completion_tokens").as_int64(), 0);
}

TEST_F(OpenAiResponse, NumbersChoicesPromptByPrompt) {
  PromptAnswer first = Answer();
  first.result.choices.push_back({.index = 1, .text = "second", .tokens = {kAb}});
  PromptAnswer second = Answer();
  second.result.choices[0].text = "third";
  second.result.cached_tokens = 1;
  const auto body = Respond(Completion(), {first, second});
  const auto& choices = body.at("choices").as_array();
  ASSERT_EQ(choices.size(), 3u);
  EXPECT_EQ(choices[1].at("index").as_int64(), 1);
  EXPECT_EQ(choices[1].at("text").as_string(), "second");
  EXPECT_EQ(choices[2].at("index").as_int64(), 2);
  EXPECT_EQ(choices[2].at("text").as_string(), "third");
  // Each prompt once, all answers.
  EXPECT_EQ(body.at("usage").at("prompt_tokens").as_int64(), 4);
  EXPECT_EQ(body.at("usage").at("completion_tokens").as_int64(), 9);
  EXPECT_EQ(body.at("usage").at("prompt_tokens_details").at("cached_tokens").as_int64(), 1);
}

TEST_F(OpenAiResponse, NamesFinishReasonsThatClientsKnow) {
  const auto reason = [&](FinishReason finish_reason) {
    PromptAnswer answer = Answer();
    answer.result.choices[0].finish_reason = finish_reason;
    return std::string(
        Respond(Chat(), {answer}).at("choices").at(0).at("finish_reason").as_string());
  };
  EXPECT_EQ(reason(FinishReason::kStop), "stop");
  EXPECT_EQ(reason(FinishReason::kLength), "length");
  EXPECT_EQ(reason(FinishReason::kAborted), "abort");
  EXPECT_EQ(reason(FinishReason::kTimeout), "abort");
}

TEST_F(OpenAiResponse, TellsWhichStopOfTheRequestEndedIt) {
  PromptAnswer answer = Answer();
  EXPECT_EQ(
      Respond(Chat(R"("stop_token_ids":[257])"), {answer}).at("choices").at(0).at("stop_reason"),
      boost::json::value(257));
  answer.result.choices[0].matched_stop_token.reset();
  answer.result.choices[0].matched_stop = "!!";
  EXPECT_EQ(Respond(Chat(), {answer}).at("choices").at(0).at("stop_reason"),
            boost::json::value("!!"));
}

TEST_F(OpenAiResponse, ReportsTheIdsWhereAskedFor) {
  const auto completion = Respond(Completion(R"("return_token_ids":true)"), {Answer()});
  EXPECT_EQ(completion.at("choices").at(0).at("prompt_token_ids"), boost::json::value({kBos, kAb}));
  EXPECT_EQ(completion.at("choices").at(0).at("token_ids").as_array().size(), 4u);
  const auto chat = Respond(Chat(R"("return_token_ids":true)"), {Answer()});
  EXPECT_EQ(chat.at("prompt_token_ids"), boost::json::value({kBos, kAb}));
  EXPECT_EQ(chat.at("choices").at(0).at("token_ids").at(3), boost::json::value(kEos));
  EXPECT_FALSE(Respond(Chat(), {Answer()}).as_object().contains("prompt_token_ids"));
}

TEST_F(OpenAiResponse, WritesPromptLogProbabilitiesInVllmsForm) {
  const auto body = Respond(Chat(R"("prompt_logprobs":1)"), {Answer()});
  const auto& list = body.at("prompt_logprobs").as_array();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_TRUE(list[0].is_null());
  const auto& entry = list[1].as_object();
  EXPECT_EQ(entry.size(), 2u);
  EXPECT_EQ(entry.at(std::to_string(Byte('!'))).at("rank").as_int64(), 1);
  EXPECT_EQ(entry.at("258").at("logprob").as_double(), -0.5);
  EXPECT_EQ(entry.at("258").at("decoded_token").as_string(), "ab");
  EXPECT_TRUE(entry.at("258").at("rank").is_null());
}

TEST_F(OpenAiResponse, SpellsTokensAsIdsWhereAskedFor) {
  const auto body =
      Respond(Completion(R"("logprobs":1,"return_tokens_as_token_ids":true)"), {Answer()});
  EXPECT_EQ(body.at("choices").at(0).at("logprobs").at("tokens").at(3).as_string(), "token_id:257");
}

TEST_F(OpenAiResponse, GivesCallsOfToolsTheirPlace) {
  PromptAnswer answer = Answer();
  answer.result.choices[0].text =
      "Let me see.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 2}}\n</tool_call>";
  const OpenAiRequest body = Chat(R"("tools":[{"type":"function","function":{"name":"add"}}])");
  const auto respond = [&] {
    return boost::json::parse(ResponseBody(body, {&answer, 1}, *tokenizer_,
                                           {.id = "x", .dialect = ToolDialect::kHermes}));
  };
  const auto choice = respond().at("choices").at(0);
  EXPECT_EQ(choice.at("finish_reason").as_string(), "tool_calls");
  EXPECT_EQ(choice.at("message").at("content").as_string(), "Let me see.");
  const auto& call = choice.at("message").at("tool_calls").at(0);
  EXPECT_TRUE(call.at("id").as_string().starts_with("call_"));
  EXPECT_EQ(call.at("id").as_string().size(), 29u);
  EXPECT_EQ(call.at("type").as_string(), "function");
  EXPECT_EQ(call.at("function").at("name").as_string(), "add");
  EXPECT_EQ(call.at("function").at("arguments").as_string(), R"({"a": 2})");
  // Nothing said beside the call: null, as the API has it.
  answer.result.choices[0].text.erase(0, 11);
  EXPECT_TRUE(respond().at("choices").at(0).at("message").at("content").is_null());
  answer.result.choices[0].finish_reason = FinishReason::kLength;
  EXPECT_EQ(respond().at("choices").at(0).at("finish_reason").as_string(), "length");
}

TEST_F(OpenAiResponse, TellsWhatIsOursWhereAskedFor) {
  PromptAnswer answer = Answer();
  answer.result.queue_ms = 2.5;
  answer.result.first_token_ms = 10;
  answer.result.num_preemptions = 3;
  answer.result.miss = {.reason = MissReason::kDiffers, .position = 1, .cached_tokens = {kAb, kAb}};
  const auto quire = [&](const OpenAiRequest& body) {
    return Respond(body, {answer}).at("usage").at("quire");
  };
  EXPECT_EQ(quire(Chat(R"("quire":true)")), boost::json::parse(R"({
      "queue_ms":2.5,"prefill_ms":7.5,"tier_wait_ms":0.0,"preemptions":3,
      "cached_by_tier":{"memory":0,"disk":0,"remote":0},
      "miss":{"reason":"differs","message":"what is cached goes on with other text at token 1",
      "position":1,"prompt_text":"ab","cached_text":"abab"}})"));
  answer.result.miss = {.reason = MissReason::kEvicted, .position = 0, .evicted_ms_ago = 1500};
  EXPECT_EQ(quire(Chat(R"("quire":true)")).at("miss"), boost::json::parse(R"({
      "reason":"evicted","message":"evicted 1.5 s ago","position":0,
      "prompt_text":"<bos>ab","evicted_ms_ago":1500.0})"));
  answer.result.miss = {};
  EXPECT_TRUE(quire(Chat(R"("quire":true)")).at("miss").is_null());
  const auto usage = Respond(Chat(), {answer}).at("usage");
  EXPECT_FALSE(usage.as_object().contains("quire"));
}

TEST_F(OpenAiResponse, TellsOfEachPromptWhereThereAreSeveral) {
  PromptAnswer first = Answer();
  first.result.queue_ms = 1;
  PromptAnswer second = Answer();
  second.result.queue_ms = 4;
  second.result.miss = {.reason = MissReason::kNeverSeen, .position = 9};
  const auto quire =
      Respond(Completion(R"("quire":true)"), {first, second}).at("usage").at("quire");
  EXPECT_EQ(quire.at("queue_ms").as_double(), 4.0);
  EXPECT_TRUE(quire.at("miss").is_null());
  EXPECT_EQ(quire.at("prompts").at(0).at("queue_ms").as_double(), 1.0);
  EXPECT_EQ(quire.at("prompts").at(1).at("miss").at("reason").as_string(), "never_seen");
  // Beyond the prompt's end there is no text.
  EXPECT_EQ(quire.at("prompts").at(1).at("miss").at("prompt_text").as_string(), "");
}

TEST_F(OpenAiResponse, GoesOnFromTheLastMessageWithEcho) {
  const OpenAiRequest body = Parse(OpenAiEndpoint::kChatCompletions, R"({"echo":true,
      "continue_final_message":true,"messages":[{"role":"user","content":"x"},
      {"role":"assistant","content":"Well, "}]})");
  EXPECT_EQ(Respond(body, {Answer()}).at("choices").at(0).at("message").at("content").as_string(),
            "Well, é!");
}

TEST(NewResponseId, NamesTheEndpointAndNeverRepeats) {
  EXPECT_TRUE(NewResponseId(OpenAiEndpoint::kChatCompletions).starts_with("chatcmpl-"));
  EXPECT_TRUE(NewResponseId(OpenAiEndpoint::kCompletions).starts_with("cmpl-"));
  EXPECT_NE(NewResponseId(OpenAiEndpoint::kCompletions),
            NewResponseId(OpenAiEndpoint::kCompletions));
}

}  // namespace
}  // namespace quire
