#include "text/bpe_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "text/byte_alphabet.h"
#include "text/tokenizer_fixtures.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<Tokenizer> Make(Vocabulary vocabulary) {
  auto tokenizer = BpeTokenizer::Create(std::move(vocabulary));
  QUIRE_CHECK(tokenizer.ok(), "{}", tokenizer.error().message);
  return std::move(*tokenizer);
}

TEST(BpeTokenizer, TheEarliestMergeComesFirstWhereverItStands) {
  // 256 "bc", 257 "ab", 258 "abc" of "a" and "bc".
  const auto tokenizer = Make(ByteLevelVocabulary({"b c", "a b", "a bc"}));
  EXPECT_THAT(EncodePlain(*tokenizer, "ab"), ElementsAre(257));
  EXPECT_THAT(EncodePlain(*tokenizer, "abc"), ElementsAre(258));
  EXPECT_THAT(EncodePlain(*tokenizer, "abab"), ElementsAre(257, 257));
}

TEST(BpeTokenizer, OfEqualMergesTheLeftmostComesFirst) {
  const auto tokenizer = Make(ByteLevelVocabulary({"a a"}));
  EXPECT_THAT(EncodePlain(*tokenizer, "aaa"), ElementsAre(256, 'a'));
}

// The obvious way: look for the best pair, merge it, start again.
std::vector<TokenId> MergeSlowly(const Vocabulary& vocabulary, const std::string& word) {
  std::vector<std::string> symbols;
  for (const char byte : word) symbols.emplace_back(1, byte);
  for (;;) {
    size_t best_rank = std::numeric_limits<size_t>::max();
    size_t best = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto& merges = vocabulary.merges;
      const size_t rank =
          std::find(merges.begin(), merges.end(), symbols[i] + " " + symbols[i + 1]) -
          merges.begin();
      if (rank < merges.size() && rank < best_rank) {
        best_rank = rank;
        best = i;
      }
    }
    if (best_rank == std::numeric_limits<size_t>::max()) break;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + best + 1);
  }
  std::vector<TokenId> ids;
  for (const std::string& symbol : symbols) {
    const auto& tokens = vocabulary.tokens;
    ids.push_back(std::find(tokens.begin(), tokens.end(), symbol) - tokens.begin());
  }
  return ids;
}

TEST(BpeTokenizer, AgreesWithTheSlowMergeLoop) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::string> parts = {"a", "b", "c"};
    std::vector<std::string> merges;
    for (int i = 0; i < 25; ++i) {
      const std::string left = parts[random() % parts.size()];
      const std::string right = parts[random() % parts.size()];
      const bool is_new = std::find(parts.begin(), parts.end(), left + right) == parts.end();
      if (!is_new) continue;
      merges.push_back(left + " " + right);
      parts.push_back(left + right);
    }
    const Vocabulary vocabulary = ByteLevelVocabulary(merges);
    const auto tokenizer = Make(vocabulary);
    for (int i = 0; i < 20; ++i) {
      std::string word;
      for (int left = 1 + random() % 60; left > 0; --left) word += "abc"[random() % 3];
      ASSERT_EQ(EncodePlain(*tokenizer, word), MergeSlowly(vocabulary, word)) << word;
    }
  }
}

TEST(BpeTokenizer, AnyBytesRoundTripWithInvalidOnesReplaced) {
  const auto tokenizer = Make(ByteLevelVocabulary({}));
  EXPECT_EQ(tokenizer->Decode(EncodePlain(*tokenizer, "\xFF\xF0\x9F\x98\x80 x")),
            "\uFFFD\U0001F600 x");
}

TEST(BpeTokenizer, AByteWithoutATokenIsLeftOut) {
  Vocabulary vocabulary = ByteLevelVocabulary({"a b"});
  vocabulary.kinds['x'] = TokenKind::kUnused;
  const auto tokenizer = Make(std::move(vocabulary));
  EXPECT_THAT(EncodePlain(*tokenizer, "axb"), ElementsAre(256));
}

