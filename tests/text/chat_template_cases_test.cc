// The known ways in which engines got chat templates wrong, each with the right prompt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/chat_template/messages.h"
#include "text/chat_template_fixtures.h"

namespace quire::testing {
namespace {

using ::testing::HasSubstr;

TemplateInput WithExtra(std::string_view json) {
  TemplateInput input = FourMessages();
  input.extra = Json(json);
  return input;
}

std::string RenderedMessages(std::string_view source, std::string_view messages) {
  TemplateInput input = FourMessages();
  auto normalized = NormalizeMessages(Json(messages));
  if (!normalized.ok()) return "error: " + normalized.error().message;
  input.messages = *normalized;
  return Rendered(source, input);
}

TEST(ChatTemplateCases, SlicesTakeStepsAndNegativeBounds) {
  EXPECT_EQ(Rendered("{%- for m in messages[::-1] %}{{ (messages|length-1)-loop.index0 }}"
                     "{{ m.role[0] }}{% if not loop.last %},{% endif %}{% endfor %}",
                     FourMessages()),
            "3u,2a,1u,0s");
  EXPECT_EQ(
      Rendered("{{ 'abcdef'[::2] }}{{ 'abcdef'[:-1] }}{{ messages[-2].content }}", FourMessages()),
      "aceabcdeA1");
}

TEST(ChatTemplateCases, StringsHavePythonsMethods) {
  EXPECT_EQ(Rendered("{{ c.split('</think>')[-1].lstrip('\\n') }}|{{ (c.split('</think>')|first) }}"
                     "|{{ '--a--'.strip('-') }}|{{ 'ab'.startswith(('x','a')) }}",
                     WithExtra(R"({"c": "x</think>\n\nans"})")),
            "ans|x|a|True");
}

TEST(ChatTemplateCases, LoopsBreakAndContinue) {
  EXPECT_EQ(Rendered("{% for m in messages %}{% if m.role=='assistant' %}{% break %}{% endif %}"
                     "{{ m.content }};{% endfor %}",
                     FourMessages()),
            "S;U1;");
  EXPECT_EQ(Rendered("{% for m in messages %}{% if m.role=='system' %}{% continue %}{% endif %}"
                     "{{ loop.index }}{{ m.content }};{% endfor %}",
                     FourMessages()),
            "2U1;3A1;4U2;");
}

TEST(ChatTemplateCases, TojsonNeitherEscapesNorReorders) {
  const std::string right = R"({"b": 1, "a": "<é>'&\"", "n": null, "t": true})";
  const std::string value = R"({'b':1,'a':'<é>\'&"','n':none,'t':true})";
  EXPECT_EQ(Rendered("{{ " + value + " | tojson }}", FourMessages()), right);
  EXPECT_EQ(Rendered("{{ " + value + " | tojson(ensure_ascii=False) }}", FourMessages()), right);
  TemplateInput input = FourMessages();
  const std::string tools =
      R"([{"type": "function", "function": {"parameters": {"z": {"max": 1e+16}, "a": 0.7}}}])";
  input.tools = Json(tools);
  EXPECT_EQ(Rendered("{{ tools | tojson }}", input), tools);
}

TEST(ChatTemplateCases, TheDateIsTheClocksUnlessTheRequestBringsOne) {
  const std::string source =
      "{{ strftime_now('%Y-%m-%d') }}|{{ date_string if date_string is defined else 'none' }}";
  EXPECT_EQ(Rendered(source, FourMessages()), "2024-07-05|none");
  EXPECT_EQ(Rendered(source, WithExtra(R"({"date_string": "1 Jan 2000"})")),
            "2024-07-05|1 Jan 2000");
}

TEST(ChatTemplateCases, TheTemplatesOwnRefusalIsAnInvalidArgument) {
  const std::string source =
      "{% if messages[0].role=='system' %}{{ raise_exception('no system role') }}{% endif %}ok";
  auto parsed = ChatTemplate::Parse(source);
  ASSERT_TRUE(parsed.ok());
  auto refused = parsed->Render(FourMessages());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(refused.error().message.ends_with(": no system role")) << refused.error().message;
  TemplateInput next = FourMessages();
  next.messages = Json(R"([{"role": "user", "content": "x"}])");
  EXPECT_EQ(Joined(parsed->Render(next).value()), "ok");
}

TEST(ChatTemplateCases, ContentInPartsBecomesOneText) {
  const std::string source = "{{ messages[0]['content'] }}";
  EXPECT_EQ(RenderedMessages(source, R"([{"role": "user", "content": [
                {"type": "text", "text": "alpha"}, {"type": "text", "text": "beta"}]}])"),
            "alpha\nbeta");
  EXPECT_EQ(RenderedMessages(source, R"([{"role": "user", "content": [
                {"type": "text", "text": " al[{'type'pha\n"}]}])"),
            RenderedMessages(source, R"([{"role": "user", "content": " al[{'type'pha\n"}])"));
  EXPECT_THAT(RenderedMessages(source, R"([{"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "x"}}]}])"),
              HasSubstr("messages[0].content[0] is of type 'image_url'"));
}

