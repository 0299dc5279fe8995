#include "formats/gguf_split.h"

#include <gmock/gmock.h>

#include <cstring>

#include "formats/gguf_fixture.h"

namespace quire::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class GgufSplit : public GgufTest {
 protected:
  static constexpr int kNumParts = 3;

  static std::string Name(int number) {
    return GgufSplitName{.base = "tiny", .number = number, .count = kNumParts}.FileName(number);
  }

  // Part `part_idx` (from 0) with the tensor "t<part_idx>" of one float, its index.
  static GgufWriter Part(int part_idx, int num_tensors = kNumParts) {
    GgufWriter writer;
    if (part_idx == 0) writer.AddString("general.architecture", "llama");
    AddSplitKeys(writer, part_idx, kNumParts, num_tensors);
    const std::vector<float> values(8, static_cast<float>(part_idx));
    writer.AddTensorF32(fmt::format("t{}", part_idx), {8}, values);
    return writer;
  }

  void WriteSet() {
    for (int i = 0; i < kNumParts; ++i) ASSERT_TRUE(Part(i).Write(Path(Name(i + 1))));
  }

  void ExpectWhole(const std::filesystem::path& path) {
    const auto file = GgufFile::Open(path);
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(*file->GetString("general.architecture"), "llama");
    ASSERT_EQ(file->parts().size(), 3u);
    ASSERT_EQ(file->tensors().size(), 3u);
    for (int i = 0; i < kNumParts; ++i) {
      const GgufTensor* tensor = file->FindTensor(fmt::format("t{}", i));
      ASSERT_NE(tensor, nullptr);
      EXPECT_EQ(tensor->part, i);
      EXPECT_EQ(file->part_paths()[i].filename(), Name(i + 1));
      float value = -1;
      std::memcpy(&value, tensor->data.data(), 4);
      EXPECT_EQ(value, static_cast<float>(i));
    }
  }

  Error ErrorAt(std::string_view name) {
    const auto file = GgufFile::Open(Path(name));
    if (!file.ok()) return file.error();
    ADD_FAILURE() << name << " opened";
    return Error{ErrorCode::kIo, "opened"};
  }
};

TEST_F(GgufSplit, AnyPartOrTheDirectoryLoadsAll) {
  WriteSet();
  for (int number = 1; number <= kNumParts; ++number) ExpectWhole(Path(Name(number)));
  ExpectWhole(directory_);
}

TEST_F(GgufSplit, FindsTheOthersBesideARelativePath) {
  WriteSet();
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(directory_);
  ExpectWhole(Name(2));
  std::filesystem::current_path(before);
}

TEST_F(GgufSplit, AMissingPartIsNamed) {
  WriteSet();
  std::filesystem::remove(Path(Name(2)));
  for (const std::string& name : {Name(1), Name(3), std::string()}) {
    const Error error = ErrorAt(name);
    EXPECT_EQ(error.code, ErrorCode::kNotFound);
    EXPECT_THAT(error.message, AllOf(HasSubstr("part 2 of 3"), HasSubstr(Name(2))));
  }
}

TEST_F(GgufSplit, SwappedPartsAreRefusedByName) {
  WriteSet();
  std::filesystem::rename(Path(Name(2)), Path("x"));
  std::filesystem::rename(Path(Name(3)), Path(Name(2)));
  std::filesystem::rename(Path("x"), Path(Name(3)));
  for (int number = 1; number <= kNumParts; ++number) {
    const Error error = ErrorAt(Name(number));
    EXPECT_EQ(error.code, ErrorCode::kCorrupt);
    EXPECT_THAT(error.message, HasSubstr("was the file renamed?"));
  }
  EXPECT_THAT(ErrorAt(Name(1)).message,
              AllOf(HasSubstr(Name(2)), HasSubstr("the name says part 2 of 3, but split.no is 2")));
}

TEST_F(GgufSplit, APartWithoutAPartsNameIsRefusedNotLoadedAlone) {
  WriteSet();
  std::filesystem::rename(Path(Name(2)), Path("model.gguf"));
  EXPECT_THAT(ErrorAt("model.gguf").message,
              AllOf(HasSubstr("split.no 1"), HasSubstr("NAME-00002-of-00003.gguf")));
}

TEST_F(GgufSplit, AWholeFileUnderAPartsNameIsRefused) {
  ASSERT_TRUE(SmallModel().Write(Path(Name(1))));
  EXPECT_THAT(ErrorAt(Name(1)).message,
              AllOf(HasSubstr("part 1 of 3"), HasSubstr("split.count is 0")));
}

