#include "engine/logits_file.h"

#include <gtest/gtest.h>

#include "engine/engine_fixture.h"
#include "engine/perplexity.h"
#include "support/scratch_directory.h"

namespace quire {
namespace {

class LogitsFileTest : public ::testing::Test {
 protected:
  // Two windows of four tokens, rows 2..2 of each, three logits a row.
  std::filesystem::path WriteSample() {
    const std::vector<int32_t> tokens = {1, 2, 0, 1, 2, 2, 1, 0};
    auto writer = LogitsWriter::Create(path_, {3, 4, 2, 2}, tokens);
    EXPECT_TRUE(writer.ok());
    EXPECT_TRUE(writer->Append(std::vector<float>{1, 2, 3}).ok());
    EXPECT_TRUE(writer->Append(std::vector<float>{4, 5, 6}).ok());
    EXPECT_TRUE(writer->Finish().ok());
    return path_;
  }

  ScratchDirectory directory_;
  std::filesystem::path path_ = directory_.path() / "logits";
};

TEST_F(LogitsFileTest, WhatIsWrittenIsRead) {
  const auto reader = LogitsReader::Open(WriteSample());
  ASSERT_TRUE(reader.ok()) << reader.error().message;
  EXPECT_EQ(reader->tokens()[4], 2);
  EXPECT_EQ(reader->row(1, 0)[2], 6);
}

TEST_F(LogitsFileTest, EveryCutOffOrLengthenedFileIsRefused) {
  const std::string whole = ReadFile(WriteSample());
  for (size_t size = 0; size < whole.size(); ++size) {
    WriteFile(path_, whole.substr(0, size));
    EXPECT_EQ(LogitsReader::Open(path_).error().code, ErrorCode::kCorrupt) << size;
  }
  WriteFile(path_, whole + "x");
  EXPECT_FALSE(LogitsReader::Open(path_).ok());
}

TEST_F(LogitsFileTest, HugeSizesInTheHeaderAreRefused) {
  std::string bytes = ReadFile(WriteSample());
  for (int at = 8; at < 24; ++at) {
    std::string wrong = bytes;
    wrong[at] = '\xff';
    WriteFile(path_, wrong);
    EXPECT_FALSE(LogitsReader::Open(path_).ok()) << at;
  }
}

TEST_F(LogitsFileTest, AModelDoesNotDivergeFromItself) {
  const auto runner = testing::MakeTestRunner(testing::TinyModel("tiny-llama"));
  ASSERT_NE(runner, nullptr);
  std::vector<int32_t> tokens(100);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 37 % 300);
  const auto saved = MeasurePerplexity(
      *runner, tokens, {.window = 32, .max_windows = 0, .save_logits = path_, .compare_logits = {}},
      {});
  ASSERT_TRUE(saved.ok()) << saved.error().message;
  EXPECT_EQ(saved->num_windows, 3);
  EXPECT_EQ(saved->num_scored, 3 * 15);
  EXPECT_GT(saved->perplexity, 1);
  const auto compared = MeasurePerplexity(
      *runner, tokens, {.window = 32, .max_windows = 2, .save_logits = {}, .compare_logits = path_},
      {});
  ASSERT_TRUE(compared.ok()) << compared.error().message;
  EXPECT_NEAR(compared->mean_divergence, 0, 1e-12);
  EXPECT_EQ(compared->same_best_token, 1);
  // Other tokens are another text.
  tokens[3] = 5;
  EXPECT_FALSE(MeasurePerplexity(
                   *runner, tokens,
                   {.window = 32, .max_windows = 2, .save_logits = {}, .compare_logits = path_}, {})
                   .ok());
}

}  // namespace
}  // namespace quire
