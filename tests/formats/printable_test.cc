#include "formats/printable.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(Printable, KeepsOrdinaryTextOfAnyScript) {
  EXPECT_EQ(Printable("blk.0 \xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80"),
            "blk.0 \xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80");
}

TEST(Printable, EscapesWhatDrivesATerminal) {
  EXPECT_EQ(Printable("a\x1b[2Jb"), "a\\u{1b}[2Jb");
  EXPECT_EQ(Printable("a\nb\tc\rd"), "a\\nb\\tc\\rd");
  EXPECT_EQ(Printable(std::string_view("\0\x7f", 2)), "\\u{0}\\u{7f}");
  EXPECT_EQ(Printable("\xc2\x9b"), "\\u{9b}");        // C1 control sequence introducer
  EXPECT_EQ(Printable("\xe2\x80\xae"), "\\u{202e}");  // right-to-left override
  EXPECT_EQ(Printable("back\\slash"), "back\\\\slash");
}

TEST(Printable, ShowsBytesThatAreNoCharacters) {
  EXPECT_EQ(Printable("\xff"), "\\xff");
  EXPECT_EQ(Printable("\xc3("), "\\xc3(");
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(Printable("\xe6\xbc"), "\\xe6\\xbc");           // cut short
}

TEST(Printable, CutsAtACharacter) {
  EXPECT_EQ(Printable("abcdef", 6), "abcdef");
  EXPECT_EQ(Printable("abcdef", 5), "abcde...");
  EXPECT_EQ(Printable("ab\xe6\xbc\xa2", 4), "ab...");
}

}  // namespace
}  // namespace quire