TEST_F(GgufSplit, OneOfOneIsAWholeFileWithOrWithoutSplitKeys) {
  ASSERT_TRUE(SmallModel().Write(Path("x-00001-of-00001.gguf")));
  EXPECT_TRUE(GgufFile::Open(Path("x-00001-of-00001.gguf")).ok());
  EXPECT_TRUE(GgufFile::Open(directory_).ok());

  GgufWriter writer = SmallModel();
  AddSplitKeys(writer, 0, 1, 3);
  EXPECT_TRUE(OpenBytes(writer.Bytes(), "x-00001-of-00001.gguf").ok());
  EXPECT_TRUE(OpenBytes(writer.Bytes(), "renamed.gguf").ok());
}

TEST_F(GgufSplit, AMergedFileKeepsACountOfZeroAndIsWhole) {
  GgufWriter writer = SmallModel();
  AddSplitKeys(writer, 0, 0, 3);
  EXPECT_TRUE(Open(writer).ok());
}

TEST_F(GgufSplit, APartNumberBeyondASingleFileIsRefused) {
  GgufWriter writer = SmallModel();
  AddSplitKeys(writer, 2, 1, 3);
  EXPECT_THAT(ErrorOf(writer).message, HasSubstr("split.no is 2 of a split.count of 1"));
}

TEST_F(GgufSplit, TheTensorCountIsTheTotalOverAllParts) {
  WriteSet();
  ASSERT_TRUE(Part(1, 4).Write(Path(Name(2))));
  EXPECT_THAT(ErrorAt(Name(1)).message,
              AllOf(HasSubstr(Name(2)), HasSubstr("split.tensors.count is 4"),
                    HasSubstr("hold 3 tensors")));
}

TEST_F(GgufSplit, ANegativeOrMistypedSplitKeyIsRefused) {
  GgufWriter negative;
  negative.Add("split.count", int32_t{-3});
  EXPECT_THAT(ErrorOf(negative).message, HasSubstr("\"split.count\" is -3"));
  GgufWriter text;
  text.AddString("split.count", "3");
  EXPECT_THAT(ErrorOf(text).message, HasSubstr("\"split.count\": expected an unsigned integer"));
}

TEST_F(GgufSplit, ATensorInTwoPartsIsRefused) {
  WriteSet();
  GgufWriter writer;
  AddSplitKeys(writer, 2, 3, 3);
  writer.AddTensorF32("t0", {1}, std::vector<float>{1});
  ASSERT_TRUE(writer.Write(Path(Name(3))));
  EXPECT_THAT(ErrorAt(Name(1)).message,
              AllOf(HasSubstr(Name(3)), HasSubstr("tensor \"t0\" appears twice")));
}

TEST_F(GgufSplit, APartOfAnotherModelIsRefused) {
  WriteSet();
  GgufWriter writer;
  writer.AddString("general.architecture", "gemma3");
  AddSplitKeys(writer, 2, 3, 3);
  writer.AddTensorF32("t2", {1}, std::vector<float>{1});
  ASSERT_TRUE(writer.Write(Path(Name(3))));
  EXPECT_THAT(ErrorAt(Name(1)).message,
              AllOf(HasSubstr("\"general.architecture\" differs"), HasSubstr(Name(3))));
}

TEST_F(GgufSplit, ADamagedPartIsNamed) {
  WriteSet();
  const std::string bytes = Part(1).Bytes();
  ASSERT_TRUE(WriteBytes(Path(Name(2)), std::string_view(bytes).substr(0, bytes.size() - 1)));
  EXPECT_THAT(ErrorAt(Name(1)).message,
              AllOf(HasSubstr(Name(2)), HasSubstr("data beyond end of file")));
}

TEST_F(GgufSplit, ADirectoryOfSeveralModelsOrNoneIsRefused) {
  EXPECT_THAT(ErrorAt("").message, HasSubstr("no .gguf file"));
  WriteSet();
  ASSERT_TRUE(SmallModel().Write(Path("other.gguf")));
  const Error error = ErrorAt("");
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message,
              AllOf(HasSubstr("2 models"), HasSubstr("other.gguf"), HasSubstr(Name(1))));
}

TEST(GgufSplitName, IsReadFromTheEndOfTheName) {
  const auto name = ParseGgufSplitName("a-00001-of-00002-00003-of-00012.gguf");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->base, "a-00001-of-00002");
  EXPECT_EQ(name->number, 3);
  EXPECT_EQ(name->count, 12);
  EXPECT_EQ(name->FileName(4), "a-00001-of-00002-00004-of-00012.gguf");
}

TEST(GgufSplitName, IsExactlyFiveDigitsEach) {
  for (const char* name :
       {"", ".gguf", "model.gguf", "a-0001-of-00002.gguf", "a-00001-of-0002.gguf",
        "a-00001-of-00002.bin", "a-0000x-of-00002.gguf", "a-00001_of-00002.gguf",
        "a00001-of-00002.gguf", "00001-of-00002.gguf", "a-+0001-of-00002.gguf"}) {
    EXPECT_FALSE(ParseGgufSplitName(name).has_value()) << name;
  }
}

}  // namespace
}  // namespace quire::testing
