// Files that lie: every field of a header wrong in turn, every cut, every flipped bit.
#include <gmock/gmock.h>

#include <cstring>
#include <memory>
#include <random>

#include "formats/gguf_fixture.h"
#include "formats/gguf_part.h"

namespace quire::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using GgufDamage = GgufTest;

constexpr uint64_t kHuge = uint64_t{1} << 60;

// Parses a copy that ends where its allocation ends, so that a sanitizer sees a read beyond it.
Result<GgufPart> ParseCopy(std::string_view bytes) {
  const auto copy = std::make_unique<std::byte[]>(bytes.size());
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  const std::span<const std::byte> span(copy.get(), bytes.size());
  auto part = ParseGgufPart("copy", span);
  if (!part.ok()) return part;
  for (const GgufTensor& tensor : part->tensors) {
    EXPECT_GE(tensor.data.data(), span.data());
    EXPECT_LE(tensor.data.data() + tensor.data.size(), span.data() + span.size());
    EXPECT_FALSE(tensor.data.empty());
  }
  return part;
}

TEST_F(GgufDamage, ACutAnywhereIsDataBeyondTheEndOfTheFile) {
  const std::string bytes = SmallModel().Bytes();
  ASSERT_TRUE(ParseCopy(bytes).ok());
  for (size_t size = 1; size < bytes.size(); ++size) {
    const auto part = ParseCopy(std::string_view(bytes).substr(0, size));
    ASSERT_FALSE(part.ok()) << "cut to " << size << " of " << bytes.size();
    ASSERT_THAT(part.error().message, HasSubstr("data beyond end of file")) << size;
  }
}

TEST_F(GgufDamage, OpeningACutFileNamesTheFile) {
  const std::string bytes = SmallModel().Bytes();
  for (size_t size :
       {bytes.size() / 10, bytes.size() / 2, bytes.size() * 99 / 100, bytes.size() - 1}) {
    const Error error = ErrorOfBytes(std::string_view(bytes).substr(0, size));
    EXPECT_EQ(error.code, ErrorCode::kCorrupt);
    EXPECT_THAT(error.message,
                AllOf(HasSubstr("model.gguf"), HasSubstr("data beyond end of file")));
  }
}

TEST_F(GgufDamage, AnyFlippedBitOfTheHeaderGivesAFileOrAnError) {
  const GgufWriter writer = SmallModel();
  const std::string bytes = writer.Bytes();
  const size_t header_bytes = writer.Header().size();
  int num_refused = 0;
  for (size_t bit = 0; bit < header_bytes * 8; ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    const auto part = ParseCopy(damaged);
    if (part.ok()) continue;
    ++num_refused;
    ASSERT_FALSE(part.error().message.empty());
  }
  // Most bits are text, where a flip is another text; counts, lengths and types are not.
  EXPECT_GT(num_refused, static_cast<int>(header_bytes));
}

TEST_F(GgufDamage, RandomBytesInTheHeaderGiveAFileOrAnError) {
  const GgufWriter writer = SmallModel();
  const std::string bytes = writer.Bytes();
  std::mt19937 random(7);
  int num_refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string damaged = bytes;
    for (int i = 0; i < 4; ++i) {
      damaged[8 + random() % (writer.Header().size() - 8)] = static_cast<char>(random());
    }
    if (!ParseCopy(damaged).ok()) ++num_refused;
  }
  EXPECT_GT(num_refused, 1000);
}

TEST_F(GgufDamage, AKeyThatAppearsTwiceIsNamed) {
  GgufWriter writer;
  writer.Add("llama.block_count", uint32_t{1});
  writer.Add("llama.block_count", uint32_t{1});
  EXPECT_THAT(ErrorOf(writer).message, HasSubstr("\"llama.block_count\" appears twice"));
}

TEST_F(GgufDamage, ATensorThatAppearsTwiceIsNamed) {
  GgufWriter writer;
  writer.AddTensorF32("a", {1}, std::vector<float>{1});
  writer.AddTensorF32("a", {1}, std::vector<float>{1});
  EXPECT_THAT(ErrorOf(writer).message, HasSubstr("tensor \"a\" appears twice"));
}

