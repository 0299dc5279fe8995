#include <gmock/gmock.h>

#include "formats/gguf_fixture.h"

namespace quire::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using GgufSignature = GgufTest;

TEST_F(GgufSignature, AnOtherVersionIsRefusedByNumber) {
  for (uint32_t version : {0u, 1u, 4u, 99u}) {
    GgufWriter writer = SmallModel();
    writer.set_version(version);
    const Error error = ErrorOf(writer);
    EXPECT_EQ(error.code, ErrorCode::kUnsupported);
    EXPECT_THAT(error.message, AllOf(HasSubstr("model.gguf"), HasSubstr("expected 2 or 3"),
                                     HasSubstr(fmt::format("version {}", version))));
  }
}

TEST_F(GgufSignature, ABigEndianFileIsCalledThat) {
  const Error error = ErrorOfBytes(std::string("GGUF\0\0\0\3", 8) + std::string(64, '\0'));
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message, AllOf(HasSubstr("big-endian"), HasSubstr("version 3")));
}

TEST_F(GgufSignature, OtherFilesAreCalledWhatTheyAre) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "empty"},
      {"ggjt\1\0\0\0 and so on", "older GGML format"},
      {"tjgg\1\0\0\0 and so on", "older GGML format"},
      {"lmgg and so on", "older GGML format"},
      {"<!DOCTYPE html><html>", "HTML page"},
      {"\xef\xbb\xbf\r\n  <HTML lang=en>", "HTML page"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n", "Git LFS pointer"},
      {"FUGG\0\0\0\3 and so on", "big-endian"},
      {std::string("\x40\0\0\0\0\0\0\0{\"weight\":{}}", 21), "safetensors"},
      {"{\"error\":\"Entry not found\"}", "JSON"},
      {"PK\x03\x04 and so on", "ZIP archive"},
      {"\x1f\x8b\x08 and so on", "compressed"},
      {"<?xml version='1.0'?><Error/>", "XML or HTML"},
      {"abc", "only 3 bytes"},
      {"\x1b[31mred", "got \"\\u{1b}[31\""},
  };
  for (const auto& [bytes, words] : cases) {
    const Error error = ErrorOfBytes(bytes);
    EXPECT_EQ(error.code, ErrorCode::kCorrupt);
    EXPECT_THAT(error.message, AllOf(HasSubstr("model.gguf: not a GGUF file"), HasSubstr(words)));
  }
}

}  // namespace
}  // namespace quire::testing
