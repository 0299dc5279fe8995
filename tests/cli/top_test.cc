#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <limits>

#include "cli/top/latency_histogram.h"
#include "cli/top/metric_samples.h"
#include "cli/top/server_link.h"
#include "cli/top/server_look.h"
#include "cli/top/top_view.h"

namespace quire {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

MetricSamples Parsed(std::string_view text) {
  Result<MetricSamples> samples = MetricSamples::Parse(text);
  EXPECT_TRUE(samples.ok()) << (samples.ok() ? "" : samples.error().message);
  return samples.ok() ? std::move(*samples) : MetricSamples();
}

std::string FaultOf(std::string_view text) {
  const Result<MetricSamples> samples = MetricSamples::Parse(text);
  return samples.ok() ? "" : samples.error().message;
}

TEST(MetricSamples, AddUpByNameAndLabel) {
  const MetricSamples samples = Parsed(
      "# TYPE a counter\n"
      "a{source=\"x\",engine=\"0\"} 3\n"
      "a{source=\"y\"} 4 1700000000000\n"
      "\n"
      "b 1.5e3\r\n"
      "b_total +2\n");
  EXPECT_EQ(samples.num_samples(), 4u);
  EXPECT_EQ(samples.Sum("a"), 7);
  EXPECT_EQ(samples.Sum("a", "source", "y"), 4);
  EXPECT_EQ(samples.Sum("a", "source", "z"), 0);
  EXPECT_EQ(samples.Find("b"), 1500);
  EXPECT_EQ(samples.Find("c"), std::nullopt);
  EXPECT_EQ(samples.LabelOf("a", "source"), "x");
  EXPECT_EQ(samples.LabelOf("b", "source"), "");
}

TEST(MetricSamples, UnescapeLabels) {
  const MetricSamples samples = Parsed("a{ path = \"C:\\\\x\\n\\\"y\\\"\" , } 1\n");
  EXPECT_EQ(samples.LabelOf("a", "path"), "C:\\x\n\"y\"");
}

TEST(MetricSamples, PassOverWhatIsNotFinite) {
  const MetricSamples samples = Parsed("a NaN\na +Inf\na 2\nb -Inf\n");
  EXPECT_EQ(samples.Sum("a"), 2);
  EXPECT_EQ(samples.Find("b"), std::nullopt);
}

TEST(MetricSamples, NameTheLineThatIsNoSample) {
  EXPECT_EQ(FaultOf("a 1\n<html>\n"), "metrics: line 2 is no sample: no metric's name");
  EXPECT_THAT(FaultOf("a\n"), HasSubstr("no number"));
  EXPECT_THAT(FaultOf("a one\n"), HasSubstr("no number"));
  EXPECT_THAT(FaultOf("a 1 2 3\n"), HasSubstr("more than"));
  EXPECT_THAT(FaultOf("a{b=\"c} 1\n"), HasSubstr("without its quotes"));
  EXPECT_THAT(FaultOf("a{b=\"c\" 1\n"), HasSubstr("without an end"));
  EXPECT_THAT(FaultOf("a{=\"c\"} 1\n"), HasSubstr("without a name"));
  EXPECT_THAT(FaultOf("a{b=\"\\"), HasSubstr("without its quotes"));
  EXPECT_THAT(FaultOf(std::string_view("a\0b 1\n", 6)), HasSubstr("no number"));
}

TEST(MetricSamples, AreBounded) {
  std::string many;
  for (size_t i = 0; i <= MetricSamples::kMaxSamples; ++i) many += "a 1\n";
  EXPECT_EQ(FaultOf(many), "metrics: more than 20000 samples");
  EXPECT_THAT(FaultOf("a" + std::string(MetricSamples::kMaxLineBytes, 'x') + " 1\n"),
              HasSubstr("16384 at most"));
  std::string labels = "a{";
  for (size_t i = 0; i <= MetricSamples::kMaxLabels; ++i) labels += "l=\"\",";
  EXPECT_THAT(FaultOf(labels + "} 1\n"), HasSubstr("too many labels"));
}

LatencyHistogram ThreeOfFour() {
  // 2 up to 10 ms, 2 more up to 30 ms, one beyond.
  return Parsed(
             "t_bucket{le=\"0.01\"} 2\n"
             "t_bucket{le=\"0.03\"} 4\n"
             "t_bucket{le=\"+Inf\"} 5\n"
             "t_sum 0.2\n"
             "t_count 5\n")
      .HistogramOf("t");
}

TEST(LatencyHistogram, InterpolatesWithinABucket) {
  const LatencyHistogram histogram = ThreeOfFour();
  EXPECT_DOUBLE_EQ(histogram.MeanSeconds().value(), 0.04);
  EXPECT_DOUBLE_EQ(histogram.QuantileSeconds(0.2).value(), 0.005);
  EXPECT_DOUBLE_EQ(histogram.QuantileSeconds(0.6).value(), 0.02);
  // Beyond the last finite bound nothing more is known.
  EXPECT_DOUBLE_EQ(histogram.QuantileSeconds(0.99).value(), 0.03);
}

TEST(LatencyHistogram, TellsNothingOfNothing) {
  EXPECT_FALSE(LatencyHistogram().MeanSeconds());
  EXPECT_FALSE(LatencyHistogram().QuantileSeconds(0.5));
  const LatencyHistogram since = ThreeOfFour().Since(ThreeOfFour());
  EXPECT_FALSE(since.MeanSeconds());
  EXPECT_FALSE(since.QuantileSeconds(0.5));
}

TEST(LatencyHistogram, OfAnIntervalHoldsWhatCameInIt) {
  LatencyHistogram later = ThreeOfFour();
  for (auto& [bound, count] : later.buckets) count += bound >= 0.03 ? 1 : 0;
  later.count += 1;
  later.sum_s += 0.02;
  const LatencyHistogram since = later.Since(ThreeOfFour());
  EXPECT_NEAR(since.MeanSeconds().value(), 0.02, 1e-12);
  EXPECT_DOUBLE_EQ(since.QuantileSeconds(0.5).value(), 0.02);  // the middle of 10 to 30 ms
}

// Answers of a server with 10 blocks, so many tokens after its start.
std::string CacheJson(int generated, std::string_view more = "") {
  return fmt::format(
      R"({{"block_tokens":16,"block_bytes":1048576,)"
      R"("blocks":{{"total":10,"used":2,"cached":5,"free":3}},"pinned":{{"blocks":1}},)"
      R"("requests":{{"running":3,"waiting":1}},)"
      R"("tokens":{{"prompt":1000,"cached":800,"computed":{0},"generated":{0}}},)"
      R"("prefix_cache":{{"tokens_looked_up":1000,"tokens_found":800}},)"
      R"("events":{{"preemptions":4}},)"
      R"("evictions":{{"allocation":5,"taken_over":1,"dropped":0}}{1}}})",
      generated, more);
}

std::string Metrics(int steps, int start_time = 100) {
  return fmt::format(
      "vllm:num_requests_running{{model_name=\"tiny\"}} 3\n"
      "quire_build_info{{version=\"1.2\"}} 1\n"
      "process_start_time_seconds {1}\n"
      "quire_steps_total {0}\n"
      "vllm:request_success_total{{finished_reason=\"stop\"}} 7\n"
      "vllm:spec_decode_num_draft_tokens_total 10\n"
      "vllm:spec_decode_num_accepted_tokens_total 4\n"
      "vllm:time_to_first_token_seconds_bucket{{le=\"+Inf\"}} 0\n",
      steps, start_time);
}

ServerLook Look(int generated, int steps, double at_s, std::string_view more = "") {
  Result<ServerLook> look = ReadLook(CacheJson(generated, more), Metrics(steps));
  EXPECT_TRUE(look.ok()) << (look.ok() ? "" : look.error().message);
  if (!look.ok()) return {};
  look->at_s = at_s;
  return std::move(*look);
}

constexpr std::string_view kTiers =
    R"(,"loads":{"tokens_from_disk":100,"tokens_from_remote":0},"tiers":[)"
    R"({"tier":"disk","place":"/var/kv","state":"up","records":70,"bytes":1024,"max_bytes":4096},)"
    R"({"tier":"remote","place":"redis:6379","state":"down","reason":"connection refused",)"
    R"("records":null,"bytes":null,"max_bytes":null}])";

TEST(ServerLook, TakesBothAnswersTogether) {
  const ServerLook look = Look(500, 50, 0, kTiers);
  EXPECT_EQ(look.model, "tiny");
  EXPECT_EQ(look.version, "1.2");
  EXPECT_EQ(look.running, 3);
  EXPECT_EQ(look.waiting, 1);
  EXPECT_EQ(look.used_blocks + look.cached_blocks + look.free_blocks, look.total_blocks);
  EXPECT_EQ(look.counts.output_tokens, 500);
  EXPECT_EQ(look.counts.evicted_blocks, 6);
  EXPECT_EQ(look.counts.disk_tokens, 100);
  ASSERT_EQ(look.tiers.size(), 2u);
  EXPECT_TRUE(look.tiers[0].is_up);
  EXPECT_EQ(look.tiers[0].records, 70);
  EXPECT_FALSE(look.tiers[1].is_up);
  EXPECT_EQ(look.tiers[1].reason, "connection refused");
  EXPECT_EQ(look.tiers[1].bytes, std::nullopt);
}

TEST(ServerLook, SaysWhatIsNoQuireServer) {
  const auto fault = [](std::string_view cache, std::string_view metrics) {
    const Result<ServerLook> look = ReadLook(cache, metrics);
    return look.ok() ? std::string() : look.error().message;
  };
  EXPECT_THAT(fault("<html>", ""), HasSubstr("/quire/cache: not JSON"));
  EXPECT_THAT(fault("[]", ""), HasSubstr("'requests.running' is not a whole number"));
  EXPECT_THAT(fault(CacheJson(-1), ""), HasSubstr("'tokens.generated'"));
  EXPECT_THAT(fault(CacheJson(1), "<html>"), HasSubstr("metrics: line 1"));
  EXPECT_THAT(fault(std::string(100, '['), ""), HasSubstr("not JSON"));
}

TEST(ServerLook, DriveNoTerminal) {
  const ServerLook look =
      Look(1, 1, 0, R"(,"tiers":[{"tier":"disk","place":"\u001b[2J","state":"up"}])");
  for (const std::string& line : TopLines({.url = "http://x", .now = &look}, 80)) {
    EXPECT_EQ(line.find('\x1b'), std::string::npos) << line;
  }
}

// The lines with one space for each run of spaces.
std::vector<std::string> LinesOf(const TopView& view) {
  std::vector<std::string> lines = TopLines(view, 80);
  for (std::string& line : lines) {
    const auto is_run = [](char a, char b) { return a == ' ' && b == ' '; };
    line.erase(std::unique(line.begin(), line.end(), is_run), line.end());
  }
  return lines;
}

TEST(TopView, ShowsRatesOfTheIntervalBesideTotals) {
  const ServerLook before = Look(500, 50, 10);
  const ServerLook now = Look(600, 60, 12);
  const auto lines = LinesOf({.url = "http://x", .now = &now, .before = &before});
  EXPECT_EQ(lines[0], "quire top http://x tiny quire 1.2");
  EXPECT_EQ(lines[2], "requests: 3 running, 1 waiting, 7 ended, 0 refused");
  EXPECT_THAT(lines, Contains("output tokens 50.0 /s 600"));
  // Nothing was looked up within the interval.
  EXPECT_THAT(lines, Contains("prefix hit rate - 80.0 %"));
  EXPECT_THAT(lines, Contains(" tokens a step 10.0 10.0"));
  EXPECT_THAT(
      lines,
      Contains("[################=======================================.......................]"));
}

TEST(TopView, KnowsNoRatesFromOneLook) {
  const ServerLook now = Look(600, 60, 12);
  const auto lines = LinesOf({.url = "http://x", .now = &now});
  EXPECT_THAT(lines, Contains("output tokens - 600"));
  const auto json = boost::json::parse(TopJson({.url = "http://x", .now = &now}));
  EXPECT_TRUE(json.at("interval").is_null());
}

TEST(TopView, BeginsAnewWhereTheServerDid) {
  const ServerLook before = Look(500, 50, 10);
  ServerLook now = Look(20, 60, 12);  // fewer tokens than before
  const auto interval = [&] {
    return boost::json::parse(TopJson({.url = "", .now = &now, .before = &before})).at("interval");
  };
  EXPECT_TRUE(interval().is_null());
  now = Look(600, 60, 12);
  EXPECT_FALSE(interval().is_null());
  now.start_time_s += 1;  // another process that has already said more
  EXPECT_TRUE(interval().is_null());
}

TEST(TopView, TellsHitsAndStatesByTier) {
  const ServerLook now = Look(600, 60, 12, kTiers);
  const auto lines = LinesOf({.url = "http://x", .now = &now});
  EXPECT_THAT(lines, Contains(" memory, disk, remote - 70.0, 10.0, 0.0 %"));
  EXPECT_THAT(lines, Contains("KV on disk up 70 records 1.0 KiB of 4.0 KiB /var/kv"));
  EXPECT_THAT(lines, Contains("KV on remote down redis:6379: connection refused"));
  const auto json = boost::json::parse(TopJson({.url = "http://x", .now = &now}));
  EXPECT_EQ(json.at("total").at("found_in"),
            boost::json::parse(R"({"memory":700,"disk":100,"remote":0})"));
}

TEST(TopView, CountsOfAnySizeAreWholeNumbers) {
  ServerLook look;
  for (const auto& [count, told] : {std::pair(-1e300, int64_t{0}),
                                    {7.0, int64_t{7}},
                                    {1e300, int64_t{9'000'000'000'000'000}}}) {
    look.counts.ttft.count = count;
    const auto json = boost::json::parse(TopJson({.now = &look}));
    EXPECT_EQ(json.at("total").at("ttft_ms").at("count"), told) << count;
  }
}

TEST(TopView, BarsOfAnyNumbersFit) {
  ServerLook look;
  look.total_blocks = 1;
  look.used_blocks = std::numeric_limits<int64_t>::max();
  look.cached_blocks = std::numeric_limits<int64_t>::max();
  look.block_bytes = std::numeric_limits<int64_t>::max();
  for (const int columns : {0, 1, 80, 100'000}) {
    for (const std::string& line : TopLines({.now = &look}, columns)) {
      EXPECT_LT(line.size(), 200u) << line;
    }
  }
}

std::string UrlOf(const std::string& text) {
  const Result<std::string> url = ServerUrlOf(text);
  return url.ok() ? *url : "refused: " + url.error().message;
}

TEST(ServerUrl, IsTakenAsPeopleWriteIt) {
  EXPECT_EQ(UrlOf("127.0.0.1:8080"), "http://127.0.0.1:8080");
  EXPECT_EQ(UrlOf("http://localhost:8080/v1/"), "http://localhost:8080");
  EXPECT_EQ(UrlOf("https://llm.example/quire/v1"), "https://llm.example/quire");
  EXPECT_EQ(UrlOf("http://[::1]:80"), "http://[::1]:80");
}

TEST(ServerUrl, IsRefusedWithWhatWasExpected) {
  EXPECT_THAT(UrlOf("file:///etc/passwd"), HasSubstr("expected one such as"));
  EXPECT_THAT(UrlOf(""), HasSubstr("expected one such as"));
  EXPECT_THAT(UrlOf("http://user:secret@host"), HasSubstr("--api-key"));
  EXPECT_THAT(UrlOf("http://user:secret@host"), ::testing::Not(HasSubstr("secret")));
  EXPECT_THAT(UrlOf("http://host/?key=x"), HasSubstr("no user, query"));
}

}  // namespace
}  // namespace quire
