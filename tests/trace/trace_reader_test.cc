// Traces read from files, whole, cut off and damaged.
#include "trace/trace_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "support/scratch_directory.h"
#include "trace/event_json.h"
#include "trace/sample_events.h"
#include "trace/trace_analysis.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

std::string Lines(const std::vector<TraceEvent>& events) {
  std::string text;
  for (const TraceEvent& event : events) text += EventAsJson(event) + "\n";
  return text;
}

class TraceReaderTest : public ::testing::Test {
 protected:
  std::filesystem::path Write(const std::string& text) const {
    WriteFile(directory_.path() / "trace.jsonl", text);
    return directory_.path() / "trace.jsonl";
  }

  // All events behind the run, or the first error.
  static Result<std::vector<TraceEvent>> ReadAll(TraceReader& reader) {
    std::vector<TraceEvent> events;
    while (true) {
      QUIRE_ASSIGN_OR_RETURN(const std::optional<TraceEvent> event, reader.Next());
      if (!event) return events;
      events.push_back(*event);
    }
  }

  ScratchDirectory directory_;
};

TEST_F(TraceReaderTest, ReadsWhatWasWritten) {
  const auto events = testing::SampleEvents();
  auto reader = TraceReader::Open(Write(Lines(events)));
  ASSERT_TRUE(reader.ok()) << reader.error().message;
  EXPECT_EQ(reader->run().model, testing::SampleRun().model);
  const auto read = ReadAll(*reader);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(Lines(*read), Lines({events.begin() + 1, events.end()}));
  EXPECT_FALSE(reader->ends_within_a_line());
}

TEST_F(TraceReaderTest, ALastLineThatIsCutOffIsPassedOverAndTold) {
  const std::string text = Lines(testing::SampleEvents());
  auto reader = TraceReader::Open(Write(text.substr(0, text.size() - 10)));
  ASSERT_TRUE(reader.ok());
  const auto read = ReadAll(*reader);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->size(), testing::SampleEvents().size() - 2);
  EXPECT_TRUE(reader->ends_within_a_line());
}

TEST_F(TraceReaderTest, AWholeLastLineNeedsNoNewline) {
  std::string text = Lines(testing::SampleEvents());
  text.pop_back();
  auto reader = TraceReader::Open(Write(text));
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(ReadAll(*reader)->size(), testing::SampleEvents().size() - 1);
  EXPECT_FALSE(reader->ends_within_a_line());
}

TEST_F(TraceReaderTest, AnErrorNamesFileAndLine) {
  const std::string text =
      EventAsJson(testing::SampleRun()) + "\n\n{\"event\":\"request\",\"ms\":1}\n{}\n";
  auto reader = TraceReader::Open(Write(text));
  ASSERT_TRUE(reader.ok());
  const auto read = ReadAll(*reader);
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.error().message, HasSubstr("trace.jsonl, line 3: request event: 'request'"));
}

TEST_F(TraceReaderTest, WhatIsNoTraceIsSaidToBeNone) {
  EXPECT_THAT(TraceReader::Open(Write("")).error().message, HasSubstr("no trace"));
  EXPECT_THAT(TraceReader::Open(Write("hello\n")).error().message, HasSubstr("line 1"));
  EXPECT_THAT(TraceReader::Open(Write(EventAsJson(RequestEvent{}) + "\n")).error().message,
              HasSubstr("no run event"));
  EXPECT_EQ(TraceReader::Open(directory_.path() / "none").error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(TraceReader::Open(directory_.path()).ok()) << "a directory";
}

TEST_F(TraceReaderTest, ALineWithoutEndIsGivenUpAtItsBound) {
  const std::string text =
      EventAsJson(testing::SampleRun()) + "\n" + std::string(kMaxEventBytes + 1'000'000, 'x');
  auto reader = TraceReader::Open(Write(text));
  ASSERT_TRUE(reader.ok());
  EXPECT_THAT(reader->Next().error().message, HasSubstr("line 2"));
}

// Bytes changed, cut out and doubled: an event or an error, and an analysis that bears it.
TEST_F(TraceReaderTest, DamagedFilesGiveEventsOrErrors) {
  const std::string whole = Lines(testing::SampleEvents());
  std::mt19937 random(7);
  const auto below = [&](size_t count) { return static_cast<size_t>(random()) % count; };
  int num_read = 0;
  for (int round = 0; round < 300; ++round) {
    std::string text = whole;
    for (size_t i = below(4) + 1; i > 0; --i) {
      const size_t place = below(text.size());
      switch (below(3)) {
        case 0:
          text[place] = "0123456789-.,:{}[]\"eE\n"[below(22)];
          break;
        case 1:
          text.erase(place, below(40));
          break;
        default:
          text.insert(place, text.substr(below(text.size()), below(40)));
      }
    }
    auto reader = TraceReader::Open(Write(text));
    if (!reader.ok()) continue;
    TraceAnalysis analysis;
    while (true) {
      const auto event = reader->Next();
      if (!event.ok() || !*event) break;
      ++num_read;
      analysis.Add(**event);
    }
    analysis.TakeRest();
  }
  EXPECT_GT(num_read, 300);
}

}  // namespace
}  // namespace quire