TEST(BpeTokenizer, ControlTextIsPlainTextUnlessAsked) {
  Vocabulary vocabulary = ByteLevelVocabulary({});
  const TokenId end = AddToken(vocabulary, "<e>", TokenKind::kControl);
  const TokenId call = AddToken(vocabulary, "<c>", TokenKind::kUserDefined);
  const auto tokenizer = Make(std::move(vocabulary));
  EXPECT_THAT(EncodePlain(*tokenizer, "<e><c>"), ElementsAre('<', 'e', '>', call));
  EXPECT_THAT(EncodeSpecial(*tokenizer, "<e><c>"), ElementsAre(end, call));
  EXPECT_EQ(tokenizer->Decode(std::vector<TokenId>{end, call, 'x'}), "<c>x");
  EXPECT_EQ(tokenizer->Decode(std::vector<TokenId>{end, call, 'x'}, true), "<e><c>x");
}

TEST(BpeTokenizer, TheLongestSpecialTokenWinsFromTheLeft) {
  Vocabulary vocabulary = ByteLevelVocabulary({});
  const TokenId shorter = AddToken(vocabulary, "<e", TokenKind::kControl);
  const TokenId longer = AddToken(vocabulary, "<ee>", TokenKind::kControl);
  const TokenId later = AddToken(vocabulary, "e>xyz", TokenKind::kControl);
  const auto tokenizer = Make(std::move(vocabulary));
  EXPECT_THAT(EncodeSpecial(*tokenizer, "<ee>"), ElementsAre(longer));
  EXPECT_THAT(EncodeSpecial(*tokenizer, "<ef"), ElementsAre(shorter, 'f'));
  EXPECT_THAT(EncodeSpecial(*tokenizer, "<e>xyz"), ElementsAre(shorter, '>', 'x', 'y', 'z'));
  EXPECT_THAT(EncodeSpecial(*tokenizer, "ae>xyz"), ElementsAre('a', later));
}

TEST(BpeTokenizer, OnlyTemplatePiecesHoldControlTokens) {
  Vocabulary vocabulary = ByteLevelVocabulary({"a b"});
  const TokenId end = AddToken(vocabulary, "<e>", TokenKind::kControl);
  const auto tokenizer = Make(std::move(vocabulary));
  const auto encode = [&](std::vector<PromptPiece> pieces) {
    return tokenizer->EncodePieces(pieces, false);
  };
  EXPECT_THAT(encode({{"<e>", true}, {"<e>", false}}), ElementsAre(end, '<', 'e', '>'));
  // Nor does one arise across a seam; the parts of one literal do join.
  EXPECT_THAT(encode({{"<", true}, {"e>", false}}), ElementsAre('<', 'e', '>'));
  EXPECT_THAT(encode({{"<e", false}, {">", true}}), ElementsAre('<', 'e', '>'));
  EXPECT_THAT(encode({{"<", true}, {"e>", true}}), ElementsAre(end));
  EXPECT_THAT(encode({{"<", true}, {"", false}, {"e>", true}}), ElementsAre('<', 'e', '>'));
  // Ordinary merging does not see the seam.
  EXPECT_THAT(encode({{"xa", true}, {"b", false}}), ElementsAre('x', 256));
}

TEST(BpeTokenizer, UserDefinedTokensAreReadInMessagesAndAcrossSeams) {
  Vocabulary vocabulary = ByteLevelVocabulary({});
  const TokenId call = AddToken(vocabulary, "<call>", TokenKind::kUserDefined);
  const auto tokenizer = Make(std::move(vocabulary));
  const std::vector<PromptPiece> pieces = {{"<ca", true}, {"ll><call>", false}};
  EXPECT_THAT(tokenizer->EncodePieces(pieces, false), ElementsAre(call, call));
}

TEST(BpeTokenizer, AddsBosAndEosWhereTheFileSaysSo) {
  Vocabulary vocabulary = ByteLevelVocabulary({});
  vocabulary.bos = AddToken(vocabulary, "<s>", TokenKind::kControl);
  vocabulary.eos = AddToken(vocabulary, "</s>", TokenKind::kControl);
  const TokenId bos = vocabulary.bos;
  const TokenId eos = vocabulary.eos;
  EXPECT_THAT(Make(vocabulary)->Encode("a", {}), ElementsAre('a'));
  vocabulary.add_bos = true;
  EXPECT_THAT(Make(vocabulary)->Encode("a", {}), ElementsAre(bos, 'a'));
  EXPECT_THAT(Make(vocabulary)->Encode("", {}), ElementsAre(bos));
  EXPECT_THAT(Make(vocabulary)->Encode("<s>a", {.parse_special = true}), ElementsAre(bos, 'a'));
  EXPECT_THAT(Make(vocabulary)->Encode("<s>", {}), ElementsAre(bos, '<', 's', '>'));
  vocabulary.add_eos = true;
  EXPECT_THAT(Make(vocabulary)->Encode("a", {}), ElementsAre(bos, 'a', eos));
  EXPECT_THAT(Make(vocabulary)->Encode("a", {.add_special = false}), ElementsAre('a'));
}

