#include "speculation/prompt_lookup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quire {
namespace {

// A letter is a token.
std::vector<int32_t> Tokens(std::string_view text) { return {text.begin(), text.end()}; }

std::string Next(const PromptLookup& lookup, const std::vector<int32_t>& tokens, int count) {
  std::string text;
  for (int i = 0; i < count && lookup.predicts(); ++i) {
    text += static_cast<char>(lookup.Prediction(tokens, i));
  }
  return text;
}

// What is predicted behind a text whose last `num_pushed` tokens came one by one.
std::string NextBehind(std::string_view text, size_t num_pushed, int count) {
  const std::vector<int32_t> tokens = Tokens(text);
  const std::span<const int32_t> all(tokens);
  PromptLookup lookup(all.first(all.size() - num_pushed));
  for (size_t end = all.size() - num_pushed + 1; end <= all.size(); ++end) {
    lookup.Push(all.first(end));
  }
  return Next(lookup, tokens, count);
}

TEST(PromptLookup, PredictsWhatFollowedTheSameTokensBefore) {
  EXPECT_EQ(NextBehind("the quick brown fox. the quic", 0, 5), "k bro");
  EXPECT_EQ(NextBehind("the quick brown fox. the quic", 4, 5), "k bro");
}

TEST(PromptLookup, PredictsNothingInTextThatDoesNotRepeat) {
  EXPECT_EQ(NextBehind("abcdefghijklm", 0, 5), "");
  EXPECT_EQ(NextBehind("abcdefghijklm", 13, 5), "");
}

TEST(PromptLookup, TakesTextsTooShortForAKey) {
  for (const std::string_view text : {"a", "ab", "aa", "aab"}) {
    for (size_t pushed = 0; pushed < text.size(); ++pushed) {
      EXPECT_EQ(NextBehind(text, pushed, 3), "") << text << pushed;
    }
  }
}

TEST(PromptLookup, PrefersTheLatestPlace) { EXPECT_EQ(NextBehind("abc1 abc2 abc", 0, 2), "2 "); }

TEST(PromptLookup, StaysOnItsTrailWhereALaterPlaceHasLessInCommon) {
  // "bcd" came last before an X; but "abcd" is being copied.
  EXPECT_EQ(NextBehind("(abcdefg) bcdX (abcd", 6, 3), "efg");
}

TEST(PromptLookup, GoesRoundWhereTheSourceRunsIntoTheEnd) {
  EXPECT_EQ(NextBehind("xyzxyzxyz", 0, 7), "xyzxyzx");
  EXPECT_EQ(NextBehind("aaaa", 0, 3), "aaa");
}

TEST(PromptLookup, GoesOnBehindATokenThatDiffers) {
  // A copy with one letter changed: the one behind it is predicted at once.
  EXPECT_EQ(NextBehind("let count = 1; let coQ", 8, 4), "nt =");
}

TEST(PromptLookup, FindsTheTrailAgainBehindALongerWord) {
  // "n" became "number": behind the " " the old text goes on.
  EXPECT_EQ(NextBehind("if (n == 0) foo; if (number ", 12, 6), "== 0) ");
}

TEST(PromptLookup, GivesALostTrailUp) {
  const std::vector<int32_t> tokens = Tokens("abcdefgh abcdQRSTUVWXYZ0123");
  PromptLookup lookup(std::span<const int32_t>(tokens).first(13));
  EXPECT_TRUE(lookup.predicts());
  for (size_t end = 14; end <= tokens.size(); ++end) lookup.Push(std::span(tokens).first(end));
  EXPECT_FALSE(lookup.predicts());
}

TEST(PromptLookup, TellsHowMuchItsPlaceHasInCommonWithTheEnd) {
  const std::vector<int32_t> tokens = Tokens("1234567890 234567890");
  PromptLookup lookup(std::span<const int32_t>(tokens).first(15));
  EXPECT_EQ(lookup.match_length(), 4);
  for (size_t end = 16; end <= tokens.size(); ++end) lookup.Push(std::span(tokens).first(end));
  EXPECT_EQ(lookup.match_length(), 9);
}

// All different, but for a sentence at the beginning.
std::vector<int32_t> TextBehindASentence(int num_tokens) {
  std::vector<int32_t> tokens = Tokens("the quick brown fox");
  while (std::ssize(tokens) < num_tokens) {
    tokens.push_back(1000 + static_cast<int32_t>(tokens.size()));
  }
  return tokens;
}

TEST(PromptLookup, LooksAmongTheLastTokensOfALongText) {
  const auto predicts = [](int num_tokens, bool is_pushed) {
    std::vector<int32_t> tokens = TextBehindASentence(num_tokens);
    PromptLookup lookup(tokens);
    for (const int32_t token : Tokens("the quick")) {
      tokens.push_back(token);
      if (is_pushed) lookup.Push(tokens);
    }
    if (!is_pushed) lookup = PromptLookup(tokens);
    return Next(lookup, tokens, 4);
  };
  for (const bool is_pushed : {false, true}) {
    EXPECT_EQ(predicts(PromptLookup::kMostIndexed - 100, is_pushed), " bro");
    EXPECT_EQ(predicts(PromptLookup::kMostIndexed + 100, is_pushed), "");
  }
}

TEST(PromptLookup, FollowsATrailHoweverFarBackItLies) {
  std::vector<int32_t> tokens = TextBehindASentence(PromptLookup::kMostIndexed - 10);
  PromptLookup lookup(tokens);
  for (const int32_t token : Tokens("the quick brown")) {
    tokens.push_back(token);
    lookup.Push(tokens);
  }
  EXPECT_EQ(Next(lookup, tokens, 4), " fox");
}

TEST(PromptLookup, KeepsNoMoreOfALongTextThanOfAShorter) {
  constexpr size_t kMost = size_t{1} << 20;
  std::vector<int32_t> tokens = TextBehindASentence(8 * PromptLookup::kMostIndexed);
  EXPECT_LE(PromptLookup(tokens).index_bytes(), kMost);
  PromptLookup grown(std::span<const int32_t>(tokens).first(1));
  EXPECT_LT(grown.index_bytes(), 8192u);
  for (size_t end = 2; end <= tokens.size(); ++end) grown.Push(std::span(tokens).first(end));
  EXPECT_LE(grown.index_bytes(), kMost);
  EXPECT_FALSE(grown.predicts());
}

// Whatever comes: the source is a place whose match is as long as it is said to be, and no key of
// kKeyTokens tokens that a long copy rests on goes unseen.
TEST(PromptLookup, NeverSaysMoreThanIsThere) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    std::vector<int32_t> tokens(1 + random() % 60);
    const int num_letters = 2 + static_cast<int>(random() % 20);
    for (int32_t& token : tokens) token = static_cast<int32_t>(random() % num_letters);
    PromptLookup lookup(tokens);
    for (int i = 0; i < 400; ++i) {
      const bool copies = random() % 8 != 0 && lookup.predicts();
      const int32_t token =
          copies ? lookup.Prediction(tokens, 0) : static_cast<int32_t>(random() % num_letters);
      tokens.push_back(token);
      lookup.Push(tokens);
      if (!lookup.predicts()) continue;
      const int32_t next = lookup.Prediction(tokens, 0);
      // Some place behind the same tokens, as many as it says (as far as they are compared).
      const int length = std::min(lookup.match_length(), PromptLookup::kMostCompared);
      bool is_there = false;
      for (size_t place = static_cast<size_t>(length); place < tokens.size(); ++place) {
        is_there |= tokens[place] == next && std::equal(tokens.end() - length, tokens.end(),
                                                        tokens.begin() + place - length);
      }
      ASSERT_TRUE(is_there) << "seed " << seed << ", token " << i;
    }
  }
}

}  // namespace
}  // namespace quire
