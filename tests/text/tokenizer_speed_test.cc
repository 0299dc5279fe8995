// Time that grows faster than n log n shows as minutes here; the bounds are wide, for slow machines
// and sanitizers. The measured times are printed.
#include <gtest/gtest.h>

#include <chrono>

#include "text/bpe_tokenizer.h"
#include "text/spm_tokenizer.h"
#include "text/tokenizer_fixtures.h"

namespace quire {
namespace {

void ExpectQuick(const Tokenizer& tokenizer, const std::string& name, const std::string& text) {
  const auto start = std::chrono::steady_clock::now();
  const auto ids = EncodePlain(tokenizer, text);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("%-8s %8zu bytes of '%.6s': %7zu tokens, %.4f s\n", name.c_str(), text.size(),
              text.c_str(), ids.size(), seconds.count());
  EXPECT_LT(seconds.count(), 10.0) << name;
  EXPECT_EQ(tokenizer.Decode(ids) == text, true) << name;
}

std::string Repeat(std::string_view unit, size_t num_bytes) {
  std::string text;
  while (text.size() + unit.size() <= num_bytes) text += unit;
  return text;
}

void ExpectLongTextsAreQuick(const Tokenizer& tokenizer, const std::string& name) {
  ExpectQuick(tokenizer, name, Repeat("a", 100'000));
  ExpectQuick(tokenizer, name, Repeat("a", 200'000));
  ExpectQuick(tokenizer, name, Repeat("_", 50'000));
  ExpectQuick(tokenizer, name, Repeat("Z", 131'072));
  ExpectQuick(tokenizer, name, Repeat("a", 1 << 20));
  ExpectQuick(tokenizer, name, Repeat("the quick brown fox jumps over the lazy dog and ", 400'000));
}

TEST(TokenizerSpeed, Llama2) {
  const auto tokenizer = SpmTokenizer::Create(MinimalVocabulary("llama2_minimal"));
  ASSERT_TRUE(tokenizer.ok());
  ExpectLongTextsAreQuick(**tokenizer, "llama2");
}

TEST(TokenizerSpeed, Llama3) {
  const auto tokenizer = BpeTokenizer::Create(MinimalVocabulary("llama3_minimal"));
  ASSERT_TRUE(tokenizer.ok());
  ExpectLongTextsAreQuick(**tokenizer, "llama3");
}

TEST(TokenizerSpeed, ThousandsOfSpecialTokensCostNoMoreThanOne) {
  Vocabulary vocabulary = ByteLevelVocabulary({});
  for (int i = 0; i < 6000; ++i) {
    AddToken(vocabulary, fmt::format("<unused{}>", i),
             i % 2 == 0 ? TokenKind::kControl : TokenKind::kUserDefined);
  }
  const auto tokenizer = BpeTokenizer::Create(std::move(vocabulary));
  ASSERT_TRUE(tokenizer.ok());
  ExpectQuick(**tokenizer, "special", Repeat("<unused", 1 << 20));
  ExpectQuick(**tokenizer, "special", Repeat("<unused4711>x", 1 << 20));
}

}  // namespace
}  // namespace quire
