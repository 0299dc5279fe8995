#include "cli/model_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "cli/catalogue.h"
#include "cli/pull.h"
#include "support/scratch_directory.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ModelList, TellsReadyFromPartlyPulledFromNotPulled) {
  const ScratchDirectory scratch;
  const CatalogueEntry& first = Catalogue()[0];
  const CatalogueEntry& second = Catalogue()[1];
  WriteFile(scratch.path() / first.file, "");
  std::filesystem::resize_file(scratch.path() / first.file, first.size_bytes);  // sparse
  std::filesystem::create_directories(PartsDirectory(second, scratch.path()));
  WriteFile(scratch.path() / "mine.gguf", "1234");
  WriteFile(scratch.path() / "notes.txt", "");

  const std::vector<ModelListing> models = ListModels(scratch.path());
  ASSERT_EQ(models.size(), Catalogue().size() + 1);
  EXPECT_EQ(models[0].state, ModelState::kReady);
  EXPECT_EQ(models[1].state, ModelState::kPartlyPulled);
  EXPECT_EQ(models[2].state, ModelState::kNotPulled);
  EXPECT_EQ(models.back().name, "mine.gguf");
  EXPECT_EQ(models.back().size_bytes, 4u);

  EXPECT_THAT(FormatModelsText(models), HasSubstr("partly pulled"));
  const auto json = boost::json::parse(FormatModelsJson(models));
  EXPECT_EQ(json.at("models").at(0).at("state").as_string(), "ready");
  EXPECT_EQ(json.at("models").at(0).at("bytes").to_number<uint64_t>(), first.size_bytes);
}

TEST(ModelList, ListsWhatCameFromAHubByTheNameThatVerbsTake) {
  const ScratchDirectory scratch;
  const auto place = [&](const char* path) {
    std::filesystem::create_directories((scratch.path() / path).parent_path());
    WriteFile(scratch.path() / path, "1234");
  };
  place("hf/owner/repo/a.gguf");
  place("hf/owner/repo/@v2/sub/b-00001-of-00002.gguf");
  place("hf/owner/repo/@v2/sub/b-00002-of-00002.gguf");
  place("hf/owner/repo/half.gguf.part");
  place("web/example.org/models/c.gguf");

  std::vector<std::string> names;
  for (const ModelListing& model : ListModels(scratch.path())) names.push_back(model.name);
  names.erase(names.begin(), names.begin() + static_cast<ptrdiff_t>(Catalogue().size()));
  EXPECT_THAT(names,
              ElementsAre("hf:owner/repo/a.gguf", "hf:owner/repo@v2/sub/b-00001-of-00002.gguf",
                          "web/example.org/models/c.gguf"));
}

TEST(ModelList, WithoutADirectoryNothingIsPulled) {
  for (const ModelListing& model : ListModels("/nowhere/at/all")) {
    EXPECT_EQ(model.state, ModelState::kNotPulled) << model.name;
  }
}

}  // namespace
}  // namespace quire
