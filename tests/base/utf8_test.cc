#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace quire {
namespace {

using namespace std::string_literals;

TEST(Utf8, ReplacesEachMaximalInvalidPartOnce) {
  // The examples of tables 3-8 to 3-11 of the Unicode Standard 15.0.
  const std::string r(kReplacementCharacter);
  EXPECT_EQ(RepairUtf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(RepairUtf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(RepairUtf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(RepairUtf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
}

TEST(Utf8, AnUnfinishedEndIsOneReplacement) {
  EXPECT_EQ(RepairUtf8("a\xF0\x9F\x98"), "a\uFFFD");
  EXPECT_EQ(FirstCharacter("\xF0\x9F\x98").state, Utf8State::kIncomplete);
  EXPECT_EQ(FirstCharacter("\xF0\x9F\x98").num_bytes, 3);
}

TEST(Utf8, EveryCodePointSurvivesEncodingAndDecoding) {
  for (char32_t code_point = 0; code_point <= 0x10FFFF; ++code_point) {
    if (code_point >= 0xD800 && code_point < 0xE000) continue;
    std::string text;
    AppendUtf8(code_point, text);
    const Utf8Character character = FirstCharacter(text);
    ASSERT_EQ(character.state, Utf8State::kWhole);
    ASSERT_EQ(character.num_bytes, static_cast<int>(text.size()));
    ASSERT_EQ(character.code_point, code_point);
  }
}

TEST(Utf8, SurrogatesAndOverlongFormsAreInvalid) {
  EXPECT_TRUE(IsWellFormedUtf8("plain text of more than eight bytes, \xC3\xA9"));
  EXPECT_FALSE(IsWellFormedUtf8("\xED\xA0\x80"));
  EXPECT_FALSE(IsWellFormedUtf8("\xC1\x81"));
  EXPECT_FALSE(IsWellFormedUtf8("eight bytes and then \xF4\x90\x80\x80"));
}

TEST(Utf8, RefusesOverlongAndOutOfRangeForms) {
  EXPECT_TRUE(IsWellFormedUtf8(""));
  EXPECT_TRUE(IsWellFormedUtf8("\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80"));
  EXPECT_TRUE(IsWellFormedUtf8("\xf4\x8f\xbf\xbf"));
  for (const char* bytes : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf",
                            "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xed\xbf\xbf", "a\xe2"}) {
    EXPECT_FALSE(IsWellFormedUtf8(bytes));
  }
}

}  // namespace
}  // namespace quire
