#include "text/stop_matcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace quire {
namespace {

StopMatcher Matcher(std::vector<std::string> stops) {
  auto matcher = StopMatcher::Create(std::move(stops));
  QUIRE_CHECK(matcher.ok(), "{}", matcher.error().message);
  return std::move(*matcher);
}

TEST(StopMatcher, SendsNoCharacterOfAStopStringSpreadOverPieces) {
  StopMatcher matcher = Matcher({"beta gamma"});
  EXPECT_EQ(matcher.Push("al"), "al");
  EXPECT_EQ(matcher.Push("pha be"), "pha ");
  EXPECT_EQ(matcher.Push("ta gam"), "");
  EXPECT_FALSE(matcher.matched());
  EXPECT_EQ(matcher.Push("ma"), "");
  EXPECT_EQ(matcher.matched(), 0u);
  EXPECT_EQ(matcher.Push("more"), "");
  EXPECT_EQ(matcher.Finish(), "");
}

TEST(StopMatcher, LetsGoWhatCannotBecomeAStopString) {
  StopMatcher matcher = Matcher({"aab"});
  EXPECT_EQ(matcher.Push("aa"), "");
  EXPECT_EQ(matcher.Push("a"), "a");
  EXPECT_EQ(matcher.Push("c"), "aac");
  EXPECT_EQ(matcher.Push("xa"), "x");
  EXPECT_EQ(matcher.Finish(), "a");
  EXPECT_FALSE(matcher.matched());
}

TEST(StopMatcher, TheFirstCompletedStringWinsAndTheLongestOfEquals) {
  StopMatcher matcher = Matcher({"bc", "abc", "abcd"});
  EXPECT_EQ(matcher.Push("xabcd"), "x");
  EXPECT_EQ(matcher.matched(), 1u);
}

TEST(StopMatcher, AnEmptyStringIsRefusedAndNoStringsLetAllThrough) {
  EXPECT_FALSE(StopMatcher::Create({"x", ""}).ok());
  StopMatcher matcher = Matcher({});
  EXPECT_EQ(matcher.Push("anything"), "anything");
  EXPECT_EQ(matcher.Finish(), "");
}

// The obvious way: search the whole text for the match that ends first.
std::string TextBeforeStop(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (text.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return text.substr(0, end - longest);
  }
  return text;
}

TEST(StopMatcher, AgreesWithASearchOfTheWholeText) {
  std::mt19937 random(7);
  const auto word = [&random](int max_length) {
    std::string text;
    for (int left = 1 + random() % max_length; left > 0; --left) text += "ab"[random() % 2];
    return text;
  };
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops;
    for (int left = 1 + random() % 3; left > 0; --left) stops.push_back(word(7));
    const std::string text = word(40);
    StopMatcher matcher = Matcher(stops);
    std::string shown;
    for (size_t at = 0; at < text.size();) {
      const size_t size = 1 + random() % 5;
      shown += matcher.Push(std::string_view(text).substr(at, size));
      ASSERT_TRUE(TextBeforeStop(text, stops).starts_with(shown)) << round;
      at += size;
    }
    shown += matcher.Finish();
    ASSERT_EQ(shown, TextBeforeStop(text, stops)) << round;
  }
}

TEST(StopMatcher, HoldsBackNoMoreThanTheLongestStopString) {
  StopMatcher matcher = Matcher({std::string(1000, 'a') + "b"});
  size_t shown = 0;
  for (int i = 0; i < 100'000; ++i) shown += matcher.Push("a").size();
  EXPECT_EQ(shown, 99'000u);
}

}  // namespace
}  // namespace quire
