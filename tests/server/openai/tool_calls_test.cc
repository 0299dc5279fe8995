#include "server/openai/tool_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "server/openai/call_text.h"
#include "server/openai/request.h"

namespace quire {
namespace {

const std::vector<std::string> kTools = {"add", "get_weather"};

// "text" and "name(arguments)", texts joined.
std::vector<std::string> Written(const std::vector<ToolDelta>& deltas) {
  std::vector<std::string> written;
  bool in_text = false;
  for (const ToolDelta& delta : deltas) {
    const bool is_text = delta.kind == ToolDelta::Kind::kText;
    if (is_text && in_text) {
      written.back() += delta.text;
    } else {
      written.push_back(is_text ? delta.text : delta.name + "(" + delta.arguments + ")");
    }
    in_text = is_text;
  }
  return written;
}

// Of the text in pieces of these lengths, and the rest.
std::vector<std::string> Parse(ToolDialect dialect, std::string_view text,
                               const std::vector<size_t>& lengths = {}, bool single_call = false) {
  ToolCallParser parser({.dialect = dialect, .names = kTools, .single_call = single_call});
  std::vector<ToolDelta> deltas;
  const auto take = [&](std::vector<ToolDelta> more) {
    for (ToolDelta& delta : more) deltas.push_back(std::move(delta));
  };
  for (const size_t length : lengths) {
    take(parser.Push(text.substr(0, length)));
    text.remove_prefix(std::min(length, text.size()));
  }
  take(parser.Push(text));
  take(parser.Finish());
  return Written(deltas);
}

struct Example {
  ToolDialect dialect;
  std::string text;
  std::vector<std::string> expected;
};

std::vector<Example> Examples() {
  constexpr auto kHermes = ToolDialect::kHermes;
  constexpr auto kJson = ToolDialect::kJson;
  return {
      {kHermes, "", {}},
      {kHermes, "plain <b>text</b> < tool", {"plain <b>text</b> < tool"}},
      {kHermes,
       "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 2, \"b\": \"x\"}}\n</tool_call>",
       {R"(add({"a": 2, "b": "x"}))"}},
      {kHermes,
       "Let me see. \n\n<tool_call>{\"name\":\"add\",\"arguments\":{}}</tool_call>\n "
       "<tool_call>{\"arguments\":{\"c\":\"}{\\\"\"},\"name\":\"other\"}</tool_call>\n",
       {"Let me see.", "add({})", R"(other({"c":"}{\""}))"}},
      {kHermes,
       "<tool_call>{\"name\":\"add\"}</tool_call>\n and so on ",
       {"add({})", "and so on "}},
      // No call in it: text as it stands.
      {kHermes, "a <tool_call>nonsense</tool_call> b", {"a <tool_call>nonsense</tool_call> b"}},
      {kHermes,
       "<tool_call>{\"name\":\"add\",\"arguments\":[1]}</tool_call>",
       {"<tool_call>{\"name\":\"add\",\"arguments\":[1]}</tool_call>"}},
      {kHermes, "<tool_call><tool_call>{\"name\":\"add\"}</tool_call>", {"<tool_call>", "add({})"}},
      {kHermes, "<tool_call>{\"name\":\"add\",\"argu", {"<tool_call>{\"name\":\"add\",\"argu"}},
      {kHermes, "end <tool_c", {"end <tool_c"}},
      {kHermes, "space \n ", {"space \n "}},
      // Ended by the end-of-text token in place of the marker.
      {kHermes, "<tool_call>\n{\"name\": \"add\", \"arguments\": {}}\n", {"add({})"}},
      {kHermes,
       "<tool_call>{\"name\":\"add\",\"arguments\":\"{\\\"a\\\":1}\"}</tool_call>",
       {R"(add({"a":1}))"}},
      {kHermes, R"({"name": "add", "arguments": {"a": 1}})", {R"(add({"a": 1}))"}},
      {kJson, "plain", {"plain"}},
      {kJson, " \n plain", {" \n plain"}},
      {kJson, R"({"name": "add", "parameters": {"a": 1}})", {R"(add({"a": 1}))"}},
      {kJson,
       R"(<|python_tag|>{"type": "function", "name": "add", "parameters": {"a": [1, {"b": 2}]}})",
       {R"(add({"a": [1, {"b": 2}]}))"}},
      {kJson, "```json\n{\"name\": \"add\", \"arguments\": {}}\n```", {"add({})"}},
      {kJson,
       "```\n[{\"name\": \"add\"}, {\"name\": \"get_weather\"}]\n```\n",
       {"add({})", "get_weather({})"}},
      {kJson,
       R"({"name":"add"}; {"name":"get_weather","parameters":{}})",
       {"add({})", "get_weather({})"}},
      // An object that is an answer, not a call.
      {kJson, R"({"name": "Alice", "age": 3})", {R"({"name": "Alice", "age": 3})"}},
      {kJson, R"({"name": "addition"})", {R"({"name": "addition"})"}},
      {kJson, R"({"answer": 42})", {R"({"answer": 42})"}},
      {kJson, R"({"name": "add", "arguments": {)", {R"({"name": "add", "arguments": {)"}},
      {kJson, R"({"name": "add"} is the call.)", {R"({"name": "add"} is the call.)"}},
      {kJson, "```python\nprint(1)\n```", {"```python\nprint(1)\n```"}},
      {kJson, "json {\"name\": \"add\"}", {"json {\"name\": \"add\"}"}},
      {kJson, "[{\"name\": \"add\"}", {"[{\"name\": \"add\"}"}},
      {kJson, "[]", {"[]"}},
      {kJson,
       "a <tool_call>{\"name\":\"add\"}</tool_call>",
       {"a <tool_call>{\"name\":\"add\"}</tool_call>"}},
      {kJson,
       "{" + std::string(1000, ' ') + R"("name": "add"})",
       {"{" + std::string(1000, ' ') + R"("name": "add"})"}},
      {ToolDialect::kNone, R"({"name": "add"} <tool_call>)", {R"({"name": "add"} <tool_call>)"}},
  };
}

TEST(ToolCallParser, TellsCallsFromText) {
  for (const Example& example : Examples()) {
    EXPECT_EQ(Parse(example.dialect, example.text), example.expected) << example.text;
  }
}

TEST(ToolCallParser, TellsTheSameHoweverTheTextIsCut) {
  std::mt19937 random(1);
  for (const Example& example : Examples()) {
    EXPECT_EQ(Parse(example.dialect, example.text, std::vector<size_t>(example.text.size(), 1)),
              example.expected)
        << example.text;
    for (int i = 0; i < 50; ++i) {
      std::vector<size_t> lengths;
      for (int k = 0; k < 8; ++k) lengths.push_back(random() % 12);
      EXPECT_EQ(Parse(example.dialect, example.text, lengths), example.expected) << example.text;
    }
  }
}

TEST(ToolCallParser, TellsTheSameOfRandomScraps) {
  const std::vector<std::string> scraps = {"<tool_call>",
                                           "</tool_call>",
                                           "{\"name\":\"add\"}",
                                           "{",
                                           "}",
                                           "\"name\":\"add\"",
                                           " \n",
                                           "```json",
                                           "```",
                                           "x",
                                           "<",
                                           "</t",
                                           "<|python_tag|>",
                                           "[",
                                           "]",
                                           ";"};
  std::mt19937 random(2);
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    for (uint32_t k = random() % 8; k > 0; --k) text += scraps[random() % scraps.size()];
    const auto dialect = random() % 2 == 0 ? ToolDialect::kHermes : ToolDialect::kJson;
    const auto whole = Parse(dialect, text);
    EXPECT_EQ(Parse(dialect, text, std::vector<size_t>(text.size(), 1)), whole) << text;
    std::vector<size_t> lengths;
    for (int k = 0; k < 6; ++k) lengths.push_back(random() % 9);
    EXPECT_EQ(Parse(dialect, text, lengths), whole) << text;
  }
}

