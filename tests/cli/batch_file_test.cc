#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "cli/batch_input.h"
#include "cli/batch_output.h"
#include "cli/batch_record.h"
#include "support/scratch_directory.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

struct ReadLine {
  int64_t number;
  std::string text;
  bool is_too_long = false;
  bool operator==(const ReadLine&) const = default;
};

class BatchFile : public ::testing::Test {
 protected:
  std::filesystem::path Path(const std::string& name) const { return scratch_.path() / name; }

  BatchInput Input(const std::string& text, size_t max_line_bytes = 1 << 20) const {
    WriteFile(Path("in.jsonl"), text);
    auto input = BatchInput::Open(Path("in.jsonl").string(), max_line_bytes);
    QUIRE_CHECK(input.ok(), "{}", input.error().message);
    return std::move(input).value();
  }

  static std::vector<ReadLine> AllLines(BatchInput input) {
    std::vector<ReadLine> lines;
    BatchLine line;
    while (*input.Next(line, /*may_wait=*/true) == LineState::kLine) {
      lines.push_back({line.number, line.text, line.is_too_long});
    }
    return lines;
  }

  Result<BatchOutput> Open(bool drop_refused = false) const {
    return BatchOutput::Open(Path("out.jsonl").string(), Input(""), drop_refused);
  }

  ScratchDirectory scratch_;
};

TEST_F(BatchFile, LinesKeepTheirNumbersAcrossBlankOnes) {
  EXPECT_THAT(AllLines(Input("a\n\n \t\r\nb\r\nc")),
              ElementsAre(ReadLine{1, "a"}, ReadLine{4, "b\r"}, ReadLine{5, "c"}));
  EXPECT_THAT(AllLines(Input("\xEF\xBB\xBF{}\n")), ElementsAre(ReadLine{1, "{}"}));
  EXPECT_THAT(AllLines(Input("")), IsEmpty());
}

