#include "text/nfc.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace quire {
namespace {

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
