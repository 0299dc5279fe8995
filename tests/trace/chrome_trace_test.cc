// The trace as Chrome's format has it: JSON whose slices are well nested.
#include "trace/chrome_trace.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "trace/sample_events.h"

namespace quire {
namespace {

boost::json::value ChromeOf(const std::vector<TraceEvent>& events) {
  std::string text;
  ChromeTrace chrome(testing::SampleRun(), text);
  for (const TraceEvent& event : events) chrome.Add(event);
  chrome.End();
  boost::system::error_code error;
  boost::json::value value = boost::json::parse(text, error);
  EXPECT_FALSE(error) << text;
  return value;
}

// Slices begun and not ended, by lane, and whether times and ends are in order.
void ExpectWellNested(const boost::json::value& trace) {
  std::map<std::pair<int64_t, int64_t>, std::vector<double>> open;
  for (const boost::json::value& value : trace.at("traceEvents").as_array()) {
    const boost::json::object& event = value.as_object();
    const std::string phase(event.at("ph").as_string());
    auto& lane = open[{event.at("pid").as_int64(), event.at("tid").as_int64()}];
    const double ts = event.at("ts").to_number<double>();
    if (phase == "B") {
      if (!lane.empty()) {
        EXPECT_GE(ts, lane.back());
      }
      EXPECT_TRUE(event.at("args").is_object());
      lane.push_back(ts);
    } else if (phase == "E") {
      ASSERT_FALSE(lane.empty()) << "an end without a begin";
      EXPECT_GE(ts, lane.back());
      lane.pop_back();
    }
  }
  for (const auto& [lane, begins] : open) EXPECT_TRUE(begins.empty()) << lane.second;
}

int CountOf(const boost::json::value& trace, std::string_view phase) {
  int count = 0;
  for (const boost::json::value& value : trace.at("traceEvents").as_array()) {
    count += std::string_view(value.at("ph").as_string()) == phase ? 1 : 0;
  }
  return count;
}

TEST(ChromeTrace, EveryEventGivesWellNestedJson) {
  const boost::json::value trace = ChromeOf(testing::SampleEvents());
  ExpectWellNested(trace);
  EXPECT_GT(CountOf(trace, "B"), 8) << "a step, seven operators, a life";
  EXPECT_EQ(CountOf(trace, "C"), 2);
  EXPECT_EQ(CountOf(trace, "i"), 4);
}

TEST(ChromeTrace, ARequestHasALaneOfItsLife) {
  StepEvent step{.ms = 5, .step = 1, .forward_ms = 8, .total_ms = 10, .num_tokens = 16};
  step.lines.push_back({.sequence = 9, .request = 3, .action = "prefill", .num_tokens = 16});
  const boost::json::value trace = ChromeOf({RequestEvent{.ms = 1, .request = 3, .name = "mine"},
                                             step, EndEvent{.ms = 14, .request = 3}});
  ExpectWellNested(trace);
  std::string names;
  for (const boost::json::value& value : trace.at("traceEvents").as_array()) {
    if (value.at("pid").as_int64() != 2 || !value.as_object().contains("name")) continue;
    names += std::string(value.at("name").as_string()) + " ";
    if (value.at("name").as_string() == "prefill") {
      EXPECT_EQ(value.at("ts").to_number<double>(), 5000) << "microseconds";
    }
  }
  EXPECT_EQ(names, "process_name thread_name queued prefill ");
}

TEST(ChromeTrace, AnEmptyRunIsATraceToo) { ExpectWellNested(ChromeOf({})); }

}  // namespace
}  // namespace quire
