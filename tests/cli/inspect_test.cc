#include "cli/inspect.h"

#include <gmock/gmock.h>

#include <boost/json.hpp>
#include <cmath>

#include "support/gguf_writer.h"
#include "support/scratch_directory.h"

namespace quire::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Inspect : public ::testing::Test {
 protected:
  GgufFile Open(const GgufWriter& writer) const {
    EXPECT_TRUE(writer.Write(directory_.path() / "model.gguf"));
    auto file = GgufFile::Open(directory_.path() / "model.gguf");
    EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().message);
    return std::move(*file);
  }

  std::string Text(const GgufWriter& writer) const {
    const auto text = InspectAsText(Open(writer));
    return text.ok() ? *text : "error: " + text.error().message;
  }
  boost::json::value Json(const GgufWriter& writer) const {
    const auto text = InspectAsJson(Open(writer));
    if (!text.ok()) return boost::json::string("error: " + text.error().message);
    return boost::json::parse(*text);
  }

  // Hidden size 80, 4 heads, 2 key-value heads, 3 layers.
  static GgufWriter Model() {
    GgufWriter writer;
    writer.AddString("general.architecture", "llama");
    writer.Add("llama.block_count", uint32_t{3});
    writer.Add("llama.embedding_length", uint32_t{80});
    writer.Add("llama.attention.head_count", uint32_t{4});
    return writer;
  }

  ScratchDirectory directory_;
};

TEST_F(Inspect, CountsParametersAndBytesFromTheShapes) {
  GgufWriter writer = Model();
  writer.AddTensor("a", 2, {64, 3}, std::string(6 * 18, '\0'));
  writer.AddTensorF32("b", {5}, std::vector<float>(5));
  const auto json = Json(writer).as_object();
  EXPECT_EQ(json.at("parameters").as_int64(), 64 * 3 + 5);
  EXPECT_EQ(json.at("tensor_bytes").as_int64(), 6 * 18 + 20);
  EXPECT_EQ(json.at("tensor_bytes_by_type").at("Q4_0").as_int64(), 108);
  EXPECT_EQ(json.at("tensor_bytes_by_type").at("F32").as_int64(), 20);
  EXPECT_EQ(json.at("file_bytes").as_int64(), static_cast<int64_t>(writer.Bytes().size()));
  const auto& tensor = json.at("tensors").at(0);
  EXPECT_EQ(tensor.at("name"), "a");
  EXPECT_EQ(tensor.at("type"), "Q4_0");
  EXPECT_EQ(tensor.at("bytes"), 108);
  EXPECT_EQ(tensor.at("shape"), (boost::json::array{3, 64}));  // outermost first
  EXPECT_THAT(Text(writer), AllOf(HasSubstr("parameters  197\n"), HasSubstr("[3, 64]")));
}

TEST_F(Inspect, DerivesTheHeadSizeOnlyWhenTheFileDoesNotGiveIt) {
  GgufWriter derived = Model();
  derived.Add("llama.attention.head_count_kv", uint32_t{2});
  EXPECT_EQ(Json(derived).at("kv_bytes_per_token_f16"), 3 * 2 * (20 + 20) * 2);
  GgufWriter given = Model();
  given.Add("llama.attention.head_count_kv", uint32_t{2});
  given.Add("llama.attention.key_length", uint32_t{32});
  given.Add("llama.attention.value_length", uint32_t{16});
  EXPECT_EQ(Json(given).at("kv_bytes_per_token_f16"), 3 * 2 * (32 + 16) * 2);
  EXPECT_THAT(Text(given), HasSubstr("KV cache    576 bytes a token in f16"));
}

TEST_F(Inspect, WithoutKvHeadsEveryHeadHasItsOwn) {
  EXPECT_EQ(Json(Model()).at("kv_bytes_per_token_f16"), 3 * 4 * (20 + 20) * 2);
}

TEST_F(Inspect, SumsKvHeadsLayerByLayer) {
  GgufWriter writer = Model();
  writer.AddList<uint32_t>("llama.attention.head_count_kv", {2, 1, 0});
  EXPECT_EQ(Json(writer).at("kv_bytes_per_token_f16"), (2 + 1 + 0) * (20 + 20) * 2);
}

