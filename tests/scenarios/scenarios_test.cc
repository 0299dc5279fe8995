// Plays every story of this folder (scenario_runner.h tells how they are written).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "scenarios/scenario_runner.h"

namespace quire {
namespace {

std::vector<std::string> ReadLines(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// Both from the first line that differs on, side by side.
std::string Difference(const std::vector<std::string>& story,
                       const std::vector<std::string>& told) {
  const auto first = static_cast<size_t>(std::ranges::mismatch(story, told).in1 - story.begin());
  std::string text = fmt::format("{:>4} {:<70}   {}\n", "line", "expected", "got");
  for (size_t i = first > 3 ? first - 3 : 0; i < std::max(story.size(), told.size()); ++i) {
    if (i > first + 12) break;
    const std::string expected = i < story.size() ? story[i] : "(end)";
    const std::string got = i < told.size() ? told[i] : "(end)";
    text += fmt::format("{:>4} {:<70} {} {}\n", i + 1, expected, expected == got ? ' ' : '!', got);
  }
  return text;
}

class Scenario : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(Scenario, HappensAsItIsTold) {
  const std::vector<std::string> story = ReadLines(GetParam());
  const std::vector<std::string> told = ScenarioRunner::Play(story);
  EXPECT_TRUE(story == told) << GetParam().filename().string() << '\n' << Difference(story, told);
}

std::vector<std::filesystem::path> Stories() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(QUIRE_TESTS_DIR "/scenarios")) {
    if (entry.path().extension() == ".txt" && entry.path().filename() != "CMakeLists.txt") {
      paths.push_back(entry.path());
    }
  }
  std::ranges::sort(paths);
  return paths;
}

INSTANTIATE_TEST_SUITE_P(Stories, Scenario, ::testing::ValuesIn(Stories()), [](const auto& info) {
  std::string name = info.param.stem().string();
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST(ScenarioRunner, TellsOfLinesThatItDoesNotUnderstand) {
  for (const std::string line : {"dance", "request s1: x, 3 new", "request s1: 1x3, blue",
                                 "abort s9", "steps until never", "request s7: 1x3"}) {
    const auto told = ScenarioRunner::Play({"pool 3 blocks", line});
    EXPECT_TRUE(std::ranges::any_of(told, [](const std::string& text) {
      return text.starts_with("error:");
    })) << line;
  }
}

TEST(FakeModel, SeesASlotThatIsNotItsOwn) {
  const std::vector<int> windows = {0};
  const auto cache = std::move(KvCache::Create(FakeModel::Layout(windows), 4)).value();
  Batch batch(*cache, {});
  batch.Add({.tokens = std::vector<int32_t>(20, 5)});
  const FakeModel model(*cache);
  auto items = batch.Begin(batch.Plan(0));
  EXPECT_EQ(model.Forward(items), "");
  batch.Commit(items);
  batch.Append(1, 6);
  items = batch.Begin(batch.Plan(1));
  const int32_t first_block = items[0].block_tables[0][0];
  reinterpret_cast<float*>(cache->view().Block(first_block))[3] += 1;
  EXPECT_EQ(model.Forward(items), "s1 reads a wrong entry at position 3 of group 0");
}

}  // namespace
}  // namespace quire