TEST_F(GgufDamage, KeysAreNonEmptyUtf8OfBoundedLength) {
  for (const std::string& key : {std::string(), std::string("\xff\xfe"), std::string(65536, 'k')}) {
    GgufWriter writer;
    writer.Add(key, uint8_t{1});
    writer.Add("another", uint8_t{1});
    const Error error = ErrorOf(writer);
    EXPECT_EQ(error.code, ErrorCode::kCorrupt);
    EXPECT_THAT(error.message, HasSubstr("metadata key 0"));
    EXPECT_LT(error.message.size(), 600u);
  }
  GgufWriter longest;
  longest.Add(std::string(65535, 'k'), uint8_t{1});
  EXPECT_TRUE(Open(longest).ok());
}

TEST_F(GgufDamage, TensorNamesAreNonEmptyUtf8OfBoundedLength) {
  for (const std::string& name : {std::string(), std::string("\xff"), std::string(1025, 'n')}) {
    GgufWriter writer;
    writer.AddTensorF32(name, {1}, std::vector<float>{1});
    EXPECT_THAT(ErrorOf(writer).message, HasSubstr("tensor 0 has a name of"));
  }
}

TEST_F(GgufDamage, ControlCharactersOfANameAreEscapedInTheError) {
  GgufWriter writer;
  writer.AddTensor("a\x1b[2J", 10, {256}, std::string(84, '\0'));
  const std::string message = ErrorOf(writer).message;
  EXPECT_THAT(message, HasSubstr("a\\u{1b}[2J"));
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
}

TEST_F(GgufDamage, AnUnknownValueTypeIsRefused) {
  for (uint32_t type : {13u, 0xffffffffu}) {
    GgufWriter writer;
    writer.AddRaw("key", type, std::string(16, '\0'));
    EXPECT_THAT(ErrorOf(writer).message,
                HasSubstr(fmt::format("key \"key\" has value type {} (expected 0 to 12)", type)));
  }
  GgufBytes list;
  list.Number(uint32_t{13});
  list.Number(uint64_t{1});
  list.Number(uint64_t{1});
  GgufWriter writer;
  writer.AddRaw("key", 9, list.str());
  EXPECT_THAT(ErrorOf(writer).message, HasSubstr("array of value type 13"));
}

TEST_F(GgufDamage, ABooleanIsZeroOrOne) {
  GgufWriter scalar;
  scalar.AddRaw("flag", 7, "\2");
  EXPECT_THAT(ErrorOf(scalar).message, HasSubstr("key \"flag\" holds a boolean of 2"));
  GgufBytes list;
  list.Number(uint32_t{7});
  list.Number(uint64_t{2});
  list.Raw(std::string("\1\xff", 2));
  GgufWriter writer;
  writer.AddRaw("flags", 9, list.str());
  EXPECT_THAT(ErrorOf(writer).message, HasSubstr("key \"flags\" holds a boolean of 255"));
}

TEST_F(GgufDamage, AnArrayOfArraysIsRefusedByKey) {
  GgufBytes list;
  list.Number(uint32_t{9});
  list.Number(uint64_t{1});
  list.Number(uint32_t{0});
  list.Number(uint64_t{1});
  list.Number(uint8_t{1});
  GgufWriter writer;
  writer.AddRaw("nested", 9, list.str());
  const Error error = ErrorOf(writer);
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("key \"nested\" is an array of arrays"));
}

TEST_F(GgufDamage, AnAlignmentIsAPowerOfTwoOfSaneSize) {
  for (uint32_t alignment : {0u, 1u, 4u, 24u, 33u, 1u << 21, 0x80000000u, 0xffffffffu}) {
    GgufWriter writer;
    writer.Add("general.alignment", alignment);
    EXPECT_THAT(
        ErrorOf(writer).message,
        HasSubstr(fmt::format("general.alignment is {} (expected a power of two", alignment)));
  }
  GgufWriter writer;
  writer.AddString("general.alignment", "32");
  EXPECT_THAT(ErrorOf(writer).message, HasSubstr("\"general.alignment\": expected an unsigned"));
}

TEST_F(GgufDamage, ATensorHasOneToFourDimensions) {
  for (size_t count : {size_t{0}, size_t{5}}) {
    GgufWriter writer;
    writer.AddTensor("t", 0, std::vector<uint64_t>(count, 1), std::string(32, '\0'));
    EXPECT_THAT(ErrorOf(writer).message,
                HasSubstr(fmt::format("tensor \"t\" has {} dimensions (expected 1 to 4)", count)));
  }
}

