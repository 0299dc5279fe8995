// Hostile templates end in an error, soon and within their memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/chat_template_fixtures.h"

namespace quire::testing {
namespace {

using ::testing::HasSubstr;

std::string Repeat(std::string_view text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

Result<std::vector<PromptPiece>> RenderWithin(std::string_view source,
                                              const TemplateLimits& limits) {
  QUIRE_ASSIGN_OR_RETURN(const ChatTemplate parsed, ChatTemplate::Parse(source, limits));
  return parsed.Render(FourMessages());
}

ErrorCode CodeOf(const std::string& source) {
  const auto result = RenderWithin(source, {.max_steps = 200'000, .max_bytes = 16 << 20});
  EXPECT_FALSE(result.ok()) << source.substr(0, 100);
  return result.ok() ? ErrorCode::kIo : result.error().code;
}

TEST(ChatTemplateLimits, DeepNestingInTheSourceIsRefused) {
  constexpr int kDeep = 100'000;
  const std::string sources[] = {
      "{{ " + Repeat("(", kDeep) + "1" + Repeat(")", kDeep) + " }}",
      "{{ " + Repeat("[", kDeep) + Repeat("]", kDeep) + " }}",
      "{{ " + Repeat("{1:", kDeep) + "1" + Repeat("}", kDeep) + " }}",
      "{{ " + Repeat("-", kDeep) + "1 }}",
      "{{ " + Repeat("not ", kDeep) + "1 }}",
      "{{ 1" + Repeat("+1", kDeep) + " }}",
      "{{ 1" + Repeat(" or 1", kDeep) + " }}",
      "{{ 1" + Repeat("|abs", kDeep) + " }}",
      "{{ a" + Repeat(".b", kDeep) + " }}",
      "{{ a" + Repeat("[0]", kDeep) + " }}",
      "{{ a" + Repeat("()", kDeep) + " }}",
      "{{ " + Repeat("1 if ", kDeep) + "1 }}",
      "{{ " + Repeat("1 if 1 else ", kDeep) + "1 }}",
      Repeat("{%if 1%}", kDeep),
      Repeat("{%for x in y%}", 70'000),
      "{% for " + Repeat("(", kDeep) + "x" + Repeat(")", kDeep) + " in y %}{% endfor %}",
  };
  for (const std::string& source : sources) {
    const auto parsed = ChatTemplate::Parse(source);
    ASSERT_FALSE(parsed.ok()) << source.substr(0, 40);
    EXPECT_EQ(parsed.error().code, ErrorCode::kResourceExhausted) << source.substr(0, 40);
  }
}

TEST(ChatTemplateLimits, ManyPiecesInARowAreNoNesting) {
  EXPECT_EQ(Rendered("{{ ''" + Repeat("~'a'", 1000) + " }}", FourMessages()), Repeat("a", 1000));
  EXPECT_EQ(Rendered(Repeat("{% if true %}a{% endif %}", 1000), FourMessages()), Repeat("a", 1000));
}

TEST(ChatTemplateLimits, EndlessRecursionIsRefused) {
  EXPECT_EQ(CodeOf("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
            ErrorCode::kResourceExhausted);
  EXPECT_EQ(CodeOf("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"),
            ErrorCode::kResourceExhausted);
  EXPECT_EQ(CodeOf("{% macro f(a=f()) %}{% endmacro %}{{ f() }}"), ErrorCode::kResourceExhausted);
}

TEST(ChatTemplateLimits, LongLoopsAreRefused) {
  EXPECT_EQ(CodeOf("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"),
            ErrorCode::kResourceExhausted);
  EXPECT_EQ(CodeOf("{{ range(100001) }}"), ErrorCode::kResourceExhausted);
  EXPECT_EQ(CodeOf("{{ range(-9223372036854775807, 9223372036854775807) }}"),
            ErrorCode::kResourceExhausted);
}

TEST(ChatTemplateLimits, LargeTextsAreRefusedBeforeTheyAreMade) {
  for (const std::string expression :
       {"'ab' * 9223372036854775807", "[1] * 9223372036854775807", "'a' * 99999999",
        "'a'.center(99999999)", "'a'.zfill(9223372036854775807)", "[1]|batch(99999999999, 0)|list",
        "('x' * 99999)|replace('', 'y' * 9999)",
        "('x' * 99999).join(range(99999)|map('string'))"}) {
    EXPECT_EQ(CodeOf("{{ " + expression + " }}"), ErrorCode::kResourceExhausted) << expression;
  }
  for (const std::string expression : {"'%999999999d' % 1", "'{:999999999}'.format(1)",
                                       "'a'|indent(99999999)", "[1]|slice(999999999)"}) {
    EXPECT_EQ(CodeOf("{{ " + expression + " }}"), ErrorCode::kCorrupt) << expression;
  }
}

// Each round doubles what printing, comparing or copying the value costs.
TEST(ChatTemplateLimits, ValuesThatShareThemselvesAreRefused) {
  const std::string doubled =
      "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(60) %}"
      "{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}{% endfor %}";
  for (const std::string use :
       {"{{ ns.a }}", "{{ ns.a|tojson }}", "{{ ns.a == ns.b }}", "{{ ns.a < ns.b }}",
        "{{ ns.b in [ns.a] }}", "{{ [ns.a, ns.b]|sort }}"}) {
    EXPECT_EQ(CodeOf(doubled + use), ErrorCode::kResourceExhausted) << use;
  }
}

TEST(ChatTemplateLimits, DeepValuesAreRefused) {
  EXPECT_EQ(CodeOf("{% set ns = namespace(a=[]) %}{% for i in range(9999) %}"
                   "{% set ns.a = [ns.a] %}{% endfor %}"),
            ErrorCode::kResourceExhausted);
  EXPECT_EQ(CodeOf("{% set ns = namespace(a={}) %}{% for i in range(9999) %}"
                   "{% set ns.a = dict(k=ns.a) %}{% endfor %}"),
            ErrorCode::kResourceExhausted);
}

TEST(ChatTemplateLimits, ANamespaceMayHoldItself) {
  EXPECT_EQ(Rendered("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns.me.me is defined }}",
                     FourMessages()),
            "True");
}

TEST(ChatTemplateLimits, ALoopThatHasEndedCanStillBeHeld) {
  const std::string keep =
      "{% set ns = namespace() %}{% for x in [1, 2] recursive %}{% set ns.l = loop %}{% endfor %}";
  EXPECT_EQ(Rendered(keep + "{{ ns.l.previtem }}{{ ns.l.nextitem }}", FourMessages()), "");
  EXPECT_THAT(Rendered(keep + "{{ ns.l([1]) }}", FourMessages()), HasSubstr("after its end"));
}

TEST(ChatTemplateLimits, EachLimitSaysItsNumber) {
  EXPECT_THAT(RenderWithin("{{ 1 }}{{ 2 }}", {.max_steps = 2}).error().message,
              HasSubstr("more than 2 steps"));
  EXPECT_THAT(RenderWithin("12345678", {.max_output_bytes = 7}).error().message,
              HasSubstr("longer than 7 bytes"));
  EXPECT_THAT(RenderWithin("12345678", {.max_template_bytes = 7}).error().message,
              HasSubstr("8 bytes, the limit is 7"));
  EXPECT_THAT(RenderWithin("{{ 'a' * 100 }}", {.max_bytes = 50}).error().message,
              HasSubstr("more than 50 bytes"));
  EXPECT_THAT(RenderWithin("{{ 1 + (2 + (3 + 4)) }}", {.max_stack_bytes = 100}).error().message,
              HasSubstr("more than 100 bytes of stack"));
}

TEST(ChatTemplateLimits, NumbersNeverWrap) {
  for (const std::string expression :
       {"9223372036854775807 + 1", "-9223372036854775807 - 2", "4611686018427387904 * 2", "2 ** 63",
        "(-9223372036854775807 - 1) // -1", "-(-9223372036854775807 - 1)",
        "(-9223372036854775807 - 1)|abs", "9223372036854775808", "'9223372036854775808'|int"}) {
    EXPECT_THAT(Rendered("{{ " + expression + " }}", FourMessages()), HasSubstr("64"))
        << expression;
  }
  EXPECT_EQ(Rendered("{{ (-9223372036854775807 - 1) % -1 }}{{ 'abc'[::-9223372036854775807 - 1] }}",
                     FourMessages()),
            "0c");
}

TEST(ChatTemplateLimits, AnyBytesAreSomeTemplate) {
  EXPECT_EQ(Rendered("\xff{{ '\xc3' ~ '\xa9\xff'|upper|length }}", FourMessages()),
            "\xff\xc3"
            "2");
  EXPECT_EQ(Rendered("{{ '\xff\xe4\xbb\x8a'[::-1] }}", FourMessages()), "\xe4\xbb\x8a\xff");
}

}  // namespace
}  // namespace quire::testing