TEST_F(BatchFile, ALineThatIsTooLongIsPassedOverAndTold) {
  const std::string big(700'000, 'x');
  EXPECT_THAT(AllLines(Input("a\n" + big + "\nb\n" + big, 4)),
              ElementsAre(ReadLine{1, "a"}, ReadLine{2, "", true}, ReadLine{3, "b"},
                          ReadLine{4, "", true}));
  EXPECT_EQ(AllLines(Input(big + "\n")).front().text.size(), big.size());
}

TEST_F(BatchFile, CountsTheLinesThatHoldSomething) {
  EXPECT_EQ(Input("a\n\n  \nb").CountLines(), 2);
  EXPECT_EQ(Input("a\nb\n").CountLines(), 2);
  EXPECT_EQ(Input("").CountLines(), 0);
  EXPECT_EQ(Input(std::string(600'000, 'x') + "\ny\n").CountLines(), 2);
}

TEST_F(BatchFile, ALineTellsWhereItEnds) {
  BatchInput input = Input("a\n\nbc\nd");
  BatchLine line;
  std::vector<int64_t> ends;
  while (*input.Next(line, true) == LineState::kLine) ends.push_back(line.end_offset);
  EXPECT_THAT(ends, ElementsAre(2, 6, 7));
  EXPECT_FALSE(line.has_newline);
}

TEST_F(BatchFile, APipeWithoutAWholeLineDoesNotBlock) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const int saved = ::dup(STDIN_FILENO);
  ::dup2(ends[0], STDIN_FILENO);
  BatchLine line;
  {
    auto input = BatchInput::Open("-");
    ASSERT_TRUE(input.ok());
    EXPECT_EQ(*input->Next(line, /*may_wait=*/false), LineState::kNotYet);
    ASSERT_EQ(::write(ends[1], "half", 4), 4);
    EXPECT_EQ(*input->Next(line, /*may_wait=*/false), LineState::kNotYet);
    ASSERT_EQ(::write(ends[1], "way\n", 4), 4);
    EXPECT_EQ(*input->Next(line, /*may_wait=*/false), LineState::kLine);
    EXPECT_EQ(line.text, "halfway");
    ::close(ends[1]);
    EXPECT_EQ(*input->Next(line, /*may_wait=*/false), LineState::kEnd);
    EXPECT_FALSE(input->CountLines());
  }
  ::dup2(saved, STDIN_FILENO);
  ::close(saved);
  ::close(ends[0]);
}

TEST_F(BatchFile, ResultsAreRememberedByTheNextRun) {
  {
    auto output = Open();
    ASSERT_TRUE(output.ok()) << output.error().message;
    ASSERT_TRUE(output->Write(AnsweredLine("a\"\n", "r", R"({"n":1})")).ok());
    ASSERT_TRUE(output->Write(RefusedLine("b", {.message = "m"}, 2)).ok());
    ASSERT_TRUE(output->Write(BadLine({.message = "m"}, 3)).ok());
    ASSERT_TRUE(output->Sync().ok());
  }
  const auto output = Open();
  ASSERT_TRUE(output.ok()) << output.error().message;
  EXPECT_THAT(output->past().answered, UnorderedElementsAre("a\"\n"));
  EXPECT_THAT(output->past().refused, UnorderedElementsAre("b"));
  EXPECT_THAT(output->past().bad_lines, UnorderedElementsAre(3));
}

TEST_F(BatchFile, WhateverEndAnInterruptedWriteLeavesIsCutOff) {
  const std::string whole = AnsweredLine("a", "r", "{}") + "\n\n";
  const std::string next = AnsweredLine("b", "r", R"({"text":"xyz"})");
  for (size_t length = 1; length <= next.size(); ++length) {
    WriteFile(Path("out.jsonl"), whole + next.substr(0, length));
    {
      auto output = Open();
      ASSERT_TRUE(output.ok()) << length << ": " << output.error().message;
      EXPECT_THAT(output->past().answered, UnorderedElementsAre("a"));
      ASSERT_TRUE(output->Write(next).ok());
    }
    // The blank line goes with what follows it.
    EXPECT_EQ(ReadFile(Path("out.jsonl")), whole.substr(0, whole.size() - 1) + next + "\n")
        << length;
  }
  WriteFile(Path("out.jsonl"), whole + std::string(4096, '\0'));
  EXPECT_TRUE(Open().ok());
  EXPECT_EQ(ReadFile(Path("out.jsonl")), whole.substr(0, whole.size() - 1));
}

TEST_F(BatchFile, AFileThatIsSomethingElseStaysAsItIs) {
  for (const std::string& text :
       {std::string("notes"), std::string("notes\n"), AnsweredLine("a", "r", "{}") + "\nnotes\n",
        std::string("{\"id\":\"batch_req_\n") + AnsweredLine("a", "r", "{}") + "\n"}) {
    WriteFile(Path("out.jsonl"), text);
    const auto output = Open(/*drop_refused=*/true);
    ASSERT_FALSE(output.ok()) << text;
    EXPECT_EQ(output.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(output.error().message, HasSubstr("move the file away"));
    EXPECT_EQ(ReadFile(Path("out.jsonl")), text);
  }
}

TEST_F(BatchFile, WhatFailedIsDroppedWhereItIsToBeTriedAgain) {
  const std::string first = AnsweredLine("a", "r", "{}") + "\n";
  const std::string last = AnsweredLine("d", "r", "{}") + "\n";
  WriteFile(Path("out.jsonl"), first + RefusedLine("b", {.message = "m"}, 2) + "\n" +
                                   BadLine({.message = "m"}, 3) + "\n" + last);
  const auto output = Open(/*drop_refused=*/true);
  ASSERT_TRUE(output.ok()) << output.error().message;
  EXPECT_THAT(output->past().answered, UnorderedElementsAre("a", "d"));
  EXPECT_THAT(output->past().refused, IsEmpty());
  EXPECT_EQ(ReadFile(Path("out.jsonl")), first + last);
  EXPECT_FALSE(std::filesystem::exists(Path("out.jsonl.new")));
  // The new file is as locked as the old one was.
  EXPECT_FALSE(Open().ok());
}

TEST_F(BatchFile, ASecondWriterIsKeptOut) {
  const auto first = Open();
  ASSERT_TRUE(first.ok());
  const auto second = Open();
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message, HasSubstr("another process writes"));
}

TEST_F(BatchFile, TheInputIsNoOutput) {
  const BatchInput input = Input("{}\n");
  const auto output = BatchOutput::Open(Path("in.jsonl").string(), input, false);
  ASSERT_FALSE(output.ok());
  EXPECT_EQ(output.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(ReadFile(Path("in.jsonl")), "{}\n");
}

TEST_F(BatchFile, AFullDiskIsTold) {
  auto output = BatchOutput::Open("/dev/full", Input(""), false);
  ASSERT_TRUE(output.ok()) << output.error().message;
  const Status status = output->Write("x");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kResourceExhausted);
}

BatchRequest Accepted(const std::string& line) {
  auto parsed = ParseBatchLine(line, 7, {});
  QUIRE_CHECK(std::holds_alternative<BatchRequest>(parsed), "{}",
              std::get<ApiError>(parsed).message);
  return std::get<BatchRequest>(std::move(parsed));
}

TEST(BatchRecord, ReadsOpenAisForm) {
  const BatchRequest request = Accepted(
      R"({"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"x"}})");
  EXPECT_EQ(request.custom_id, "a");
  EXPECT_EQ(std::get<OpenAiRequest>(request.body).endpoint, OpenAiEndpoint::kCompletions);
}

TEST(BatchRecord, ReadsABodyAlone) {
  const BatchRequest chat = Accepted(R"({"messages":[{"role":"user","content":"x"}]})");
  EXPECT_EQ(chat.custom_id, "line-7");
  EXPECT_EQ(std::get<OpenAiRequest>(chat.body).endpoint, OpenAiEndpoint::kChatCompletions);
  EXPECT_EQ(std::get<OpenAiRequest>(Accepted(R"({"prompt":"x"})").body).endpoint,
            OpenAiEndpoint::kCompletions);
}

TEST(BatchRecord, TellsABadRequestFromABadLine) {
  for (const char* line : {"{bad", "[]", "7", "{}", R"({"custom_id":"a"})",
                           R"({"custom_id":"","url":"/v1/completions","body":{"prompt":"x"}})",
                           R"({"custom_id":1,"url":"/v1/completions","body":{"prompt":"x"}})"}) {
    EXPECT_TRUE(std::holds_alternative<ApiError>(ParseBatchLine(line, 1, {}))) << line;
  }
  const auto status = [](const std::string& members) {
    return std::get<ApiError>(Accepted(R"({"custom_id":"a",)" + members + "}").body).status;
  };
  EXPECT_EQ(status(R"("url":"/v1/completions","body":{"prompt":"x","n":0})"), 400);
  EXPECT_EQ(status(R"("url":"/v1/completions","body":7)"), 400);
  EXPECT_EQ(status(R"("url":"/v1/embeddings","body":{"prompt":"x"})"), 404);
  EXPECT_EQ(status(R"("body":{"prompt":"x"})"), 404);
  EXPECT_EQ(status(R"("method":"GET","url":"/v1/completions","body":{"prompt":"x"})"), 405);
}

}  // namespace
}  // namespace quire
