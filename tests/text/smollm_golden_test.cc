#include <gtest/gtest.h>

#include "text/tokenizer_fixtures.h"

namespace quire {
namespace {

TEST(SmolLm2Tokenizer, AgreesWithTheGoldenFile) { ExpectGoldenFileHolds("smollm2"); }

TEST(SmolLm2Tokenizer, KnowsItsEndTokens) {
  const auto tokenizer = ModelTokenizer(ReadGoldenFile("smollm2").model_file);
  if (tokenizer == nullptr) GTEST_SKIP();
  const auto ids = tokenizer->end_of_text_ids();
  EXPECT_EQ(std::vector<TokenId>(ids.begin(), ids.end()), (std::vector<TokenId>{0, 2}));
  EXPECT_FALSE(tokenizer->adds_bos());
  EXPECT_EQ(tokenizer->FindToken("<|im_end|>"), 2);
}

}  // namespace
}  // namespace quire
