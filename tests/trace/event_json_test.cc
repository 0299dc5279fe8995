// Events as JSON and back: the round trip of each, and what is refused.
#include "trace/event_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>
#include <limits>
#include <string>

#include "trace/sample_events.h"

namespace quire {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string ErrorOf(const std::string& line) {
  const Result<TraceEvent> event = EventFromJson(line);
  return event.ok() ? "" : event.error().message;
}

TEST(EventJson, EveryEventComesBackAsItWas) {
  for (const TraceEvent& event : testing::SampleEvents()) {
    const std::string line = EventAsJson(event);
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    const Result<TraceEvent> read = EventFromJson(line);
    ASSERT_TRUE(read.ok()) << line << "\n" << read.error().message;
    EXPECT_EQ(read->index(), event.index());
    EXPECT_EQ(EventAsJson(*read), line);
  }
}

TEST(EventJson, FieldsOfAReadEventAreThoseWritten) {
  const auto events = testing::SampleEvents();
  const auto& step = std::get<StepEvent>(events[2]);
  const auto read = std::get<StepEvent>(*EventFromJson(EventAsJson(step)));
  EXPECT_EQ(read.ms, 12.345);
  EXPECT_EQ(read.total_ms, 2.001);
  ASSERT_EQ(read.lines.size(), 2u);
  EXPECT_EQ(read.lines[0].reason, "token_budget");
  EXPECT_TRUE(read.lines[0].is_admission);
  EXPECT_EQ(read.lines[0].other, 1);
  EXPECT_EQ(read.lines[1].num_tokens, 0);
  ASSERT_EQ(read.operators.size(), 7u);
  EXPECT_EQ(read.operators[4].operators, DecoderOperator::kAttend);
  EXPECT_EQ(read.operators[4].ops, 4e9);
  const auto run = std::get<RunEvent>(*EventFromJson(EventAsJson(testing::SampleRun())));
  EXPECT_EQ(run.model, testing::SampleRun().model);
  EXPECT_EQ(run.block_bytes, testing::SampleRun().block_bytes);
  EXPECT_EQ(run.f32_ops_per_second, 0.1);
  const auto token = std::get<TokenEvent>(*EventFromJson(EventAsJson(events[3])));
  EXPECT_EQ(token.candidates[1].log_prob, -1.1754944e-38f) << "bit for bit";
}

TEST(EventJson, WhatIsZeroIsLeftOutButTimesAndIds) {
  EXPECT_EQ(EventAsJson(RequestEvent{}), R"({"event":"request","ms":0,"request":0})");
  EXPECT_EQ(EventAsJson(BlockEvent{}), R"({"event":"block","ms":0,"change":"allocate","block":0})");
  EXPECT_EQ(EventAsJson(StepEvent{.ms = 1.5, .step = 2, .forward_ms = 0.0004, .total_ms = -2.25}),
            R"({"event":"step","ms":1.5,"step":2,"forward_ms":0,"total_ms":-2.25})");
}

TEST(EventJson, EveryLineIsJsonWhateverTheTextHolds) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  const std::string line = EventAsJson(TokenEvent{.text = bytes});
  boost::system::error_code error;
  boost::json::parse(line, error);
  EXPECT_FALSE(error) << line;
  const double infinity = std::numeric_limits<double>::infinity();
  const RunEvent run{.unix_time = std::nan(""), .bytes_per_second = infinity};
  EXPECT_TRUE(EventFromJson(EventAsJson(run)).ok());
  EXPECT_TRUE(EventFromJson(EventAsJson(DroppedEvent{.ms = -infinity})).ok());
}

TEST(EventJson, ACountBelowZeroIsWrittenAsNone) {
  // More blocks may be promised than there are.
  const StepEvent step{.lines = {{.action = "wait", .blocks_needed = 4, .blocks_available = -3}}};
  const Result<TraceEvent> event = EventFromJson(EventAsJson(step));
  ASSERT_TRUE(event.ok()) << event.error().message;
  EXPECT_EQ(std::get<StepEvent>(*event).lines[0].blocks_needed, 4);
  EXPECT_EQ(std::get<StepEvent>(*event).lines[0].blocks_available, 0);
}

TEST(EventJson, FieldsOfALaterProgramArePassedOver) {
  const Result<TraceEvent> event =
      EventFromJson(R"({"event":"request","ms":1,"request":2,"colour":{"deep":[1]}})");
  ASSERT_TRUE(event.ok());
  EXPECT_EQ(std::get<RequestEvent>(*event).request, 2);
}

TEST(EventJson, ALaterVersionIsRefusedByItsNumber) {
  EXPECT_THAT(ErrorOf(R"({"event":"run","version":2})"), HasSubstr("version 2"));
  EXPECT_EQ(EventFromJson(R"({"event":"run","version":2})").error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(ErrorOf(R"({"event":"run"})"), HasSubstr("version"));
  EXPECT_THAT(ErrorOf(R"({"event":"run","version":0})"), HasSubstr("version"));
}

TEST(EventJson, ErrorsNameTheField) {
  EXPECT_THAT(ErrorOf(R"({"event":"request","ms":1})"), HasSubstr("'request' is missing"));
  EXPECT_THAT(ErrorOf(R"({"event":"request","ms":"1","request":1})"), HasSubstr("'ms'"));
  EXPECT_THAT(ErrorOf(R"({"event":"request","ms":1,"request":-1})"), HasSubstr("'request'"));
  EXPECT_THAT(ErrorOf(R"({"event":"request","ms":1,"request":1,"prompt_tokens":4294967296})"),
              HasSubstr("'prompt_tokens' is not a number in range"));
  EXPECT_THAT(ErrorOf(R"({"event":"request","ms":1,"request":1.5})"), HasSubstr("whole number"));
  EXPECT_THAT(
      ErrorOf(R"({"event":"step","ms":1,"step":1,"forward_ms":1,"total_ms":1,"lines":[{},7]})"),
      HasSubstr("lines[0]"));
  EXPECT_THAT(ErrorOf(R"({"event":"block","ms":1,"block":1,"change":"melt"})"),
              HasSubstr("'change'"));
  EXPECT_THAT(ErrorOf(R"({"event":"block","ms":1,"block":1,"change":"fill","other":-2})"),
              HasSubstr("'other'"));
  EXPECT_THAT(ErrorOf(R"({"event":"token","ms":1e400,"request":1,"token":1})"), Not(""));
}

TEST(EventJson, WhatIsNoEventIsRefused) {
  for (const char* line : {"", "{", "[]", "7", "null", R"({"event":7})", R"({"ms":1})",
                           R"({"event":"weather","ms":1})", "\xff\xfe", R"({"event":"request)"}) {
    EXPECT_THAT(ErrorOf(line), Not("")) << line;
  }
}

TEST(EventJson, DepthAndLengthAreBounded) {
  std::string deep = R"({"event":"request","ms":1,"request":1,"x":)";
  deep += std::string(100'000, '[') + std::string(100'000, ']') + "}";
  EXPECT_THAT(ErrorOf(deep), HasSubstr("not JSON"));
  const std::string wide = R"({"event":"request","ms":1,"request":1,"name":")" +
                           std::string(kMaxEventBytes, 'a') + R"("})";
  EXPECT_THAT(ErrorOf(wide), HasSubstr("bytes"));
}

}  // namespace
}  // namespace quire
