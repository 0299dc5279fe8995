#include "formats/gguf.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "formats/gguf_fixture.h"

namespace quire::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Gguf = GgufTest;

template <typename T>
const T& ListOf(const GgufFile& file, std::string_view key) {
  return std::get<T>(std::get<GgufList>(*file.FindValue(key)));
}

TEST_F(Gguf, ReadsIntegersOfEveryWidthAtTheirExtremes) {
  GgufWriter writer;
  writer.Add("u8", std::numeric_limits<uint8_t>::max());
  writer.Add("u16", std::numeric_limits<uint16_t>::max());
  writer.Add("u32", std::numeric_limits<uint32_t>::max());
  writer.Add("u64", std::numeric_limits<uint64_t>::max());
  writer.Add("i8", std::numeric_limits<int8_t>::min());
  writer.Add("i16", std::numeric_limits<int16_t>::min());
  writer.Add("i32", std::numeric_limits<int32_t>::min());
  writer.Add("i64", std::numeric_limits<int64_t>::min());
  const auto file = Open(writer);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(*file->FindValue("u8"), GgufValue(uint64_t{255}));
  EXPECT_EQ(*file->FindValue("u16"), GgufValue(uint64_t{65535}));
  EXPECT_EQ(*file->FindValue("u32"), GgufValue(uint64_t{4294967295}));
  EXPECT_EQ(*file->FindValue("u64"), GgufValue(std::numeric_limits<uint64_t>::max()));
  EXPECT_EQ(*file->FindValue("i8"), GgufValue(int64_t{-128}));
  EXPECT_EQ(*file->FindValue("i16"), GgufValue(int64_t{-32768}));
  EXPECT_EQ(*file->FindValue("i32"), GgufValue(int64_t{-2147483648}));
  EXPECT_EQ(*file->FindValue("i64"), GgufValue(std::numeric_limits<int64_t>::min()));
}

TEST_F(Gguf, ReadsFloatsBooleansAndStrings) {
  GgufWriter writer;
  writer.Add("f32", 1e-6f);
  writer.Add("f64", 0.1);
  writer.Add("yes", true);
  writer.Add("no", false);
  writer.AddString("text", std::string_view("a\0\xff", 3));
  writer.AddString("empty", "");
  const auto file = Open(writer);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(*file->GetFloat("f32"), double{1e-6f});
  EXPECT_EQ(*file->GetFloat("f64"), 0.1);
  EXPECT_TRUE(*file->GetBool("yes"));
  EXPECT_FALSE(*file->GetBool("no"));
  EXPECT_EQ(*file->GetString("text"), std::string_view("a\0\xff", 3));
  EXPECT_EQ(*file->GetString("empty"), "");
}

TEST_F(Gguf, WidensListsByTheirKind) {
  GgufWriter writer;
  writer.AddList<uint8_t>("u8", {0, 255});
  writer.AddList<uint16_t>("u16", {65535});
  writer.AddList<uint64_t>("u64", {1, std::numeric_limits<uint64_t>::max()});
  writer.AddList<bool>("bool", {true, false, true});
  writer.AddList<int8_t>("i8", {-1, 1});
  writer.AddList<int16_t>("i16", {-300});
  writer.AddList<int64_t>("i64", {std::numeric_limits<int64_t>::min()});
  writer.AddList<float>("f32", {0.5f, -2.0f});
  writer.AddList<double>("f64", {0.1});
  writer.AddList<uint32_t>("none", {});
  writer.AddStrings("strings", {"", "b"});
  const auto file = Open(writer);
  ASSERT_TRUE(file.ok()) << file.error().message;
  using Uints = std::vector<uint64_t>;
  using Ints = std::vector<int64_t>;
  using Floats = std::vector<double>;
  EXPECT_THAT(ListOf<Uints>(*file, "u8"), ElementsAre(0, 255));
  EXPECT_THAT(ListOf<Uints>(*file, "u16"), ElementsAre(65535));
  EXPECT_THAT(ListOf<Uints>(*file, "u64"), ElementsAre(1, std::numeric_limits<uint64_t>::max()));
  EXPECT_THAT(ListOf<Uints>(*file, "bool"), ElementsAre(1, 0, 1));
  EXPECT_THAT(ListOf<Ints>(*file, "i8"), ElementsAre(-1, 1));
  EXPECT_THAT(ListOf<Ints>(*file, "i16"), ElementsAre(-300));
  EXPECT_THAT(ListOf<Ints>(*file, "i64"), ElementsAre(std::numeric_limits<int64_t>::min()));
  EXPECT_THAT(ListOf<Floats>(*file, "f32"), ElementsAre(0.5, -2.0));
  EXPECT_THAT(ListOf<Floats>(*file, "f64"), ElementsAre(0.1));
  EXPECT_THAT(ListOf<Uints>(*file, "none"), ElementsAre());
  EXPECT_THAT(**file->GetStrings("strings"), ElementsAre("", "b"));
}

