#include "text/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <chrono>

namespace quire {
namespace {

using testing::ElementsAre;

PreTokenizer Named(std::string_view name) {
  auto pre_tokenizer = PreTokenizer::Create(name);
  QUIRE_CHECK(pre_tokenizer.ok(), "{}", pre_tokenizer.error().message);
  return std::move(*pre_tokenizer);
}

constexpr std::string_view kNames[] = {"default", "gpt-2", "llama-bpe", "qwen2", "smollm"};

TEST(PreTokenizer, AnUnknownNameIsAnErrorThatNamesTheKnownOnes) {
  const auto pre_tokenizer = PreTokenizer::Create("klingon");
  ASSERT_FALSE(pre_tokenizer.ok());
  EXPECT_EQ(pre_tokenizer.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(pre_tokenizer.error().message, testing::HasSubstr("'klingon'"));
  for (const std::string_view name : kNames) {
    EXPECT_THAT(pre_tokenizer.error().message, testing::HasSubstr(std::string(name)));
  }
}

TEST(PreTokenizer, FamiliesTreatDigitsDifferently) {
  EXPECT_THAT(Named("gpt-2").Split("a 12345"), ElementsAre("a", " 12345"));
  EXPECT_THAT(Named("llama-bpe").Split("a 12345"), ElementsAre("a", " ", "123", "45"));
  EXPECT_THAT(Named("qwen2").Split("a 123"), ElementsAre("a", " ", "1", "2", "3"));
  EXPECT_THAT(Named("smollm").Split("a 123"), ElementsAre("a", " ", "1", "2", "3"));
}

TEST(PreTokenizer, OneSpaceStaysWithTheNextWord) {
  EXPECT_THAT(Named("qwen2").Split("hello   world  "), ElementsAre("hello", "  ", " world", "  "));
  EXPECT_THAT(Named("gpt-2").Split("a\n\n b"), ElementsAre("a", "\n\n", " b"));
  EXPECT_THAT(Named("qwen2").Split("a\r\n\r\nb"), ElementsAre("a", "\r\n\r\n", "b"));
}

TEST(PreTokenizer, ContractionsIgnoreCaseOnlyWhereTheModelDoes) {
  EXPECT_THAT(Named("qwen2").Split("DON'T"), ElementsAre("DON", "'T"));
  EXPECT_THAT(Named("gpt-2").Split("DON'T"), ElementsAre("DON", "'", "T"));
}

TEST(PreTokenizer, SpacesAreThoseOfUnicode) {
  EXPECT_THAT(Named("gpt-2").Split("a\u3000b"), ElementsAre("a", "\u3000", "b"));
  // U+180E is a format character, though PCRE2's own \s takes it.
  EXPECT_THAT(Named("gpt-2").Split("!\u180e"), ElementsAre("!\u180e"));
}

TEST(PreTokenizer, CustomPatternsMayLookAhead) {
  const std::string pattern = R"(\d{1,3}(?=(?:\d{3})*\b))";
  auto pre_tokenizer = PreTokenizer::FromPatterns({&pattern, 1});
  ASSERT_TRUE(pre_tokenizer.ok());
  EXPECT_THAT(pre_tokenizer->Split("1234567"), ElementsAre("1", "234", "567"));
  EXPECT_THAT(pre_tokenizer->Split("x 12345678 y"), ElementsAre("x ", "12", "345", "678", " y"));
}

TEST(PreTokenizer, AnEmptyMatchDoesNotStop) {
  const std::string pattern = R"(\d*)";
  auto pre_tokenizer = PreTokenizer::FromPatterns({&pattern, 1});
  ASSERT_TRUE(pre_tokenizer.ok());
  EXPECT_THAT(pre_tokenizer->Split("ab12c"), ElementsAre("ab", "12", "c"));
}

TEST(PreTokenizer, AMalformedPatternIsAnErrorThatQuotesIt) {
  const std::string pattern = "a(b";
  const auto pre_tokenizer = PreTokenizer::FromPatterns({&pattern, 1});
  ASSERT_FALSE(pre_tokenizer.ok());
  EXPECT_THAT(pre_tokenizer.error().message, testing::HasSubstr("'a(b'"));
}

std::vector<std::string> LongTexts(int count) {
  std::vector<std::string> texts;
  for (const std::string unit : {"Z", "a", "_", " ", "\n", " \r", "1", "\u4e2d", "\u0301", "'s",
                                 "a ", "\u3000", " \n\u00a0", "'"}) {
    std::string& text = texts.emplace_back();
    while (static_cast<int>(text.size()) < count) text += unit;
  }
  return texts;
}

TEST(PreTokenizer, TheWordsOfALongRunAreTheTextAndComeQuickly) {
  for (const std::string_view name : kNames) {
    const PreTokenizer pre_tokenizer = Named(name);
    for (const std::string& text : LongTexts(1 << 20)) {
      const auto start = std::chrono::steady_clock::now();
      const auto words = pre_tokenizer.Split(text);
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5))
          << name << " " << text.substr(0, 8);
      std::string joined;
      for (const std::string_view word : words) joined += word;
      EXPECT_EQ(joined == text, true) << name << " " << text.substr(0, 8);
    }
  }
}

TEST(PreTokenizer, NeedsLittleStackForLongWords) {
  // Sanitizers keep red zones on the stack, hence not less.
  constexpr size_t kStackBytes = 192 << 10;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kStackBytes), 0);
  const auto body = [](void* num_words) -> void* {
    for (const std::string_view name : kNames) {
      const PreTokenizer pre_tokenizer = Named(name);
      for (const std::string& text : LongTexts(131'072)) {
        *static_cast<size_t*>(num_words) += pre_tokenizer.Split(text).size();
      }
    }
    return nullptr;
  };
  size_t num_words = 0;
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, body, &num_words), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  EXPECT_GT(num_words, 1000u);
}

}  // namespace
}  // namespace quire
