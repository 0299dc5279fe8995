#include "text/chat_template/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/chat_template/json_text.h"
#include "text/chat_template_fixtures.h"

namespace quire::testing {
namespace {

using ::testing::HasSubstr;

std::string Refusal(std::string_view messages) {
  const auto normalized = NormalizeMessages(Json(messages));
  return normalized.ok() ? "accepted" : normalized.error().message;
}

TEST(NormalizeMessages, RefusesWhatIsNotAConversation) {
  EXPECT_THAT(Refusal(R"({"role": "user"})"), HasSubstr("must be a list, not dict"));
  EXPECT_THAT(Refusal(R"(["hi"])"), HasSubstr("messages[0] must be an object, not str"));
  EXPECT_THAT(Refusal(R"([{"content": "x"}])"), HasSubstr("messages[0] has no role"));
  EXPECT_THAT(Refusal(R"([{"role": 5, "content": "x"}])"),
              HasSubstr("messages[0].role must be a string, not int"));
  EXPECT_THAT(Refusal(R"([{"role": "user", "content": "x"}, {"role": "user", "content": 5}])"),
              HasSubstr("messages[1].content must be a string or a list of parts, not int"));
  EXPECT_THAT(Refusal(R"([{"role": "user", "content": ["x"]}])"),
              HasSubstr("content[0] must be an object"));
  EXPECT_THAT(Refusal(R"([{"role": "user", "content": [{"type": "text"}]}])"),
              HasSubstr("content[0].text must be a string"));
  EXPECT_THAT(Refusal(R"([{"role": "assistant", "tool_calls": {"a": 1}}])"),
              HasSubstr("tool_calls must be a list"));
  EXPECT_THAT(Refusal(R"([{"role": "assistant", "tool_calls": [{"id": "1"}]}])"),
              HasSubstr("tool_calls[0] has no function"));
  EXPECT_THAT(Refusal(R"([{"role": "assistant", "tool_calls": [{"function":
                          {"name": "f", "arguments": "[1]"}}]}])"),
              HasSubstr("must be a JSON object, not list"));
}

TEST(NormalizeMessages, DropsNullMembersAndKeepsTheOthers) {
  TemplateInput input = FourMessages();
  input.messages = NormalizeMessages(Json(R"([{"name": "bob", "role": "user", "content": "x",
      "tool_calls": null, "reasoning_content": null, "tool_call_id": "7"}])"))
                       .value();
  EXPECT_EQ(Rendered("{{ messages[0] }}", input),
            "{'role': 'user', 'content': 'x', 'name': 'bob', 'tool_call_id': '7'}");
}

TEST(NormalizeMessages, LeavesArgumentsThatAreAnObjectAlone) {
  TemplateInput input = FourMessages();
  input.messages = NormalizeMessages(Json(R"([{"role": "assistant", "tool_calls": [
      {"function": {"name": "f", "arguments": {"a": 1}}},
      {"function": {"name": "g", "arguments": ""}}]}])"))
                       .value();
  EXPECT_EQ(Rendered("{% for c in messages[0].tool_calls %}{{ c.function.arguments }}{% endfor %}",
                     input),
            "{'a': 1}{}");
}

TEST(ValueFromJson, ReadsEveryKindOfValueInOrder) {
  TemplateInput input = FourMessages();
  input.extra =
      Json(R"( {"v": {"z": [1, -2.50, 1e3, true, false, null], "a": "\u00e9\ud83d\ude00\n",
                                "z2": {}, "big": 9223372036854775807, "dup": 1, "dup": 2}} )");
  EXPECT_EQ(Rendered("{{ v }}", input),
            "{'z': [1, -2.5, 1000.0, True, False, None], 'a': 'é😀\\n', 'z2': {}, "
            "'big': 9223372036854775807, 'dup': 2}");
}

TEST(ValueFromJson, ReadsTheNearestDouble) {
  for (const std::string number : {"0.7", "0.1", "123456.789", "5e-324", "1.7976931348623157e+308",
                                   "2.2250738585072014e-308", "0.30000000000000004"}) {
    TemplateInput input = FourMessages();
    input.extra = Json("{\"v\": " + number + "}");
    EXPECT_EQ(Rendered("{{ v|tojson }}", input), number);
  }
}

TEST(ValueFromJson, RefusesWhatIsNotJson) {
  const std::string deep(100'000, '[');
  for (const std::string& text :
       {std::string(""), std::string("{"), std::string("[1,]"), std::string("{\"a\": 1} x"),
        std::string("\"\xff\""), std::string("nul"), deep}) {
    const auto value = jinja::ValueFromJson(text);
    ASSERT_FALSE(value.ok()) << text.substr(0, 20);
    EXPECT_EQ(value.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(value.error().message, HasSubstr("not valid JSON at byte"));
  }
}

}  // namespace
}  // namespace quire::testing