TEST_F(GgufDamage, AZeroOrOverflowingShapeIsRefused) {
  // The last two overflow to 0 and to a small number in 64 bits.
  const std::vector<uint64_t> shapes[] = {{0},
                                          {32, 0},
                                          {uint64_t{1} << 63},
                                          {uint64_t{1} << 32, uint64_t{1} << 32},
                                          {(uint64_t{1} << 63) + 1, 2, 3}};
  for (const auto& shape : shapes) {
    GgufWriter writer;
    writer.AddTensor("t", 0, shape, std::string(64, '\0'));
    const Error error = ErrorOf(writer);
    EXPECT_EQ(error.code, ErrorCode::kCorrupt);
    EXPECT_THAT(error.message, AllOf(HasSubstr("tensor \"t\""),
                                     HasSubstr(fmt::format("[{}]", fmt::join(shape, ", ")))));
  }
}

TEST_F(GgufDamage, ASizeInBytesThatOverflowsIsRefused) {
  GgufWriter writer;
  writer.AddTensor("t", 0, {(uint64_t{1} << 62) + 8}, std::string(64, '\0'));
  EXPECT_THAT(ErrorOf(writer).message, HasSubstr("its size overflows"));
}

TEST_F(GgufDamage, ARowOfAQuantisedTensorIsWholeBlocks) {
  GgufWriter writer;
  writer.AddTensor("t", 12, {128, 2}, std::string(144, '\0'));
  EXPECT_THAT(ErrorOf(writer).message,
              HasSubstr("tensor \"t\" has rows of 128 elements (expected a multiple of 256, the "
                        "block of Q4_K)"));
}

TEST_F(GgufDamage, ATypeQuireDoesNotComputeWithIsUnsupportedByName) {
  const std::pair<uint32_t, const char*> cases[] = {
      {10, "Q2_K"}, {23, "IQ4_XS"}, {4, "Q4_2"}, {26, "I32"}, {77, "unknown (GGML type 77)"}};
  for (const auto& [type, name] : cases) {
    GgufWriter writer;
    writer.AddTensor("blk.0.ffn_up.weight", type, {256}, std::string(1024, '\0'));
    const Error error = ErrorOf(writer);
    EXPECT_EQ(error.code, ErrorCode::kUnsupported);
    EXPECT_THAT(error.message,
                AllOf(HasSubstr("tensor \"blk.0.ffn_up.weight\" has type"), HasSubstr(name)));
  }
}

TEST_F(GgufDamage, ATensorBeyondTheDataIsRefusedWithItsNumbers) {
  for (uint64_t offset : {uint64_t{64}, kHuge, ~uint64_t{31}}) {
    GgufWriter writer;
    writer.AddTensorF32("first", {8}, std::vector<float>(8));
    writer.AddTensorInfo("second", 0, {8}, offset);
    EXPECT_THAT(ErrorOf(writer).message,
                AllOf(HasSubstr("data beyond end of file: tensor \"second\" has 32 bytes"),
                      HasSubstr(std::to_string(offset))));
  }
}

TEST_F(GgufDamage, AnUnalignedTensorIsRefused) {
  GgufWriter writer;
  writer.AddTensorInfo("t", 0, {4}, 16);
  writer.AddTensorF32("padding", {64}, std::vector<float>(64));
  EXPECT_THAT(ErrorOf(writer).message,
              HasSubstr("tensor \"t\" is at offset 16 (expected a multiple of the alignment, 32)"));
}

TEST_F(GgufDamage, OverlappingTensorsAreNamed) {
  GgufWriter writer;
  writer.AddTensorF32("whole", {16}, std::vector<float>(16));
  writer.AddTensorInfo("inside", 0, {8}, 32);
  EXPECT_THAT(ErrorOf(writer).message,
              AllOf(HasSubstr("\"whole\""), HasSubstr("\"inside\""), HasSubstr("overlap")));
  GgufWriter twins;
  twins.AddTensorF32("one", {8}, std::vector<float>(8));
  twins.AddTensorInfo("two", 0, {8}, 0);
  EXPECT_THAT(ErrorOf(twins).message, HasSubstr("overlap"));
}

TEST_F(GgufDamage, HolesAndAnyOrderOfTensorsAreFine) {
  GgufWriter writer;
  writer.AddTensorInfo("last", 0, {8}, 128);
  writer.AddTensorF32("data", {40}, std::vector<float>(40));
  EXPECT_THAT(ErrorOf(writer).message, HasSubstr("overlap"));
  GgufWriter apart;
  apart.AddTensorInfo("last", 0, {8}, 128);
  apart.AddTensorF32("first", {8}, std::vector<float>(8));
  const auto file = OpenBytes(apart.Bytes() + std::string(128, '\0'));
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->tensors()[0].data.data() - file->tensors()[1].data.data(), 128);
}

}  // namespace
}  // namespace quire::testing
