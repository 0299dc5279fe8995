// Every case of golden/chat_template/cases.json, rendered by Python's jinja2 as transformers sets
// it up (oracles/chat_template_goldens.py), rendered again.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "text/chat_template_fixtures.h"

namespace quire::testing {
namespace {

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ChatTemplateGolden, RendersAsJinja2Does) {
  const std::string text =
      ReadText(std::string(QUIRE_TESTS_DIR) + "/golden/chat_template/cases.json");
  const jinja::Value goldens = Json(text);
  const auto& inputs = goldens.AsDict().Find("inputs")->AsSequence().items;
  const auto& cases = goldens.AsDict().Find("cases")->AsSequence().items;
  ASSERT_GE(cases.size(), 300u);
  for (const jinja::Value& golden : cases) {
    const jinja::Dict& members = golden.AsDict();
    const std::string& source = members.Find("template")->Text();
    const auto input_idx = static_cast<size_t>(members.Find("input")->AsInt());
    const auto rendered = Rendered(source, InputFrom(inputs.at(input_idx)));
    if (const jinja::Value* output = members.Find("output")) {
      EXPECT_EQ(rendered, output->Text()) << source;
    } else {
      EXPECT_TRUE(rendered.starts_with("error: "))
          << source << "\nrendered: " << rendered
          << "\njinja2 says: " << members.Find("error")->Text();
    }
  }
}

}  // namespace
}  // namespace quire::testing
