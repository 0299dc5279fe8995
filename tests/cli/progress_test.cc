#include "cli/progress.h"

#include <gtest/gtest.h>

#include "support/scratch_directory.h"

namespace quire {
namespace {

TEST(Progress, SaysPercentageAndMegabytes) {
  EXPECT_EQ(FormatProgress("downloading", 33'500'000, 98'400'000),
            " 34 %  33.5 of 98.4 MB  downloading");
  EXPECT_EQ(FormatProgress("x", 200'000'000, 100'000'000), "100 %  100.0 of 100.0 MB  x");
  EXPECT_EQ(FormatProgress("x", 0, 0), "  0 %  0.0 of 0.0 MB  x");
}

TEST(Progress, WritesNothingWhereThereIsNoTerminal) {
  const ScratchDirectory scratch;
  const auto path = scratch.path() / "log";
  std::FILE* file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  {
    ProgressLine line(file);
    line.Update("x", 1, 2);
    line.Clear();
  }
  std::fclose(file);
  EXPECT_EQ(ReadFile(path), "");
}

}  // namespace
}  // namespace quire
