// The templates inside real model files, against what Python's jinja2 renders from them: lengths
// and SHA-256 in golden/chat_template/models.json. Files come from $QUIRE_CACHE/models; absent ones
// are skipped.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/sha256.h"
#include "formats/gguf.h"
#include "text/chat_template_fixtures.h"

namespace quire::testing {
namespace {

std::filesystem::path ModelsFolder() {
  if (const char* cache = std::getenv("QUIRE_CACHE"))
    return std::filesystem::path(cache) / "models";
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home == nullptr ? "" : home) / ".cache/quire/models";
}

jinja::Value Goldens() {
  std::ifstream file(std::string(QUIRE_TESTS_DIR) + "/golden/chat_template/models.json");
  return Json(std::string(std::istreambuf_iterator<char>(file), {}));
}

std::string DigestOf(const std::string& text) { return ToHex(Sha256().Add(text).Finish()); }

class ChatTemplateModels : public ::testing::TestWithParam<std::string> {};

TEST_P(ChatTemplateModels, RenderAsJinja2Does) {
  const std::filesystem::path path = ModelsFolder() / GetParam();
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  auto file = GgufFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  auto source = file->GetString("tokenizer.chat_template");
  ASSERT_TRUE(source.ok()) << source.error().message;
  const jinja::Value goldens = Goldens();
  for (const auto& golden : goldens.AsDict().Find(GetParam())->AsSequence().items) {
    const jinja::Dict& members = golden.AsDict();
    const std::string text = Rendered(*source, InputFrom(*members.Find("input")));
    EXPECT_EQ(static_cast<int64_t>(text.size()), members.Find("bytes")->AsInt())
        << members.Find("name")->Text() << "\n"
        << text;
    EXPECT_EQ(DigestOf(text), members.Find("sha256")->Text()) << members.Find("name")->Text();
  }
}

INSTANTIATE_TEST_SUITE_P(Files, ChatTemplateModels,
                         ::testing::Values("SmolLM2-135M-Instruct.Q4_1.gguf",
                                           "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
                                           "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"));

}  // namespace
}  // namespace quire::testing