TEST_F(Gguf, FindsTensorsWithTheirShapesAndBytes) {
  const auto file = Open(SmallModel());
  ASSERT_TRUE(file.ok()) << file.error().message;
  ASSERT_EQ(file->tensors().size(), 3u);
  EXPECT_EQ(file->tensors()[0].name, "output_norm.weight");
  const GgufTensor* norm = file->FindTensor("blk.0.attn_norm.weight");
  ASSERT_NE(norm, nullptr);
  EXPECT_THAT(norm->dimensions, ElementsAre(4, 2));
  EXPECT_EQ(norm->ggml_type, 0u);
  ASSERT_EQ(norm->data.size(), 32u);
  float last = 0;
  std::memcpy(&last, norm->data.data() + 28, 4);
  EXPECT_EQ(last, 8.0f);
  EXPECT_EQ(file->FindTensor("blk.0.ffn_up.weight")->data.size(), 54u);
  EXPECT_EQ(file->FindTensor("blk.0.ffn_up.weight")->data[0], std::byte{0x3c});
}

TEST_F(Gguf, AMissingTensorOrKeyIsNull) {
  const auto file = Open(SmallModel());
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->FindTensor("blk.3.attn_k.weight"), nullptr);
  EXPECT_EQ(file->FindValue("llama.nothing"), nullptr);
}

TEST_F(Gguf, ReadsVersion2AsVersion3) {
  GgufWriter writer = SmallModel();
  writer.set_version(2);
  const auto file = Open(writer);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->version(), 2);
  EXPECT_EQ(file->tensors().size(), 3u);
}

TEST_F(Gguf, OpensAnArchitectureItDoesNotKnow) {
  GgufWriter writer;
  writer.AddString("general.architecture", "foo");
  const auto file = Open(writer);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(*file->GetString("general.architecture"), "foo");
  EXPECT_TRUE(file->tensors().empty());
}

TEST_F(Gguf, HonoursTheAlignmentOfTheFile) {
  for (uint32_t alignment : {8u, 64u, 4096u}) {
    GgufWriter writer;
    writer.SetAlignment(alignment);
    const std::vector<float> one = {1.5f};
    writer.AddTensorF32("a", {1}, one);
    writer.AddTensorF32("b", {1}, one);
    const auto file = Open(writer);
    ASSERT_TRUE(file.ok()) << file.error().message;
    float value = 0;
    std::memcpy(&value, file->FindTensor("b")->data.data(), 4);
    EXPECT_EQ(value, 1.5f) << alignment;
    EXPECT_EQ(file->FindTensor("b")->data.data() - file->FindTensor("a")->data.data(), alignment);
  }
}

TEST_F(Gguf, ViewsOutliveAMoveOfTheFile) {
  auto file = Open(SmallModel());
  ASSERT_TRUE(file.ok());
  const GgufFile moved = std::move(*file);
  EXPECT_EQ(moved.FindTensor("output_norm.weight")->data[2], std::byte{0x80});
  EXPECT_EQ(moved.FindTensor("output_norm.weight")->data[3], std::byte{0x3f});
  EXPECT_EQ((**moved.GetStrings("tokenizer.ggml.tokens"))[0], "<s>");
}

