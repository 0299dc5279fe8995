// Counts and lengths without bound: refused in little memory and little time. Each case runs in a
// child process under limits on both.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "formats/gguf_fixture.h"
#include "formats/gguf_part.h"
#include "support/sanitizers.h"

namespace quire::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kHuge = uint64_t{1} << 60;

class GgufLimits : public GgufTest {
 protected:
  // The error message of opening `bytes` in 500,000 KiB of address space and 2 s of processor time
  // (1 s is the aim; the clock of the limit is coarse), or how the child ended.
  std::string Limited(std::string_view bytes) {
    EXPECT_TRUE(WriteBytes(Path("model.gguf"), bytes));
    return LimitedOpen();
  }

  std::string LimitedOpen() {
    int pipe_ends[2];
    if (::pipe(pipe_ends) != 0) return "no pipe";
    const pid_t child = ::fork();
    if (child == 0) {
#ifndef QUIRE_SHADOW_MEMORY  // which takes terabytes of address space
      SetLimit(RLIMIT_AS, 512'000 * 1024);
#endif
      SetLimit(RLIMIT_CPU, 2);
      const auto file = GgufFile::Open(Path("model.gguf"));
      const std::string message = file.ok() ? "opened" : file.error().message;
      const bool written = ::write(pipe_ends[1], message.data(), message.size()) > 0;
      ::_exit(written ? 0 : 1);
    }
    ::close(pipe_ends[1]);
    std::string message;
    char buffer[512];
    ssize_t count = 0;
    while ((count = ::read(pipe_ends[0], buffer, sizeof(buffer))) > 0) {
      message.append(buffer, static_cast<size_t>(count));
    }
    ::close(pipe_ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      return fmt::format("the child ended with status {}", status);
    }
    return message;
  }

 private:
  static void SetLimit(int resource, rlim_t value) {
    const rlimit limit{.rlim_cur = value, .rlim_max = value};
    if (::setrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) ::_exit(2);
  }
};

// The header of an array value.
std::string List(uint32_t type, uint64_t count) {
  GgufBytes bytes;
  bytes.Number(type);
  bytes.Number(count);
  return bytes.str();
}

TEST_F(GgufLimits, AModelOpensUnderThem) { EXPECT_EQ(Limited(SmallModel().Bytes()), "opened"); }

TEST_F(GgufLimits, CountsOfTheHeader) {
  GgufWriter tensors = SmallModel();
  tensors.set_claimed_tensors(kHuge);
  EXPECT_THAT(Limited(tensors.Bytes()), HasSubstr("1152921504606846976 tensors"));
  EXPECT_THAT(Limited(tensors.Header()), HasSubstr("1152921504606846976 tensors"));
  GgufWriter keys = SmallModel();
  keys.set_claimed_keys(kHuge);
  EXPECT_THAT(Limited(keys.Bytes()), HasSubstr("1152921504606846976 metadata keys"));
  GgufWriter both;
  both.set_claimed_tensors(~uint64_t{1});
  both.set_claimed_keys(~uint64_t{1});
  EXPECT_THAT(Limited(both.Bytes()), HasSubstr("data beyond end of file"));
}

TEST_F(GgufLimits, OneMoreThanThereIs) {
  GgufWriter tensors = SmallModel();
  tensors.set_claimed_tensors(4);
  EXPECT_THAT(Limited(tensors.Header()), HasSubstr("data beyond end of file"));
  GgufWriter keys;
  keys.Add("a", uint8_t{1});
  keys.set_claimed_keys(2);
  EXPECT_THAT(Limited(keys.Bytes()), HasSubstr("data beyond end of file"));
}

TEST_F(GgufLimits, LengthsOfStrings) {
  for (uint64_t length : {uint64_t{1} << 30, uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{7}}) {
    GgufBytes header;
    header.Raw("GGUF");
    header.Number(uint32_t{3});
    header.Number(uint64_t{0});
    header.Number(uint64_t{1});
    header.Number(length);  // of the key
    header.Raw(std::string(200, 'k'));
    const std::string needs = fmt::format("needs {} bytes", length);
    EXPECT_THAT(Limited(header.str()), HasSubstr(needs));

    GgufBytes value;
    value.Number(length);
    value.Raw(std::string(100, 'v'));
    GgufWriter writer;
    writer.AddRaw("text", 8, value.str());
    EXPECT_THAT(Limited(writer.Bytes()), HasSubstr(needs));

    GgufWriter list;
    list.AddRaw("texts", 9, List(8, 2) + value.str());
    EXPECT_THAT(Limited(list.Bytes()), HasSubstr("element 0 of key \"texts\""));
  }
}

TEST_F(GgufLimits, CountsOfArraysOfEveryType) {
  for (uint32_t type = 0; type <= 12; ++type) {
    if (type == 9) continue;
    // 2^61 elements of 8 bytes are 2^64 bytes: 0 in 64 bits.
    for (uint64_t count : {kHuge, uint64_t{1} << 61, ~uint64_t{0}, uint64_t{65}}) {
      GgufWriter writer;
      writer.AddRaw("list", 9, List(type, count) + std::string(64, '\1'));
      EXPECT_THAT(Limited(writer.Bytes()), HasSubstr("data beyond end of file: key \"list\""))
          << type;
    }
  }
}

TEST_F(GgufLimits, ArraysNestedAHundredThousandDeep) {
  GgufWriter writer;
  std::string nested;
  for (int depth = 0; depth < 100'000; ++depth) nested += List(9, 1);
  writer.AddRaw("nested", 9, nested);
  EXPECT_THAT(Limited(writer.Bytes()), HasSubstr("array of arrays"));
}

TEST_F(GgufLimits, AnArrayLargerThanAnyModelNeedsIsRefusedBeforeItIsWidened) {
  GgufWriter writer;
  writer.AddRaw("list", 9, List(0, kMaxGgufListElements + 1));
  ASSERT_TRUE(writer.Write(Path("model.gguf")));
  // The elements are a hole in the file.
  std::filesystem::resize_file(Path("model.gguf"), kMaxGgufListElements + 4096);
  EXPECT_THAT(LimitedOpen(), HasSubstr("67108865 array elements"));
}

TEST_F(GgufLimits, MoreKeysOrTensorsThanAnyModelHas) {
  GgufWriter keys;
  keys.set_claimed_keys(kMaxGgufKeys + 1);
  ASSERT_TRUE(keys.Write(Path("model.gguf")));
  std::filesystem::resize_file(Path("model.gguf"), kMaxGgufKeys * 64);
  EXPECT_THAT(LimitedOpen(), HasSubstr("65537 metadata keys (Quire reads up to 65536)"));
  GgufWriter tensors;
  tensors.set_claimed_tensors(kMaxGgufTensors + 1);
  ASSERT_TRUE(tensors.Write(Path("model.gguf")));
  std::filesystem::resize_file(Path("model.gguf"), kMaxGgufTensors * 64);
  EXPECT_THAT(LimitedOpen(), HasSubstr("1048577 tensors (Quire reads up to 1048576)"));
}

}  // namespace
}  // namespace quire::testing
