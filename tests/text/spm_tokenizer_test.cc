#include "text/spm_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "text/tokenizer_fixtures.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr TokenId kFirstPiece = 259;
TokenId ByteId(int byte) { return 3 + byte; }

std::unique_ptr<Tokenizer> Make(Vocabulary vocabulary) {
  auto tokenizer = SpmTokenizer::Create(std::move(vocabulary));
  QUIRE_CHECK(tokenizer.ok(), "{}", tokenizer.error().message);
  return std::move(*tokenizer);
}

Vocabulary WithoutPrefix(std::vector<std::string> pieces) {
  Vocabulary vocabulary = SentencePieceVocabulary(pieces);
  vocabulary.add_space_prefix = false;
  return vocabulary;
}

TEST(SpmTokenizer, TheHighestScoreMergesFirst) {
  const auto tokenizer = Make(WithoutPrefix({"bc", "ab", "a", "b", "c"}));
  EXPECT_THAT(EncodePlain(*tokenizer, "abc"), ElementsAre(kFirstPiece + 2, kFirstPiece));
  Vocabulary vocabulary = WithoutPrefix({"bc", "ab", "a", "b", "c"});
  vocabulary.scores[kFirstPiece + 1] = 0.5f;
  EXPECT_THAT(EncodePlain(*Make(vocabulary), "abc"), ElementsAre(kFirstPiece + 1, kFirstPiece + 4));
}

// The obvious way: find the best neighbours, merge them, start again.
std::vector<std::string> MergeSlowly(const Vocabulary& vocabulary, const std::string& text) {
  std::vector<std::string> symbols;
  for (const char byte : text) symbols.emplace_back(1, byte);
  for (;;) {
    int best = -1;
    float best_score = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto& tokens = vocabulary.tokens;
      const auto found = std::find(tokens.begin(), tokens.end(), symbols[i] + symbols[i + 1]);
      if (found == tokens.end()) continue;
      const float score = vocabulary.scores[found - tokens.begin()];
      if (best < 0 || score > best_score) {
        best = static_cast<int>(i);
        best_score = score;
      }
    }
    if (best < 0) return symbols;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + best + 1);
  }
}

TEST(SpmTokenizer, AgreesWithTheSlowMergeLoop) {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::string> pieces = {"a", "b", "c"};
    for (int i = 0; i < 25; ++i) {
      std::string piece;
      for (int left = 2 + random() % 4; left > 0; --left) piece += "abc"[random() % 3];
      if (std::find(pieces.begin(), pieces.end(), piece) == pieces.end()) pieces.push_back(piece);
    }
    Vocabulary vocabulary = WithoutPrefix(pieces);
    // Few different scores, both signs, so that many are equal.
    for (float& score : vocabulary.scores) score = static_cast<float>(random() % 7) - 3.0f;
    const auto tokenizer = Make(vocabulary);
    for (int i = 0; i < 20; ++i) {
      std::string text;
      for (int left = 1 + random() % 60; left > 0; --left) text += "abc"[random() % 3];
      std::vector<std::string> merged;
      for (const TokenId id : EncodePlain(*tokenizer, text)) {
        merged.emplace_back(tokenizer->TokenText(id));
      }
      ASSERT_EQ(merged, MergeSlowly(vocabulary, text)) << text;
    }
  }
}

TEST(SpmTokenizer, ThePrefixStandsInFrontOfEveryRunBetweenControlTokens) {
  Vocabulary vocabulary = SentencePieceVocabulary({"\u2581a", "\u2581", "a"});
  const TokenId pad = AddToken(vocabulary, "<pad>", TokenKind::kControl);
  const TokenId call = AddToken(vocabulary, "<call>", TokenKind::kUserDefined);
  const auto with = Make(vocabulary);
  EXPECT_THAT(EncodeSpecial(*with, "<pad>a</s>"), ElementsAre(pad, kFirstPiece, 2));
  EXPECT_THAT(EncodeSpecial(*with, "<call>a"), ElementsAre(kFirstPiece + 1, call, kFirstPiece + 2));
  vocabulary.add_space_prefix = false;
  const auto without = Make(vocabulary);
  EXPECT_THAT(EncodeSpecial(*without, "<pad>a</s>"), ElementsAre(pad, kFirstPiece + 2, 2));
  EXPECT_THAT(EncodeSpecial(*without, "<call>a"), ElementsAre(call, kFirstPiece + 2));
}