TEST_F(Gguf, GetUintTakesAnyIntegerThatIsNotNegative) {
  GgufWriter writer;
  writer.Add("signed", int32_t{7});
  writer.Add("unsigned", uint8_t{7});
  writer.Add("negative", int64_t{-7});
  writer.Add("float", 7.0f);
  writer.Add("bool", true);
  const auto file = Open(writer);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(*file->GetUint("signed"), 7u);
  EXPECT_EQ(*file->GetUint("unsigned"), 7u);
  for (const char* key : {"negative", "float", "bool"}) {
    const auto value = file->GetUint(key);
    ASSERT_FALSE(value.ok()) << key;
    EXPECT_EQ(value.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(value.error().message, HasSubstr(key));
    EXPECT_THAT(value.error().message, HasSubstr("expected an unsigned integer"));
    EXPECT_THAT(value.error().message, HasSubstr("model.gguf"));
  }
  EXPECT_THAT(file->GetUint("negative").error().message, HasSubstr("got -7"));
}

TEST_F(Gguf, GetFloatTakesIntegersAndRefusesWhatIsNotFinite) {
  GgufWriter writer;
  writer.Add("int", int32_t{-3});
  writer.Add("uint", uint32_t{10000});
  writer.Add("nan", std::nanf(""));
  writer.Add("infinity", INFINITY);
  writer.AddString("string", "1.0");
  const auto file = Open(writer);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(*file->GetFloat("int"), -3.0);
  EXPECT_EQ(*file->GetFloat("uint"), 10000.0);
  EXPECT_EQ(file->GetFloat("nan").error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(file->GetFloat("infinity").error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(file->GetFloat("string").error().code, ErrorCode::kCorrupt);
}

TEST_F(Gguf, AMissingKeyIsNotFoundAndNamed) {
  const auto file = Open(SmallModel());
  ASSERT_TRUE(file.ok());
  for (const Error& error :
       {file->GetUint("gone").error(), file->GetFloat("gone").error(),
        file->GetBool("gone").error(), file->GetString("gone").error(),
        file->GetStrings("gone").error(), file->GetUintPerLayer("gone", 2).error()}) {
    EXPECT_EQ(error.code, ErrorCode::kNotFound);
    EXPECT_THAT(error.message, HasSubstr("model.gguf: key \"gone\" is missing"));
  }
}

TEST_F(Gguf, ADefaultServesAMissingKeyButNotAWrongType) {
  const auto file = Open(SmallModel());
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(*file->GetUintOr("gone", 5), 5u);
  EXPECT_EQ(*file->GetFloatOr("gone", 0.5), 0.5);
  EXPECT_TRUE(*file->GetBoolOr("gone", true));
  EXPECT_EQ(*file->GetStringOr("gone", "x"), "x");
  EXPECT_EQ(*file->GetUintOr("llama.block_count", 5), 2u);
  EXPECT_EQ(file->GetUintOr("general.architecture", 5).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(file->GetFloatOr("general.architecture", 5).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(file->GetBoolOr("llama.block_count", true).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(file->GetStringOr("llama.block_count", "x").error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(file->GetStrings("tokenizer.ggml.scores").error().code, ErrorCode::kCorrupt);
}

TEST_F(Gguf, APerLayerValueIsOneForAllOrExactlyOneEach) {
  GgufWriter writer;
  writer.Add("one", uint32_t{8});
  writer.AddList<uint32_t>("each", {2, 2, 1, 0});
  writer.AddList<int32_t>("signed", {2, 2, 1, 0});
  writer.AddList<bool>("flags", {true, true, false, true});
  const auto file = Open(writer);
  ASSERT_TRUE(file.ok());
  EXPECT_THAT(*file->GetUintPerLayer("one", 4), ElementsAre(8, 8, 8, 8));
  EXPECT_THAT(*file->GetUintPerLayer("each", 4), ElementsAre(2, 2, 1, 0));
  EXPECT_THAT(*file->GetUintPerLayer("signed", 4), ElementsAre(2, 2, 1, 0));
  EXPECT_THAT(*file->GetUintPerLayer("flags", 4), ElementsAre(1, 1, 0, 1));
}

TEST_F(Gguf, APerLayerListOfAnotherLengthOrTypeIsRefused) {
  GgufWriter writer;
  writer.AddList<uint32_t>("short", {2, 2, 1});
  writer.AddList<int32_t>("negative", {2, 2, -1, 0});
  writer.AddList<float>("floats", {2, 2, 1, 0});
  writer.AddString("string", "2");
  const auto file = Open(writer);
  ASSERT_TRUE(file.ok());
  EXPECT_THAT(file->GetUintPerLayer("short", 4).error().message,
              HasSubstr("key \"short\" has 3 elements (expected one for each of 4 layers)"));
  EXPECT_FALSE(file->GetUintPerLayer("short", 2).ok());
  EXPECT_THAT(file->GetUintPerLayer("negative", 4).error().message, HasSubstr("got -1"));
  EXPECT_THAT(file->GetUintPerLayer("floats", 4).error().message, HasSubstr("list of floats"));
  EXPECT_THAT(file->GetUintPerLayer("string", 4).error().message, HasSubstr("got string"));
}

TEST_F(Gguf, AnAbsurdNumberOfLayersIsRefusedBeforeItIsAllocated) {
  const auto file = Open(SmallModel());
  ASSERT_TRUE(file.ok());
  const auto layers = file->GetUintPerLayer("llama.block_count", size_t{1} << 60);
  ASSERT_FALSE(layers.ok());
  EXPECT_EQ(layers.error().code, ErrorCode::kUnsupported);
}

TEST_F(Gguf, AMissingFileIsNotFoundAndAPipeIsNoFile) {
  const auto missing = GgufFile::Open(Path("gone.gguf"));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("gone.gguf"));
  const auto device = GgufFile::Open("/dev/zero");
  ASSERT_FALSE(device.ok());
  EXPECT_THAT(device.error().message, HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace quire::testing
