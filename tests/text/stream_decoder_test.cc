#include "text/stream_decoder.h"

#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"
#include "text/bpe_tokenizer.h"
#include "text/spm_tokenizer.h"
#include "text/tokenizer_fixtures.h"

namespace quire {
namespace {

TEST(StreamDecoder, NeverEmitsHalfACharacter) {
  const auto tokenizer = BpeTokenizer::Create(ByteLevelVocabulary({}));
  ASSERT_TRUE(tokenizer.ok());
  StreamDecoder decoder(**tokenizer);
  EXPECT_EQ(decoder.Push(0xE5), "");
  EXPECT_EQ(decoder.Push(0xAE), "");
  EXPECT_EQ(decoder.last_bytes(), "\xAE");
  EXPECT_EQ(decoder.Push(0xA2), "\u5ba2");
  EXPECT_EQ(decoder.Push('x'), "x");
  EXPECT_EQ(decoder.Finish(), "");
}

TEST(StreamDecoder, AnUnfinishedCharacterEndsAsOneReplacement) {
  const auto tokenizer = BpeTokenizer::Create(ByteLevelVocabulary({}));
  ASSERT_TRUE(tokenizer.ok());
  StreamDecoder decoder(**tokenizer);
  EXPECT_EQ(decoder.Push(0xF0), "");
  EXPECT_EQ(decoder.Push(0x9F), "");
  EXPECT_EQ(decoder.Finish(), kReplacementCharacter);
  EXPECT_EQ(decoder.Push('a'), "a");
}

TEST(StreamDecoder, DefinitelyInvalidBytesAreReplacedAtOnce) {
  const auto tokenizer = BpeTokenizer::Create(ByteLevelVocabulary({}));
  ASSERT_TRUE(tokenizer.ok());
  StreamDecoder decoder(**tokenizer);
  EXPECT_EQ(decoder.Push(0xFF), kReplacementCharacter);
  EXPECT_EQ(decoder.Push(0xE5), "");
  EXPECT_EQ(decoder.Push('x'), std::string(kReplacementCharacter) + "x");
}

TEST(StreamDecoder, RemovesTheDummySpaceOnceAndKeepsTheOthers) {
  const auto tokenizer = SpmTokenizer::Create(MinimalVocabulary("llama2_minimal"));
  ASSERT_TRUE(tokenizer.ok());
  const std::vector<TokenId> ids = {29871, 8236, 921};
  StreamDecoder decoder(**tokenizer);
  std::string streamed;
  for (const TokenId id : ids) streamed += decoder.Push(id);
  EXPECT_EQ(streamed + decoder.Finish(), " leading x");
  const Tokenizer& base = **tokenizer;
  EXPECT_EQ(base.Decode(ids), " leading x");
}

TEST(StreamDecoder, ControlTokensInFrontDoNotUseUpTheDummySpace) {
  const auto tokenizer = SpmTokenizer::Create(MinimalVocabulary("llama2_minimal"));
  ASSERT_TRUE(tokenizer.ok());
  StreamDecoder decoder(**tokenizer);
  EXPECT_EQ(decoder.Push(1), "");
  EXPECT_EQ(decoder.Push(15043), "Hello");
  EXPECT_EQ(decoder.Push(3186), " world");
  StreamDecoder showing(**tokenizer, /*with_control=*/true);
  EXPECT_EQ(showing.Push(1), "<s>");
  EXPECT_EQ(showing.Push(15043), "Hello");
}

void ExpectStreamEqualsDecode(const Tokenizer& tokenizer, uint32_t seed) {
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::vector<TokenId> ids(random() % 12);
    for (TokenId& id : ids) id = static_cast<TokenId>(random() % (tokenizer.num_tokens() + 2)) - 1;
    for (const bool with_control : {false, true}) {
      StreamDecoder decoder(tokenizer, with_control);
      std::string streamed;
      for (const TokenId id : ids) {
        const std::string delta = decoder.Push(id);
        ASSERT_TRUE(IsWellFormedUtf8(delta));
        streamed += delta;
      }
      streamed += decoder.Finish();
      ASSERT_EQ(streamed, RepairUtf8(tokenizer.Decode(ids, with_control))) << round;
    }
  }
}

TEST(StreamDecoder, TheStreamIsTheDecodedTextForAnyIds) {
  Vocabulary bpe = ByteLevelVocabulary({"a b", "\u00e5 \u00ae"});  // the second is bytes E5 AE
  AddToken(bpe, "<|end|>", TokenKind::kControl);
  const auto bpe_tokenizer = BpeTokenizer::Create(std::move(bpe));
  ASSERT_TRUE(bpe_tokenizer.ok()) << bpe_tokenizer.error().message;
  ExpectStreamEqualsDecode(**bpe_tokenizer, 1);
  Vocabulary spm = SentencePieceVocabulary({"\u2581", "\u2581a", "a", "\u5ba2"});
  AddToken(spm, "  ", TokenKind::kUserDefined);
  const auto spm_tokenizer = SpmTokenizer::Create(std::move(spm));
  ASSERT_TRUE(spm_tokenizer.ok()) << spm_tokenizer.error().message;
  ExpectStreamEqualsDecode(**spm_tokenizer, 2);
}

}  // namespace
}  // namespace quire
