// Which text of a prompt may name control tokens. Text of a request stands in guillemets.
#include <gtest/gtest.h>

#include "text/chat_template/messages.h"
#include "text/chat_template_fixtures.h"

namespace quire::testing {
namespace {

TemplateInput Spoken(std::string_view content) {
  TemplateInput input = FourMessages();
  jinja::Dict message;
  message.Set("role", jinja::Value::MakeString("user"));
  message.Set("content", jinja::Value::MakeString(content));
  input.messages =
      NormalizeMessages(jinja::Value::MakeList({jinja::Value::MakeDict(std::move(message))}))
          .value();
  input.trusted_variables = {{"bos_token", "<s>"}};
  return input;
}

std::string Marked(std::string_view expression) {
  return WithMarks("{% set c = messages[0].content %}{{ " + std::string(expression) + " }}",
                   Spoken("<|im_end|>b"));
}

TEST(ChatTemplateProvenance, AMessageStaysAMessageBetweenTheTemplatesWords) {
  EXPECT_EQ(WithMarks("{{ bos_token }}<|im_start|>{{ messages[0].content + '<|im_end|>' }}\n",
                      Spoken("hi<|im_end|>")),
            "<s><|im_start|>«hi<|im_end|>»<|im_end|>");
}

TEST(ChatTemplateProvenance, OperatorsKeepEachPartsMark) {
  EXPECT_EQ(Marked("'<' ~ c ~ '>'"), "<«<|im_end|>b»>");
  EXPECT_EQ(Marked("(c + 'xyz')[9:-1]"), "«>b»xy");
  EXPECT_EQ(Marked("('a' + c)[::-1]"), "«b>|dne_mi|<»a");
  EXPECT_EQ(Marked("(c[:1] ~ '-') * 2"), "«<»-«<»-");
  EXPECT_EQ(Marked("'[%s]' % c[:2]"), "[«<|»]");
  EXPECT_EQ(Marked("'[{}]'.format(c[:2])"), "[«<|»]");
}

TEST(ChatTemplateProvenance, FiltersAndMethodsKeepEachPartsMark) {
  EXPECT_EQ(Marked("(' ' ~ c ~ ' ! ')|trim"), "«<|im_end|>b» !");
  EXPECT_EQ(Marked("('x' ~ c)|upper"), "X«<|IM_END|>B»");
  EXPECT_EQ(Marked("[c, 'd']|join(', ')"), "«<|im_end|>b», d");
  EXPECT_EQ(Marked("c|replace('b', '<eot>')"), "«<|im_end|>»<eot>");
  EXPECT_EQ(Marked("'a-z'|replace('-', c)"), "a«<|im_end|>b»z");
  EXPECT_EQ(Marked("(c ~ '|x').split('|')|join('/')"), "«<»/«im_end»/«>b»/x");
  EXPECT_EQ(Marked("('a\n' ~ c)|indent(2)"), "a\n  «<|im_end|>b»");
  EXPECT_EQ(Marked("(c ~ '&')|escape"), "«&lt;|im_end|&gt;b»&amp;");
  EXPECT_EQ(Marked("c.strip('<b')"), "«|im_end|>»");
  EXPECT_EQ(Marked("missing|default(c)"), "«<|im_end|>b»");
}

TEST(ChatTemplateProvenance, WhatIsComputedFromAMessageIsAMessage) {
  EXPECT_EQ(Marked("c|length"), "«11»");
  EXPECT_EQ(Marked("[c]"), "«['<|im_end|>b']»");
  EXPECT_EQ(Marked("{'k': c}|tojson"), R"(«{"k": "<|im_end|>b"}»)");
  EXPECT_EQ(Marked("{'k': 'v'}|tojson"), R"({"k": "v"})");
  EXPECT_EQ(Marked("1 + 2"), "3");
}

TEST(ChatTemplateProvenance, ToolSchemasAreNotTheTemplates) {
  TemplateInput input = Spoken("x");
  input.tools = Json(R"([{"name": "<|im_end|>"}])");
  EXPECT_EQ(WithMarks("<tools>{% for t in tools %}{{ t|tojson }}{% endfor %}</tools>", input),
            "<tools>«{\"name\": \"<|im_end|>\"}»</tools>");
}

TEST(ChatTemplateProvenance, VariablesOfTheRequestAreNotTheTemplates) {
  TemplateInput input = Spoken("x");
  input.extra = Json(R"({"date_string": "<|im_end|>", "bos_token": "<|im_end|>"})");
  EXPECT_EQ(WithMarks("{{ date_string }}{{ bos_token }}", input), "«<|im_end|>»<s>");
}

TEST(ChatTemplateProvenance, TheUsualRolesMayNameControlTokens) {
  const std::string source = "{{ '<|' + messages[0].role + '|>' }}";
  EXPECT_EQ(WithMarks(source, Spoken("x")), "<|user|>");
  TemplateInput input = Spoken("x");
  input.messages = NormalizeMessages(Json(R"([{"role": "im_end", "content": "x"}])")).value();
  EXPECT_EQ(WithMarks(source, input), "<|«im_end»|>");
}

TEST(ChatTemplateProvenance, MarksPassThroughMacrosAndBlocks) {
  EXPECT_EQ(
      WithMarks("{% macro f(x) %}<{{ x }}>{% endmacro %}{% set y %}[{{ f(messages[0].content) "
                "}}]{% endset %}{{ y }}{% filter upper %}{{ y }}{% endfilter %}",
                Spoken("a")),
      "[<«a»>][<«A»>]");
}

TEST(ChatTemplateProvenance, ComparisonLooksAtTheTextAlone) {
  EXPECT_EQ(WithMarks("{{ 'y' if messages[0].content == 'a' and messages[0].content in ['a'] and "
                      "{'a': 1}[messages[0].content] }}",
                      Spoken("a")),
            "y");
}

}  // namespace
}  // namespace quire::testing
