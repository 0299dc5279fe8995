#include "text/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "text/prefix_table.h"
#include "text/token_index.h"
#include "text/tokenizer_fixtures.h"

namespace quire {
namespace {

using testing::HasSubstr;

std::string Complaint(const Vocabulary& vocabulary) {
  const Status status = CheckVocabulary(vocabulary);
  if (status.ok()) return "";
  EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
  return status.error().message;
}

TEST(Vocabulary, SoundOnesPass) {
  EXPECT_EQ(Complaint(ByteLevelVocabulary({"a b"})), "");
  EXPECT_EQ(Complaint(SentencePieceVocabulary({"a"})), "");
}

TEST(Vocabulary, CountsMustAgree) {
  Vocabulary vocabulary = SentencePieceVocabulary({"a"});
  vocabulary.kinds.pop_back();
  EXPECT_THAT(Complaint(vocabulary), HasSubstr("token_type has 259 entries"));
  vocabulary = SentencePieceVocabulary({"a"});
  vocabulary.scores.push_back(0);
  EXPECT_THAT(Complaint(vocabulary), HasSubstr("scores has 261 entries"));
  EXPECT_THAT(Complaint(Vocabulary{}), HasSubstr("tokens has 0 entries"));
}

TEST(Vocabulary, IdsMustBeInRange) {
  Vocabulary vocabulary = SentencePieceVocabulary({});
  vocabulary.eos = 259;
  EXPECT_THAT(Complaint(vocabulary), HasSubstr("EOS id is 259, but there are 259 tokens"));
  vocabulary.eos = -2;
  EXPECT_THAT(Complaint(vocabulary), HasSubstr("EOS id is -2"));
}

TEST(Vocabulary, TextsMustDifferUnlessUnused) {
  Vocabulary vocabulary = SentencePieceVocabulary({"a", "b", "a"});
  EXPECT_THAT(Complaint(vocabulary), HasSubstr("[259] and [261] are both 'a'"));
  vocabulary.kinds.back() = TokenKind::kUnused;
  EXPECT_EQ(Complaint(vocabulary), "");
}

TEST(Vocabulary, ScoresMustBeNumbersAndTextsOfSaneSize) {
  Vocabulary vocabulary = SentencePieceVocabulary({"a"});
  vocabulary.scores[259] = std::nanf("");
  EXPECT_THAT(Complaint(vocabulary), HasSubstr("scores[259] is not a number"));
  EXPECT_THAT(Complaint(SentencePieceVocabulary({std::string(20'000, 'x')})),
              HasSubstr("[259] has 20000 bytes"));
}

TEST(TokenIndex, FindsTheFirstOfEqualTextsAndOnlyWholeOnes) {
  const std::vector<std::string> texts = {"b", "a", "a", "", "abc"};
  const TokenIndex index(texts);
  EXPECT_EQ(index.Find("a"), 1);
  EXPECT_EQ(index.Find(""), 3);
  EXPECT_EQ(index.Find("ab"), -1);
  EXPECT_EQ(index.Find("abcd"), -1);
}

TEST(PrefixTable, FindsTheLongestEntryThatBeginsTheText) {
  const PrefixTable table({{"ab", 1}, {"abcd", 2}, {"", 3}, {"b", 4}, {"abce", 5}, {"ab", 6}});
  const auto longest = [&](std::string_view text) {
    const auto match = table.Longest(text);
    return std::pair(match.id, match.num_bytes);
  };
  EXPECT_EQ(longest("abcde"), std::pair(2, size_t{4}));
  EXPECT_EQ(longest("abcx"), std::pair(1, size_t{2}));
  EXPECT_EQ(longest("abc"), std::pair(1, size_t{2}));
  EXPECT_EQ(longest("bb"), std::pair(4, size_t{1}));
  EXPECT_EQ(longest("a").first, -1);
  EXPECT_EQ(longest("").first, -1);
  EXPECT_FALSE(table.MayBegin('c'));
}

}  // namespace
}  // namespace quire
