#include "text/unicode.h"

#include <gtest/gtest.h>

#include <chrono>

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

TEST(Nfc, ComposesAndOrdersMarks) {
  EXPECT_EQ(NormalizeNfc("cafe\u0301"), "caf\u00e9");
  EXPECT_EQ(NormalizeNfc("q\u0307\u0323 q\u0323\u0307"), "q\u0323\u0307 q\u0323\u0307");
  EXPECT_EQ(NormalizeNfc("\u212b \u1e9b\u0323"), "\u00c5 \u1e9b\u0323");
  EXPECT_EQ(NormalizeNfc("\u1100\u1161\u11a8"), "\uac01");
  EXPECT_EQ(NormalizeNfc("\u0958"), "\u0915\u093c");  // excluded from composition
}

TEST(Nfc, KeepsWhatIsNormalAlready) {
  for (const std::string text : {"", "plain", "\u4eca\u5929", "\u00e9\u00df", "\u0301x", "\n\t "}) {
    EXPECT_EQ(NormalizeNfc(text), text);
  }
}

TEST(Nfc, LongRunsOfMarksTakeNoQuadraticTime) {
  // Alternating classes 230 and 220, so that half of the marks move.
  std::string text = "a";
  for (int i = 0; i < 100'000; ++i) text += "\u0301\u0316";
  const auto start = std::chrono::steady_clock::now();
  const std::string normalized = NormalizeNfc(text);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_TRUE(normalized.starts_with("\u00e1\u0316\u0316"));
}

}  // namespace
}  // namespace quire
