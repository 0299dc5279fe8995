#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

namespace quire {
namespace {

class MappedFileTest : public ::testing::Test {
 protected:
  MappedFileTest()
      : folder_(std::filesystem::temp_directory_path() /
                ("quire_mapped_file_test_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~MappedFileTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::filesystem::path Write(const std::string& name, std::string_view text) {
    const std::filesystem::path path = folder_ / name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  static std::string_view TextOf(const MappedFile& file) {
    return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
  }

  std::filesystem::path folder_;
};

TEST_F(MappedFileTest, ShowsTheBytesOfTheFile) {
  const Result<MappedFile> file = MappedFile::Open(Write("a", "hello"));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(TextOf(*file), "hello");
  EXPECT_EQ(file->identity().size_bytes, 5u);
}

TEST_F(MappedFileTest, AnEmptyFileHasNoBytes) {
  const Result<MappedFile> file = MappedFile::Open(Write("empty", ""));
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->bytes().empty());
}

TEST_F(MappedFileTest, AMissingFileIsNotFoundAndNamed) {
  const Result<MappedFile> file = MappedFile::Open(folder_ / "missing");
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, ErrorCode::kNotFound);
  EXPECT_NE(file.error().message.find("missing"), std::string::npos);
}

TEST_F(MappedFileTest, AFolderIsAnError) {
  const Result<MappedFile> file = MappedFile::Open(folder_);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, ErrorCode::kIo);
}

TEST_F(MappedFileTest, IdentityTellsFilesAndVersionsApart) {
  const auto path = Write("a", "one");
  const FileIdentity first = MappedFile::Open(path)->identity();
  EXPECT_EQ(first, MappedFile::Open(path)->identity());
  EXPECT_NE(first, MappedFile::Open(Write("b", "one"))->identity());
  std::filesystem::last_write_time(path,
                                   std::filesystem::last_write_time(path) - std::chrono::hours(1));
  EXPECT_NE(first, MappedFile::Open(path)->identity());
}

TEST_F(MappedFileTest, ReleasedPagesAreReadAgainWhenTouched) {
  const std::string text(100'000, 'x');
  const Result<MappedFile> file = MappedFile::Open(Write("a", text));
  ASSERT_TRUE(file.ok());
  file->Release(0, text.size());
  file->Release(5, 10);                                           // less than a page
  file->Release(90'000, std::numeric_limits<size_t>::max() / 2);  // past the end
  EXPECT_EQ(TextOf(*file), text);
}

TEST_F(MappedFileTest, MovesHandOverTheMapping) {
  Result<MappedFile> opened = MappedFile::Open(Write("a", "hello"));
  MappedFile first = std::move(opened).value();
  MappedFile second(std::move(first));
  EXPECT_EQ(TextOf(second), "hello");
  MappedFile third = MappedFile::Open(Write("b", "other")).value();
  third = std::move(second);
  EXPECT_EQ(TextOf(third), "hello");
  EXPECT_EQ(third.identity().size_bytes, 5u);
}

}  // namespace
}  // namespace quire
