#include "server/openai/stream.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <chrono>
#include <map>
#include <random>

#include "server/openai/byte_tokenizer.h"
#include "text/stream_decoder.h"

namespace quire {
namespace {

namespace json = boost::json;

// The events of a stream; [DONE] is a null.
std::vector<json::value> Events(std::string_view text) {
  std::vector<json::value> events;
  while (!text.empty()) {
    const size_t end = text.find("\n\n");
    if (!text.starts_with("data: ") || end == text.npos) {
      ADD_FAILURE() << "no event: " << text;
      break;
    }
    const std::string_view data = text.substr(6, end - 6);
    events.push_back(data == "[DONE]" ? json::value(nullptr) : json::parse(data));
    text.remove_prefix(end + 2);
  }
  return events;
}

// Joins lists of JSON, member by member.
void Join(json::value& sum, const json::value& more) {
  if (more.is_null()) return;
  if (sum.is_null()) {
    sum = more;
  } else if (more.is_string()) {
    sum = std::string(sum.as_string()) + std::string(more.as_string());
  } else if (more.is_array()) {
    for (const json::value& item : more.as_array()) sum.as_array().push_back(item);
  } else {
    for (const auto& [key, value] : more.as_object()) Join(sum.as_object()[key], value);
  }
}

// What a client makes of the chunks of a stream: the choices of a body.
json::array Assembled(const std::vector<json::value>& events, bool is_chat) {
  std::map<int64_t, json::object> choices;
  for (const json::value& event : events) {
    if (event.is_null()) continue;
    for (const json::value& part : event.at("choices").as_array()) {
      json::object& choice = choices[part.at("index").as_int64()];
      choice["index"] = part.at("index");
      for (const char* name :
           {"logprobs", "finish_reason", "stop_reason", "token_ids", "text", "prompt_token_ids"}) {
        if (const auto* value = part.as_object().if_contains(name)) Join(choice[name], *value);
      }
      if (!is_chat) continue;
      json::value& message = choice["message"];
      if (message.is_null()) message = json::object();
      const json::object& delta = part.at("delta").as_object();
      for (const char* name : {"role", "content"}) {
        if (const auto* value = delta.if_contains(name)) Join(message.as_object()[name], *value);
      }
      if (!delta.contains("tool_calls")) continue;
      json::value& calls = message.as_object()["tool_calls"];
      if (calls.is_null()) calls = json::array();
      for (const json::value& call : delta.at("tool_calls").as_array()) {
        const auto index = call.at("index").to_number<size_t>();
        if (index == calls.as_array().size()) calls.as_array().emplace_back(json::object());
        json::object rest = call.as_object();
        rest.erase("index");
        for (const auto& [key, value] : rest) Join(calls.at(index).as_object()[key], value);
      }
    }
  }
  json::array list;
  for (auto& [index, choice] : choices) list.emplace_back(std::move(choice));
  return list;
}

// The body's choices without what a stream cannot tell from its absence.
json::array Comparable(json::array choices) {
  for (json::value& choice : choices) {
    auto* message = choice.as_object().if_contains("message");
    if (message == nullptr) continue;
    message->as_object().erase("refusal");
    if (message->at("content").is_null()) message->as_object()["content"] = "";
  }
  return choices;
}

class ChunkWriterTest : public BodyTest {
 protected:
  static constexpr std::string_view kTools =
      R"("tools":[{"type":"function","function":{"name":"add"}}])";

  // An answer of these tokens as the engine tells it: with `stop`, what that cuts off is no text.
  Choice ChoiceOf(int index, const std::vector<int32_t>& tokens, std::string_view stop) {
    Choice choice{.index = index};
    StreamDecoder decoder(*tokenizer_);
    for (const int32_t token : tokens) {
      choice.tokens.push_back(token);
      choice.log_probs.push_back({.chosen = {token, -0.5}, .top = {{token, -0.5}, {kAb, -1.5}}});
      choice.text += decoder.Push(token);
      const size_t at = stop.empty() ? choice.text.npos : choice.text.find(stop);
      if (at != choice.text.npos) {
        choice.text.resize(at);
        choice.matched_stop = stop;
        return choice;
      }
    }
    choice.text += decoder.Finish();
    return choice;
  }

