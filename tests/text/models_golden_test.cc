#include <gtest/gtest.h>

#include "text/tokenizer_fixtures.h"

namespace quire {
namespace {

TEST(QwenTokenizer, AgreesWithTheGoldenFile) { ExpectGoldenFileHolds("qwen2"); }
TEST(GemmaTokenizer, AgreesWithTheGoldenFile) { ExpectGoldenFileHolds("gemma3"); }

TEST(GemmaTokenizer, AddsBosOnceAndMergesNewlinesAcrossPieces) {
  const auto tokenizer = ModelTokenizer(ReadGoldenFile("gemma3").model_file);
  if (tokenizer == nullptr) GTEST_SKIP();
  const std::vector<PromptPiece> pieces = {{"<bos><start_of_turn>user\n", true},
                                           {"\nhi<end_of_turn>", false},
                                           {"<end_of_turn>\n", true}};
  const auto ids = tokenizer->EncodePieces(pieces, /*add_special=*/true);
  ASSERT_GT(ids.size(), 6u);
  EXPECT_EQ(std::vector<TokenId>(ids.begin(), ids.begin() + 2), (std::vector<TokenId>{2, 105}));
  EXPECT_EQ(ids[3], 108);                                 // "\n\n"
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 106), 1);  // <end_of_turn>
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 2), 1);
}

}  // namespace
}  // namespace quire
