// Public faults of other tokenizers, with the ids that the Llama 2 and Llama 3 vocabularies give.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/bpe_tokenizer.h"
#include "text/spm_tokenizer.h"
#include "text/tokenizer_fixtures.h"

namespace quire {
namespace {

using testing::ElementsAre;

const Tokenizer& Llama2() {
  static const auto tokenizer = SpmTokenizer::Create(MinimalVocabulary("llama2_minimal"));
  QUIRE_CHECK(tokenizer.ok(), "{}", tokenizer.error().message);
  return **tokenizer;
}

const Tokenizer& Llama3() {
  static const auto tokenizer = BpeTokenizer::Create(MinimalVocabulary("llama3_minimal"));
  QUIRE_CHECK(tokenizer.ok(), "{}", tokenizer.error().message);
  return **tokenizer;
}

void ExpectBothWays(const Tokenizer& tokenizer, std::string_view text,
                    const std::vector<TokenId>& ids) {
  EXPECT_EQ(EncodePlain(tokenizer, text), ids) << text;
  EXPECT_EQ(tokenizer.Decode(ids), text);
}

TEST(Llama2Tokenizer, KeepsExactlyTheSpacesOfTheText) {
  ExpectBothWays(Llama2(), "Hello world", {15043, 3186});
  ExpectBothWays(Llama2(), " Hello world", {29871, 15043, 3186});
  ExpectBothWays(Llama2(), "  Hello", {259, 15043});
  ExpectBothWays(Llama2(), "text ", {1426, 29871});
  ExpectBothWays(Llama2(), "a\nb", {263, 13, 29890});
}

TEST(Llama2Tokenizer, TheSpaceAfterAControlTokenFollowsTheFlag) {
  Vocabulary vocabulary = MinimalVocabulary("llama2_minimal");
  const TokenId pad = AddToken(vocabulary, "<pad>", TokenKind::kControl);
  for (const bool prefix : {false, true}) {
    vocabulary.add_space_prefix = prefix;
    const auto tokenizer = SpmTokenizer::Create(vocabulary);
    ASSERT_TRUE(tokenizer.ok());
    EXPECT_THAT(EncodeSpecial(**tokenizer, "<pad>text</s>"),
                ElementsAre(pad, prefix ? 1426 : 726, 2));
  }
}

TEST(Llama2Tokenizer, SplitsNumbersIntoDigits) {
  ExpectBothWays(Llama2(), "1234567", {29871, 29896, 29906, 29941, 29946, 29945, 29953, 29955});
}

TEST(Llama2Tokenizer, UnknownCharactersAreBytesAndByteSpellingsAreText) {
  ExpectBothWays(Llama2(), "\U0001F999", {29871, 243, 162, 169, 156});
  ExpectBothWays(Llama2(), "\ud55c\uae00", {29871, 30877, 237, 187, 131});
  ExpectBothWays(Llama2(), "<0x41>", {529, 29900, 29916, 29946, 29896, 29958});
}

TEST(Llama2Tokenizer, ControlTextInAMessageStaysText) {
  ExpectBothWays(Llama2(), "<s>x", {529, 29879, 29958, 29916});
}

TEST(Llama2Tokenizer, ThereIsOneBosWhoeverWritesIt) {
  EXPECT_THAT(Llama2().Encode("Hello", {}), ElementsAre(1, 15043));
  EXPECT_THAT(Llama2().Encode("<s>Hello", {.parse_special = true}), ElementsAre(1, 15043));
  const std::vector<PromptPiece> pieces = {{"<s>", true}, {"Hello", false}};
  EXPECT_THAT(Llama2().EncodePieces(pieces, /*add_special=*/true), ElementsAre(1, 15043));
  EXPECT_THAT(Llama2().Encode("", {}), ElementsAre(1));
  EXPECT_TRUE(Llama2().adds_bos());
}

TEST(Llama2Tokenizer, PiecesDecodeAloneAsTheyContinueAText) {
  EXPECT_EQ(Llama2().TokenBytes(3186), " world");
  EXPECT_EQ(Llama2().Decode(std::vector<TokenId>{29871, 8236, 921}), " leading x");
}

TEST(Llama3Tokenizer, SplitsNumbersIntoThreesFromTheLeft) {
  ExpectBothWays(Llama3(), "1234567", {4513, 10961, 22});
  ExpectBothWays(Llama3(), "12345678", {4513, 10961, 2495});
}

TEST(Llama3Tokenizer, KeepsDecomposedCharactersApart) {
  const auto composed = EncodePlain(Llama3(), "caf\u00e9");
  const auto decomposed = EncodePlain(Llama3(), "cafe\u0301");
  EXPECT_NE(composed, decomposed);
  EXPECT_EQ(Llama3().Decode(composed), "caf\u00e9");
  EXPECT_EQ(Llama3().Decode(decomposed), "cafe\u0301");
}

TEST(Llama3Tokenizer, DecodingCleansNothingUp) {
  ExpectBothWays(Llama3(), "hello !", {15339, 758});
  for (const std::string text : {"I 'm", "a , b"}) {
    EXPECT_EQ(Llama3().Decode(EncodePlain(Llama3(), text)), text);
  }
}

TEST(Llama3Tokenizer, AWholeWordOfTheVocabularyIsTakenWhateverTheMergesSay) {
  Vocabulary vocabulary = MinimalVocabulary("llama3_minimal");
  const TokenId word = vocabulary.tokens.size();
  AddToken(vocabulary, "qqqq", TokenKind::kNormal);
  const auto tokenizer = BpeTokenizer::Create(std::move(vocabulary));
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_THAT(EncodePlain(**tokenizer, "qqqq"), ElementsAre(word));
}

TEST(Llama3Tokenizer, AddsItsBosAndKnowsItsEnds) {
  EXPECT_EQ(Llama3().Encode("hello !", {}).front(), 128000);
  EXPECT_THAT(Llama3().end_of_text_ids(), ElementsAre(128001, 128009));
}

}  // namespace
}  // namespace quire
