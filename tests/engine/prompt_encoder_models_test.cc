// Known answers in the vocabularies of real models.
#include <gtest/gtest.h>

#include "engine/prompt_fixture.h"
#include "formats/gguf.h"
#include "support/model_cache.h"

namespace quire {
namespace {

class RealVocabularyTest : public ::testing::TestWithParam<const char*> {};

TEST_P(RealVocabularyTest, RandomAnswersComeBackAsTheirIdsAndSayTheSameText) {
  const auto file = GgufFile::Open(testing::CachedModel(GetParam()));
  if (!file.ok()) GTEST_SKIP() << file.error().message;
  const auto tokenizer = Tokenizer::FromGguf(*file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  testing::ExpectAnswersComeBackAsTheirIds(**tokenizer, 100);
}

INSTANTIATE_TEST_SUITE_P(Files, RealVocabularyTest,
                         ::testing::Values("gemma-3-270m-q4_k_m.gguf",
                                           "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"));

}  // namespace
}  // namespace quire