TEST(SpmTokenizer, TheEmptyTextGetsNoPrefix) {
  const auto tokenizer = Make(SentencePieceVocabulary({"\u2581"}));
  EXPECT_THAT(EncodePlain(*tokenizer, ""), ElementsAre());
  EXPECT_THAT(tokenizer->Encode("", {}), ElementsAre(1));
}

TEST(SpmTokenizer, UserDefinedTokensNeverMergeWithTheirNeighbours) {
  Vocabulary vocabulary = WithoutPrefix({"ab", "a", "b"});
  const TokenId run = AddToken(vocabulary, "bb", TokenKind::kUserDefined);
  const TokenId longer = AddToken(vocabulary, "bbb", TokenKind::kUserDefined);
  const auto tokenizer = Make(std::move(vocabulary));
  EXPECT_THAT(EncodePlain(*tokenizer, "abb"), ElementsAre(kFirstPiece + 1, run));
  EXPECT_THAT(EncodePlain(*tokenizer, "abbbab"), ElementsAre(kFirstPiece + 1, longer, kFirstPiece));
}

TEST(SpmTokenizer, ControlAndByteSpellingsNeverComeFromText) {
  // All pieces on the way to "<s>" and "<0x41>" exist, so that only their kind keeps them out.
  const auto tokenizer = Make(
      WithoutPrefix({"<", "s", ">", "<s", "s>", "0", "x", "4", "1", "<0", "<0x", "<0x4", "<0x41"}));
  EXPECT_THAT(EncodePlain(*tokenizer, "<s>"), ElementsAre(kFirstPiece + 3, kFirstPiece + 2));
  EXPECT_THAT(EncodePlain(*tokenizer, "<0x41>"), ElementsAre(kFirstPiece + 12, kFirstPiece + 2));
}

TEST(SpmTokenizer, UnknownCharactersBecomeTheirBytes) {
  const auto tokenizer = Make(WithoutPrefix({"a"}));
  EXPECT_THAT(EncodePlain(*tokenizer, "a\u00e9"),
              ElementsAre(kFirstPiece, ByteId(0xC3), ByteId(0xA9)));
  EXPECT_EQ(tokenizer->Decode(EncodePlain(*tokenizer, "a\u00e9\n")), "a\u00e9\n");
}

TEST(SpmTokenizer, WithoutByteTokensARowOfUnknownCharactersIsOneUnknownToken) {
  Vocabulary vocabulary;
  vocabulary.model = "llama";
  vocabulary.add_space_prefix = false;
  vocabulary.add_bos = false;
  vocabulary.unknown = AddToken(vocabulary, "<unk>", TokenKind::kUnknown);
  const TokenId a = AddToken(vocabulary, "a", TokenKind::kNormal);
  const auto tokenizer = Make(std::move(vocabulary));
  EXPECT_THAT(EncodePlain(*tokenizer, "xyaz"), ElementsAre(0, a, 0));
}

TEST(SpmTokenizer, TextRoundTripsWithAndWithoutThePrefix) {
  for (const bool prefix : {false, true}) {
    Vocabulary vocabulary = SentencePieceVocabulary(
        {"\u2581", "\u2581\u2581", "\u2581a", "a", "b", "ab", "\u2581ab", "\u00e9"});
    AddToken(vocabulary, "\n\n", TokenKind::kUserDefined);
    AddToken(vocabulary, "    ", TokenKind::kUserDefined);
    vocabulary.add_space_prefix = prefix;
    const auto tokenizer = Make(std::move(vocabulary));
    for (const std::string text : {"", " ", "  ", "    ", "     a", "a", " a", "ab ab  ",
                                   "\n\n a\n", "\u00e9 \U0001F999", "<s>x", "<0x41>"}) {
      EXPECT_EQ(tokenizer->Decode(EncodePlain(*tokenizer, text)), text) << prefix;
    }
  }
}

TEST(SpmTokenizer, AMisspelledByteTokenIsAnError) {
  for (const std::string spelling : {"<0x0>", "<0xag>", "<0xAA", "0x0A", "<0X0A>"}) {
    Vocabulary vocabulary = SentencePieceVocabulary({});
    AddToken(vocabulary, spelling, TokenKind::kByte);
    const auto tokenizer = SpmTokenizer::Create(std::move(vocabulary));
    ASSERT_FALSE(tokenizer.ok()) << spelling;
    EXPECT_THAT(tokenizer.error().message, HasSubstr(spelling));
  }
}

}  // namespace
}  // namespace quire