TEST_F(Inspect, APerLayerListOfAnotherLengthIsRefusedByKey) {
  GgufWriter writer = Model();
  writer.AddList<uint32_t>("llama.attention.head_count_kv", {2, 1});
  EXPECT_THAT(Text(writer), AllOf(HasSubstr("error: "), HasSubstr("llama.attention.head_count_kv"),
                                  HasSubstr("2 elements")));
}

TEST_F(Inspect, AHeadSizeThatDoesNotDivideIsRefused) {
  GgufWriter writer;
  writer.AddString("general.architecture", "llama");
  writer.Add("llama.block_count", uint32_t{1});
  writer.Add("llama.embedding_length", uint32_t{80});
  writer.Add("llama.attention.head_count", uint32_t{3});
  EXPECT_THAT(Text(writer), HasSubstr("is 80, not a multiple of 3 heads"));
}

TEST_F(Inspect, AnOverflowingKvSizeIsRefused) {
  GgufWriter writer = Model();
  writer.Add("llama.attention.head_count_kv", ~uint64_t{0});
  EXPECT_THAT(Text(writer), HasSubstr("overflows"));
}

TEST_F(Inspect, AnAbsurdLayerCountIsRefused) {
  GgufWriter writer;
  writer.AddString("general.architecture", "llama");
  writer.Add("llama.block_count", uint64_t{1} << 60);
  writer.Add("llama.attention.head_count", uint32_t{4});
  EXPECT_THAT(Text(writer), HasSubstr("1152921504606846976 layers"));
}

TEST_F(Inspect, AFileWithoutAttentionNumbersSaysWhichKeyIsMissing) {
  GgufWriter writer;
  writer.AddString("general.architecture", "foo");
  EXPECT_TRUE(Json(writer).at("kv_bytes_per_token_f16").is_null());
  EXPECT_THAT(Text(writer), HasSubstr("unknown: "));
  EXPECT_THAT(Text(writer), HasSubstr("\"foo.block_count\" is missing"));
}

TEST_F(Inspect, ShortensLongListsInTextAndKeepsThemInJson) {
  GgufWriter writer = Model();
  writer.AddList<int32_t>("long", std::vector<int32_t>(1234, -7));
  writer.AddList<int32_t>("short", {1, 2, 3});
  EXPECT_THAT(Text(writer),
              AllOf(HasSubstr("long = [-7, -7, -7, -7, -7, -7, ...] (1,234 elements)\n"),
                    HasSubstr("short = [1, 2, 3]\n")));
  EXPECT_EQ(Json(writer).at("metadata").at("long").as_array().size(), 1234u);
}

TEST_F(Inspect, ShowsEveryKindOfValue) {
  GgufWriter writer = Model();
  writer.Add("eps", 1e-6f);
  writer.Add("flag", true);
  writer.Add("negative", int8_t{-3});
  writer.Add("big", ~uint64_t{0});
  writer.Add("nan", std::nan(""));
  writer.AddStrings("words", {"a", "b"});
  EXPECT_THAT(
      Text(writer),
      AllOf(HasSubstr("eps = 1e-06\n"), HasSubstr("flag = true\n"), HasSubstr("negative = -3\n"),
            HasSubstr("big = 18446744073709551615\n"), HasSubstr("words = [\"a\", \"b\"]\n")));
  const auto json = Json(writer);
  EXPECT_EQ(json.at("metadata").at("big").as_uint64(), ~uint64_t{0});
  EXPECT_EQ(json.at("metadata").at("nan"), "nan");
  EXPECT_EQ(json.at("metadata").at("eps").as_double(), double{1e-6f});
}

TEST_F(Inspect, StringsOfTheFileDriveNoTerminalAndBreakNoJson) {
  GgufWriter writer = Model();
  writer.AddString("general.name", "\x1b[2J\xff\n");
  writer.AddStrings("tokens", {"\x1b]0;x\x07", "\xe6\xbc"});
  writer.AddTensorF32("t\x1b[31m", {1}, std::vector<float>{1});
  EXPECT_THAT(Text(writer), AllOf(HasSubstr("general.name = \"\\u{1b}[2J\\xff\\n\"\n"),
                                  Not(HasSubstr("\x1b")), Not(HasSubstr("\x07"))));
  const auto json = Json(writer);
  EXPECT_EQ(json.at("metadata").at("general.name"), "\x1b[2J\xef\xbf\xbd\n");
  EXPECT_EQ(json.at("metadata").at("tokens").at(1), "\xef\xbf\xbd");
}

}  // namespace
}  // namespace quire::testing
