#include "engine/prompt_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/check.h"
#include "engine/prompt_fixture.h"
#include "text/bpe_tokenizer.h"
#include "text/spm_tokenizer.h"
#include "text/tokenizer_fixtures.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using testing::ExpectAnswersComeBackAsTheirIds;
using testing::FromTemplate;
using testing::FromUser;
using testing::Root;
using Ids = std::vector<int32_t>;

std::unique_ptr<Tokenizer> ByteLevel(Vocabulary vocabulary) {
  auto tokenizer = BpeTokenizer::Create(std::move(vocabulary));
  QUIRE_CHECK(tokenizer.ok(), "{}", tokenizer.error().message);
  return std::move(*tokenizer);
}

std::unique_ptr<Tokenizer> SentencePiece(bool add_space_prefix, bool add_eos = false) {
  Vocabulary vocabulary = SentencePieceVocabulary(
      {"▁", "a", "b", "c", "ab", "▁a", "▁ab", "th", "the", "▁the", "t", "h", "e"});
  vocabulary.add_space_prefix = add_space_prefix;
  vocabulary.bos = 1;
  vocabulary.eos = 2;
  vocabulary.add_eos = add_eos;
  auto tokenizer = SpmTokenizer::Create(std::move(vocabulary));
  QUIRE_CHECK(tokenizer.ok(), "{}", tokenizer.error().message);
  return std::move(*tokenizer);
}

TEST(PromptEncoder, WithoutAKnownBeginningTheIdsAreTheTokenizers) {
  const auto tokenizer = SentencePiece(true);
  const std::vector<PromptPiece> pieces = {FromTemplate("<s>ab"), FromUser("the</s>")};
  const Ids expected = tokenizer->EncodePieces(pieces, true);
  const AnswerIndex index;
  EXPECT_EQ(EncodePrompt(*tokenizer, &index, Root(1), pieces), expected);
  EXPECT_EQ(EncodePrompt(*tokenizer, nullptr, Root(1), pieces), expected);
}

TEST(PromptEncoder, TheRestOfASentencePieceTextGetsNeitherBosNorADummySpace) {
  const auto tokenizer = SentencePiece(true);
  const auto id = [&](std::string_view text) { return tokenizer->FindToken(text); };
  AnswerIndex index;
  std::vector<PromptPiece> pieces = {FromUser("ab")};
  const Ids prompt = EncodePrompt(*tokenizer, &index, Root(1), pieces);
  EXPECT_THAT(prompt, ElementsAre(1, id("▁ab")));
  index.Add(Root(1), *tokenizer, pieces, prompt, "ab", Ids{id("a"), id("b")});
  pieces = {FromUser("ababthe")};
  EXPECT_THAT(EncodePrompt(*tokenizer, &index, Root(1), pieces),
              ElementsAre(1, id("▁ab"), id("a"), id("b"), id("the")));
  // After a control token a text begins anew, as it does everywhere.
  pieces = {FromUser("abab"), FromTemplate("</s>ab")};
  EXPECT_THAT(EncodePrompt(*tokenizer, &index, Root(1), pieces),
              ElementsAre(1, id("▁ab"), id("a"), id("b"), 2, id("▁ab")));
}

TEST(PromptEncoder, AModelThatWantsEosAtTheEndGetsIt) {
  const auto tokenizer = SentencePiece(false, /*add_eos=*/true);
  AnswerIndex index;
  const std::vector<PromptPiece> prompt = {FromUser("ab")};
  const Ids ids = EncodePrompt(*tokenizer, &index, Root(1), prompt);
  ASSERT_EQ(ids.back(), 2);
  index.Add(Root(1), *tokenizer, prompt, ids, "c", Ids{tokenizer->FindToken("c")});
  const std::vector<PromptPiece> next = {FromUser("abcthe")};
  EXPECT_THAT(EncodePrompt(*tokenizer, &index, Root(1), next),
              ElementsAre(1, tokenizer->FindToken("ab"), 2, tokenizer->FindToken("c"),
                          tokenizer->FindToken("the"), 2));
}

TEST(PromptEncoder, APromptThatEndsWithAnAnswerIsItsIds) {
  const auto tokenizer = ByteLevel(ByteLevelVocabulary({"a b"}));
  AnswerIndex index;
  const std::vector<PromptPiece> prompt = {FromUser("x")};
  index.Add(Root(1), *tokenizer, prompt, Ids{'x'}, "ab", Ids{'a', 'b'});
  EXPECT_THAT(EncodePrompt(*tokenizer, &index, Root(1), std::vector{FromUser("xab")}),
              ElementsAre('x', 'a', 'b'));
  EXPECT_THAT(EncodePrompt(*tokenizer, &index, Root(2), std::vector{FromUser("xab")}),
              ElementsAre('x', 256));
}

TEST(PromptEncoder, ControlTokensAfterAnAnswerAreReadInTemplateTextAlone) {
  Vocabulary vocabulary = ByteLevelVocabulary({});
  const TokenId end = AddToken(vocabulary, "<end>", TokenKind::kControl);
  const auto tokenizer = ByteLevel(std::move(vocabulary));
  AnswerIndex index;
  const std::vector<PromptPiece> prompt = {FromTemplate("x")};
  index.Add(Root(1), *tokenizer, prompt, Ids{'x'}, "a", Ids{'a', end});
  EXPECT_THAT(EncodePrompt(*tokenizer, &index, Root(1),
                           std::vector{FromTemplate("x"), FromUser("a"), FromTemplate("<end>b")}),
              ElementsAre('x', 'a', end, 'b'));
  const Ids spelled =
      EncodePrompt(*tokenizer, &index, Root(1), std::vector{FromTemplate("x"), FromUser("a<end>")});
  EXPECT_EQ(spelled.size(), 7u);
}

TEST(PromptEncoder, RandomAnswersComeBackAsTheirIdsAndSayTheSameText) {
  ExpectAnswersComeBackAsTheirIds(
      *ByteLevel(ByteLevelVocabulary({"a b", "t h", "th e", "Ġ w", "ab c", "Ġ the"})), 60);
  ExpectAnswersComeBackAsTheirIds(*SentencePiece(false), 60);
  ExpectAnswersComeBackAsTheirIds(*SentencePiece(true), 60);
}

}  // namespace
}  // namespace quire