constexpr std::string_view kCallTemplate =
    "{% for m in messages %}{{ m.role }}:{{ m.content }}{% for c in m.tool_calls %}"
    "{{ {'name': c.function.name, 'arguments': c.function.arguments} | tojson }}{% endfor %};"
    "{% endfor %}";
constexpr std::string_view kCall =
    R"("tool_calls": [{"id": "1", "type": "function",
       "function": {"name": "add", "arguments": "{\"a\": 2, \"b\": \"x\"}"}}])";

std::string CallConversation(std::string_view content) {
  return fmt::format(R"([{{"role": "user", "content": "q"}},
                         {{"role": "assistant", {} {}}},
                         {{"role": "tool", "content": "7"}}])",
                     content, kCall);
}

TEST(ChatTemplateCases, ArgumentsOfACallAreAnObject) {
  EXPECT_EQ(RenderedMessages(kCallTemplate, CallConversation(R"("content": "",)")),
            R"(user:q;assistant:{"name": "add", "arguments": {"a": 2, "b": "x"}};tool:7;)");
  EXPECT_THAT(RenderedMessages(kCallTemplate,
                               R"([{"role": "assistant", "tool_calls": [{"function":
                                   {"name": "f", "arguments": "{broken"}}]}])"),
              HasSubstr("messages[0].tool_calls[0].function.arguments: not valid JSON"));
}

TEST(ChatTemplateCases, NoContentBesideACallIsAnEmptyText) {
  const std::string with_null =
      RenderedMessages(kCallTemplate, CallConversation(R"("content": null,)"));
  EXPECT_EQ(with_null,
            R"(user:q;assistant:{"name": "add", "arguments": {"a": 2, "b": "x"}};tool:7;)");
  EXPECT_EQ(RenderedMessages(kCallTemplate, CallConversation("")), with_null);
  EXPECT_THAT(RenderedMessages(kCallTemplate, R"([{"role": "user", "content": null}])"),
              HasSubstr("messages[0] has neither content nor tool calls"));
}

TEST(ChatTemplateCases, ACallInTheLastMessageIsKept) {
  const std::string prompt =
      RenderedMessages(std::string(kCallTemplate) + "{% if add_generation_prompt %}>{% endif %}",
                       R"([{"role": "user", "content": "weather?"},
                           {"role": "assistant", "content": "", "tool_calls": [{"function":
                            {"name": "get_weather", "arguments": "{\"city\":\"Rome\"}"}}]}])");
  EXPECT_EQ(prompt, R"(user:weather?;assistant:{"name": "get_weather", "arguments": )"
                    R"({"city": "Rome"}};>)");
}

TEST(ChatTemplateCases, WhiteSpaceAroundTagsIsJinja2s) {
  EXPECT_EQ(Rendered("A\n  {% if true %}\n  B\n  {% endif %}\n  {#- c -#}\n C {{- ' D' }}\n"
                     "{%+ if true %} E{% endif +%}\nF\n",
                     FourMessages()),
            "A\n  B\nC D\n E\nF");
  EXPECT_EQ(Rendered("x\n\n", FourMessages()), "x\n");
}

TEST(ChatTemplateCases, ScopesLoopFiltersAndMacrosAreJinja2s) {
  EXPECT_EQ(Rendered("{% set x=0 %}{% set ns=namespace(x=0) %}{% for i in [1,2,3] %}"
                     "{% set x=x+i %}{% set ns.x=ns.x+i %}{% endfor %}{{ x }},{{ ns.x }}",
                     FourMessages()),
            "0,6");
  EXPECT_EQ(Rendered("{% for m in messages if m.role!='system' %}{{ loop.index0 }}/"
                     "{{ loop.length }}{{ '!' if loop.first }}{{ '$' if loop.last }} {% endfor %}",
                     FourMessages()),
            "0/3! 1/3 2/3$ ");
  EXPECT_EQ(Rendered("{% macro f(a,b='x') %}[{{ a }}{{ b }}]{% endmacro %}{{ f(1) }}{{ f(1,b=2) }}",
                     FourMessages()),
            "[1x][12]");
  EXPECT_EQ(Rendered("{{ messages|selectattr('role','equalto','user')|map(attribute='content')"
                     "|join('+') }}{{ messages|rejectattr('role','in',['user','system'])|list"
                     "|length }}",
                     FourMessages()),
            "U1+U21");
}

TEST(ChatTemplateCases, AnUnreadableTemplateIsAnErrorWithItsLine) {
  const auto broken = ChatTemplate::Parse("a\nb\n{% for %}");
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(broken.error().message, HasSubstr("line 3"));
  const auto foreign = ChatTemplate::Parse("\n{% include 'other' %}");
  ASSERT_FALSE(foreign.ok());
  EXPECT_EQ(foreign.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(foreign.error().message, HasSubstr("line 2: 'include' is not supported"));
  EXPECT_THAT(Rendered("\n\n{{ messages[9].content }}", FourMessages()),
              HasSubstr("line 3: a list has no item 9"));
}

}  // namespace
}  // namespace quire::testing