  // Tells it in pieces: text as far as no stop string may begin in it.
  void WritePieces(ChunkWriter& writer, size_t prompt, const Choice& choice, size_t stop_size,
                   std::mt19937& random, std::string& out) {
    StreamDecoder decoder(*tokenizer_);
    std::string text;
    size_t shown = 0;
    size_t begin = 0;
    // Sometimes the last tokens come with the end alone.
    const size_t count = choice.tokens.size() - (random() % 3 == 0 ? choice.tokens.size() / 2 : 0);
    for (size_t i = 0; i < count; ++i) {
      text += decoder.Push(choice.tokens[i]);
      if (random() % 3 == 0) continue;
      size_t safe = text.size() - std::min(text.size(), stop_size);
      while (safe > 0 && safe < text.size() && (text[safe] & 0xC0) == 0x80) --safe;
      const size_t until = std::max(shown, std::min(safe, choice.text.size()));
      writer.Piece({.prompt = prompt,
                    .choice = choice.index,
                    .text = std::string_view(choice.text).substr(shown, until - shown),
                    .tokens = std::span(choice.tokens).subspan(begin, i + 1 - begin),
                    .log_probs = std::span(choice.log_probs).subspan(begin, i + 1 - begin)},
                   out);
      shown = until;
      begin = i + 1;
    }
  }

  std::vector<int32_t> RandomTokens(std::mt19937& random) {
    static const std::vector<std::string> kScraps = {
        "<tool_call>", "</tool_call>", "{\"name\":\"add\",\"arguments\":{\"a\":1}}",
        "é",           "\xe6\xbc",     "x",
        " \n",         "\"\\\t",       "xyz"};
    std::vector<int32_t> tokens;
    for (uint32_t k = random() % 10; k > 0; --k) {
      const auto more = Bytes(kScraps[random() % kScraps.size()]);
      tokens.insert(tokens.end(), more.begin(), more.end());
      if (random() % 4 == 0) tokens.push_back(kAb);
    }
    tokens.push_back(kEos);
    return tokens;
  }