TEST(BpeTokenizer, ListsEveryTokenThatEndsAnAnswer) {
  Vocabulary vocabulary = ByteLevelVocabulary({});
  const TokenId im_end = AddToken(vocabulary, "<|im_end|>", TokenKind::kControl);
  vocabulary.eos = AddToken(vocabulary, "<stop>", TokenKind::kControl);
  vocabulary.end_of_message = AddToken(vocabulary, "<eom>", TokenKind::kControl);
  AddToken(vocabulary, "<|eot_id|>", TokenKind::kUserDefined);
  const auto tokenizer = Make(std::move(vocabulary));
  EXPECT_THAT(tokenizer->end_of_text_ids(), ElementsAre(im_end, im_end + 1, im_end + 2));
}

TEST(BpeTokenizer, IdsOutsideTheVocabularyGiveNothing) {
  const auto tokenizer = Make(ByteLevelVocabulary({}));
  EXPECT_EQ(tokenizer->Decode(std::vector<TokenId>{-1, 'a', 100'000, INT32_MIN, 'b'}), "ab");
  EXPECT_EQ(tokenizer->TokenText(-5), "");
  EXPECT_EQ(tokenizer->Kind(100'000), TokenKind::kUnused);
}

TEST(BpeTokenizer, RefusesMergesThatMakeNoSense) {
  const auto message = [](std::vector<std::string> merges) {
    Vocabulary vocabulary = ByteLevelVocabulary({"a b"});
    vocabulary.merges = std::move(merges);
    const auto tokenizer = BpeTokenizer::Create(std::move(vocabulary));
    return tokenizer.ok() ? "" : tokenizer.error().message;
  };
  EXPECT_EQ(message({"a b"}), "");
  EXPECT_THAT(message({"ab"}), HasSubstr("merges[0] is 'ab'"));
  EXPECT_THAT(message({"a "}), HasSubstr("expected two tokens"));
  EXPECT_THAT(message({""}), HasSubstr("expected two tokens"));
  EXPECT_THAT(message({"a b", "ab zz"}), HasSubstr("'zz' is not a normal token"));
  EXPECT_THAT(message({"a c"}), HasSubstr("'ac' is not a normal token"));
  EXPECT_THAT(message({"a b", "a b"}), HasSubstr("merges[1] repeats"));
}

TEST(BpeTokenizer, RefusesAnUnknownPreTokenizer) {
  const auto tokenizer = BpeTokenizer::Create(ByteLevelVocabulary({}, "never-heard-of"));
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_THAT(tokenizer.error().message, HasSubstr("never-heard-of"));
}

TEST(BpeTokenizer, SplitsDigitsByACustomPattern) {
  const std::string pattern = R"(\d{1,3}(?=(?:\d{3})*\b))";
  auto pre_tokenizer = PreTokenizer::FromPatterns({&pattern, 1});
  ASSERT_TRUE(pre_tokenizer.ok());
  const auto tokenizer =
      BpeTokenizer::Create(ByteLevelVocabulary({"1 2", "12 3", "2 3", "23 4", "5 6", "56 7"}),
                           std::move(*pre_tokenizer));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_THAT(EncodePlain(**tokenizer, "1234567"), ElementsAre('1', 259, 261));
}

TEST(ByteAlphabet, SpellsAndUnspellsEveryByte) {
  EXPECT_EQ(SpellBytes(" a\n"), "\u0120a\u010a");
  for (int byte = 0; byte < 256; ++byte) {
    const std::string bytes(1, static_cast<char>(byte));
    EXPECT_EQ(UnspellBytes(SpellBytes(bytes)), bytes);
  }
  EXPECT_EQ(UnspellBytes("\u4e2d"), std::nullopt);
  EXPECT_EQ(UnspellBytes(" "), std::nullopt);
}

}  // namespace
}  // namespace quire