TEST(ToolCallParser, HoldsBackNoMoreThanAMarkerMayTake) {
  ToolCallParser parser({.dialect = ToolDialect::kHermes, .names = kTools});
  EXPECT_EQ(Written(parser.Push("hello <tool")), std::vector<std::string>{"hello"});
  EXPECT_EQ(Written(parser.Push("box>")), std::vector<std::string>{" <toolbox>"});
  ToolCallParser code({.dialect = ToolDialect::kJson, .names = kTools});
  EXPECT_EQ(Written(code.Push("```py")), std::vector<std::string>{"```py"});
  EXPECT_EQ(Written(code.Push("thon")), std::vector<std::string>{"thon"});
}

TEST(ToolCallParser, DropsFurtherCallsWhereOneIsAllowed) {
  const std::string call = R"(<tool_call>{"name":"add"}</tool_call>)";
  EXPECT_EQ(Parse(ToolDialect::kHermes, call + call, {}, /*single_call=*/true),
            std::vector<std::string>{"add({})"});
}

TEST(ToolCallParser, IsDoneWithALongAnswerInTime) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "<tool_call> {\"name\"   ";
  EXPECT_EQ(Parse(ToolDialect::kHermes, text, std::vector<size_t>(text.size() / 4, 4)),
            std::vector<std::string>{text});
}

TEST(ToolDialect, FollowsTheTemplateAndTheTools) {
  OpenAiRequest body;
  EXPECT_EQ(ToolDialectOf(body, "<tool_call>"), ToolDialect::kNone);
  body.tool_names = {"add"};
  EXPECT_EQ(ToolDialectOf(body, "... <tool_call> ..."), ToolDialect::kHermes);
  EXPECT_EQ(ToolDialectOf(body, "..."), ToolDialect::kJson);
}

TEST(ToolCallId, DiffersByCallAndRepeatsForTheSame) {
  EXPECT_EQ(ToolCallId("r", 0, 1), ToolCallId("r", 0, 1));
  EXPECT_NE(ToolCallId("r", 0, 1), ToolCallId("r", 1, 0));
  EXPECT_EQ(ToolCallId("r", 0, 0).size(), 29u);
}

TEST(CallOf, TakesTheLastOfEqualMembersAsJsonDoes) {
  const auto call = CallOf(R"({"name":"a","arguments":{"x":1},"arguments":{"x":2},"name":"b"})");
  ASSERT_TRUE(call);
  EXPECT_EQ(call->name, "b");
  EXPECT_EQ(call->arguments, R"({"x":2})");
}

}  // namespace
}  // namespace quire