  std::string Write(ChunkWriter& writer, const PromptAnswer& answer, size_t prompt = 0) {
    std::string out;
    writer.Begin(prompt, answer.prompt, answer.num_added, out);
    writer.End(prompt, answer, out);
    return out;
  }
  static ResponseHead Head(ToolDialect dialect = ToolDialect::kNone) {
    return {.id = "cmpl-1", .model = "ti\"ny", .created = 1700000000, .dialect = dialect};
  }
};

TEST_F(ChunkWriterTest, JoinsToTheBodyOfTheSameAnswers) {
  std::mt19937 random(7);
  const std::vector<std::string> members = {
      R"("n":2)",
      R"("n":1,"stop":"xyz")",
      R"("n":2,"logprobs":L)",
      R"("n":3,"logprobs":L,"stop":"xyz","return_token_ids":true)",
      R"("return_token_ids":true,"echo":true)",
      R"("n":2,"logprobs":L,"echo":true,"return_tokens_as_token_ids":true)",
      R"("use_beam_search":true,"n":2)",
  };
  for (int round = 0; round < 600; ++round) {
    const bool is_chat = random() % 2 == 0;
    std::string text = members[random() % members.size()];
    if (const size_t at = text.find(":L"); at != text.npos) {
      text.replace(at, 2, is_chat ? R"(:true,"top_logprobs":2)" : ":1");
    }
    const bool has_tools = is_chat && random() % 2 == 0;
    if (has_tools) text += "," + std::string(kTools);
    if (has_tools && random() % 4 == 0) text += R"(,"parallel_tool_calls":false)";
    SCOPED_TRACE(text + " round " + std::to_string(round));
    OpenAiRequest body = is_chat ? Chat(text) : Completion(text);
    const size_t num_prompts = is_chat ? 1 : 1 + random() % 2;
    const bool has_stop = !body.request.stops.empty();
    const ResponseHead head = Head(has_tools ? ToolDialect::kHermes : ToolDialect::kNone);

    ChunkWriter writer(body, *tokenizer_, head);
    std::vector<PromptAnswer> answers;
    std::string out;
    for (size_t i = 0; i < num_prompts; ++i) {
      PromptAnswer answer{.prompt = {kBos, kAb, Byte('c')}, .num_added = 1};
      answer.result.prompt_tokens = 3;
      answer.result.prompt_log_probs = {std::nullopt, LogProbs{.chosen = {kAb, -1.0}, .top = {}},
                                        LogProbs{.chosen = {Byte('c'), -2.0}, .top = {}}};
      writer.Begin(i, answer.prompt, answer.num_added, out);
      for (int k = 0; k < body.request.num_choices; ++k) {
        answer.result.choices.push_back(ChoiceOf(k, RandomTokens(random), has_stop ? "xyz" : ""));
        const Choice& choice = answer.result.choices.back();
        WritePieces(writer, i, choice, has_stop ? 3 : 0, random, out);
      }
      answers.push_back(std::move(answer));
    }
    for (size_t i = 0; i < num_prompts; ++i) writer.End(i, answers[i], out);
    writer.Finish(out);

    const json::value whole = json::parse(ResponseBody(body, answers, *tokenizer_, head));
    const json::array choices = Comparable(whole.at("choices").as_array());
    const json::array streamed = Assembled(Events(out), is_chat);
    ASSERT_EQ(json::value(streamed), json::value(choices)) << out;
    if (HasFailure()) return;
  }
}

TEST_F(ChunkWriterTest, WritesAChatAsClientsExpect) {
  const OpenAiRequest body = Chat(R"("stream":true)");
  ChunkWriter writer(body, *tokenizer_, Head());
  PromptAnswer answer{.prompt = {kAb}};
  answer.result.choices.push_back(ChoiceOf(0, Bytes("hi"), ""));
  std::string out;
  writer.Begin(0, answer.prompt, 0, out);
  writer.Piece({.text = "h", .tokens = std::span(answer.result.choices[0].tokens).first(1)}, out);
  writer.Piece({.text = "", .tokens = std::span(answer.result.choices[0].tokens).subspan(1)}, out);
  writer.End(0, answer, out);
  writer.Finish(out);
  const std::string head =
      R"(data: {"id":"cmpl-1","object":"chat.completion.chunk",)"
      R"("created":1700000000,"model":"ti\"ny","choices":[{"index":0,"delta":)";
  const std::string tail = R"(,"logprobs":null,"finish_reason":null}]})"
                           "\n\n";
  EXPECT_EQ(out, head + R"({"role":"assistant","content":""})" + tail + head +
                     R"({"content":"h"})" + tail + head + R"({"content":"i"})" + tail + head +
                     R"({},"logprobs":null,"finish_reason":"stop","stop_reason":null}]})" +
                     "\n\ndata: [DONE]\n\n");
}

TEST_F(ChunkWriterTest, TellsUsageOnceAtTheEndWhereAskedFor) {
  const OpenAiRequest body =
      Completion(R"("stream":true,"quire":true,"stream_options":{"include_usage":true})");
  ChunkWriter writer(body, *tokenizer_, Head());
  PromptAnswer answer{.prompt = {kAb}};
  answer.result.prompt_tokens = 20;
  answer.result.cached_tokens = 16;
  answer.result.choices.push_back(ChoiceOf(0, Bytes("hi"), ""));
  std::string out = Write(writer, answer);
  writer.Finish(out);
  const auto events = Events(out);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_TRUE(events[0].at("usage").is_null());
  EXPECT_TRUE(events[1].at("usage").is_null());
  EXPECT_TRUE(events[2].at("choices").as_array().empty());
  const json::value whole = json::parse(ResponseBody(body, {&answer, 1}, *tokenizer_, Head()));
  EXPECT_EQ(events[2].at("usage"), whole.at("usage"));
  EXPECT_TRUE(events[3].is_null());
}

TEST_F(ChunkWriterTest, CountsAsItGoesWhereAskedFor) {
  const OpenAiRequest body =
      Chat(R"("stream":true,"stream_options":{"continuous_usage_stats":true})");
  ChunkWriter writer(body, *tokenizer_, Head());
  std::string out;
  const std::vector<int32_t> tokens = Bytes("hi");
  writer.Begin(0, tokens, 0, out);
  writer.Piece({.text = "hi", .tokens = tokens}, out);
  const auto events = Events(out);
  EXPECT_EQ(events[0].at("usage").at("completion_tokens").as_int64(), 0);
  EXPECT_EQ(events[1].at("usage"),
            json::parse(R"({"prompt_tokens":2,"completion_tokens":2,"total_tokens":4})"));
}

TEST_F(ChunkWriterTest, StreamsTextWhileToolsAreOffered) {
  const OpenAiRequest body = Chat(std::string(kTools));
  ChunkWriter writer(body, *tokenizer_, Head(ToolDialect::kHermes));
  std::string out;
  writer.Begin(0, std::vector<int32_t>{kAb}, 0, out);
  for (const char* text : {"It ", "is", " 7.", " <tool", "s>"}) writer.Piece({.text = text}, out);
  // The role, and each piece as soon as it cannot be a call.
  EXPECT_EQ(Events(out).size(), 5u);
}

TEST_F(ChunkWriterTest, TellsACallByNameThenArguments) {
  const OpenAiRequest body = Chat(std::string(kTools));
  ChunkWriter writer(body, *tokenizer_, Head(ToolDialect::kHermes));
  PromptAnswer answer{.prompt = {kAb}};
  answer.result.choices.push_back(
      ChoiceOf(0, Bytes(R"(<tool_call>{"name":"add","arguments":{"a":"\""}}</tool_call>)"), ""));
  const auto events = Events(Write(writer, answer));
  ASSERT_EQ(events.size(), 4u);
  const auto call = [&](size_t event) {
    return events[event].at("choices").at(0).at("delta").at("tool_calls").at(0);
  };
  EXPECT_EQ(call(1).at("index").as_int64(), 0);
  EXPECT_EQ(call(1).at("type").as_string(), "function");
  EXPECT_EQ(call(1).at("function").at("name").as_string(), "add");
  EXPECT_EQ(call(1).at("function").at("arguments").as_string(), "");
  EXPECT_EQ(call(2).at("function").at("arguments").as_string(), R"({"a":"\""})");
  EXPECT_EQ(events[3].at("choices").at(0).at("finish_reason").as_string(), "tool_calls");
}

TEST_F(ChunkWriterTest, TellsTheEchoAloneWhereNothingElseIsAskedFor) {
  const OpenAiRequest body = Completion(R"("echo":true,"max_tokens":0,"stream":true)");
  ChunkWriter writer(body, *tokenizer_, Head());
  PromptAnswer answer{.prompt = {kBos, kAb}, .num_added = 1};
  answer.result.choices.push_back(ChoiceOf(0, Bytes("hidden"), ""));
  const auto choices = Assembled(Events(Write(writer, answer)), false);
  EXPECT_EQ(choices.at(0).at("text").as_string(), "ab");
  EXPECT_EQ(choices.at(0).at("finish_reason").as_string(), "length");
}

TEST_F(ChunkWriterTest, BringsErrorsAsEvents) {
  std::string out;
  AppendErrorEvent({.status = 500, .message = "line\nbreak"}, out);
  const auto events = Events(out);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].at("error").at("message").as_string(), "line\nbreak");
  EXPECT_TRUE(events[1].is_null());
}

}  // namespace
}  // namespace quire
