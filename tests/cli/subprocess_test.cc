#include "cli/subprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

namespace quire {
namespace {

using ::testing::HasSubstr;

Result<SubprocessOutcome> RunShell(
    const std::string& script, std::vector<std::pair<std::string, std::string>> environment = {},
    std::function<void()> on_tick = nullptr) {
  return Subprocess{.arguments = {"sh", "-c", script},
                    .environment = std::move(environment),
                    .on_tick = std::move(on_tick)}
      .Run();
}

TEST(Subprocess, GivesExitStatusAndBothStreams) {
  const auto outcome = RunShell("echo out; echo err >&2; exit 3");
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->exit_status, 3);
  EXPECT_EQ(outcome->output, "out\nerr\n");
}

TEST(Subprocess, ASignalIsAnExitStatusAbove128) {
  EXPECT_EQ(RunShell("kill -9 $$").value().exit_status, 128 + 9);
}

TEST(Subprocess, KeepsTheEndOfALongOutput) {
  const auto outcome = RunShell("i=0; while [ $i -lt 4000 ]; do echo line $i; i=$((i+1)); done");
  EXPECT_EQ(outcome->output.size(), Subprocess::kMaxOutputBytes);
  EXPECT_TRUE(outcome->output.ends_with("line 3999\n"));
}

TEST(Subprocess, SetsTheEnvironmentOnTopOfOurs) {
  EXPECT_EQ(RunShell("echo $GREETING; test -n \"$PATH\" && echo path", {{"GREETING", "hello"}})
                .value()
                .output,
            "hello\npath\n");
}

TEST(Subprocess, SignalsThatWeIgnoreStillEndTheProgram) {
  std::signal(SIGPIPE, SIG_IGN);
  EXPECT_EQ(RunShell("kill -PIPE $$; echo alive").value().exit_status, 128 + SIGPIPE);
  std::signal(SIGPIPE, SIG_DFL);
}

TEST(Subprocess, StandardInputIsEmpty) { EXPECT_EQ(RunShell("cat; echo done")->output, "done\n"); }

TEST(Subprocess, TicksWhileTheProgramRuns) {
  int ticks = 0;
  ASSERT_TRUE(RunShell("sleep 0.5", {}, [&] { ++ticks; }).ok());
  EXPECT_GE(ticks, 2);
}

TEST(Subprocess, AMissingProgramIsAnErrorThatNamesIt) {
  const auto outcome =
      Subprocess{.arguments = {"no-such-program"}, .environment = {}, .on_tick = nullptr}.Run();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(outcome.error().message, HasSubstr("no-such-program"));
}

}  // namespace
}  // namespace quire
