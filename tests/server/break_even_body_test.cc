#include "server/routes/break_even_body.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <string>

#include "plan/presets.h"

namespace quire {
namespace {

namespace json = boost::json;

// 131,072 bytes a token.
json::object BodyOf(const EngineStatus& status, int context_length = 4096) {
  const auto cost = KvCost::Make(FindPreset("llama-3-8b")->config, KvElementOf(KvType::kF16));
  std::string text;
  JsonWriter writer(text);
  WriteBreakEven(status, *cost, context_length, writer);
  return json::parse(text).as_object();
}

TEST(BreakEvenBody, WithoutMeasuresItHasTheBytesAlone) {
  const json::object body = BodyOf({});
  EXPECT_TRUE(body.at("prefill").is_null());
  EXPECT_TRUE(body.at("compute_ms").is_null());
  EXPECT_EQ(body.at("prefix_tokens"), (json::array{256, 1024, 4096}));
  EXPECT_EQ(body.at("prefix_bytes").at(0), 256 * 131'072);
  EXPECT_TRUE(body.at("tiers").as_array().empty());
}

TEST(BreakEvenBody, WeighsEveryTierAgainstTheMeasuredPrefill) {
  EngineStatus status;
  status.prefill = {.token_ms = 10};
  status.tiers = {
      {.kind = TierKind::kDisk, .speed = {.latency_ms = 1, .bytes_per_ms = 131'072}},
      {.kind = TierKind::kRemote, .speed = {.latency_ms = 99, .bytes_per_ms = 13'107.2}},
      {.kind = TierKind::kRemote}};
  const json::object body = BodyOf(status);
  EXPECT_EQ(body.at("prefill").at("token_ms"), 10.);
  EXPECT_EQ(body.at("compute_ms"), (json::array{2560., 10240., 40960.}));
  const json::array& tiers = body.at("tiers").as_array();
  ASSERT_EQ(tiers.size(), 3u);
  EXPECT_EQ(tiers[0].at("kind"), "disk");
  EXPECT_EQ(tiers[0].at("load_ms"), (json::array{257., 1025., 4097.}));
  EXPECT_EQ(tiers[0].at("loads_from_tokens"), 16);
  EXPECT_EQ(tiers[0].at("break_even_bytes_per_second").at(0), 256 * 131'072. / 2559 * 1000);
  // 99 ms and 10 ms a token, against 10 ms a token.
  EXPECT_TRUE(tiers[1].at("loads_from_tokens").is_null());
  EXPECT_EQ(tiers[1].at("latency_ms"), 99.);
  // Not measured.
  EXPECT_EQ(tiers[2].at("kind"), "remote");
  for (const char* name : {"latency_ms", "bytes_per_second", "load_ms", "loads_from_tokens",
                           "break_even_bytes_per_second"}) {
    EXPECT_TRUE(tiers[2].at(name).is_null()) << name;
  }
}

TEST(BreakEvenBody, WithoutAMeasureOfPrefillATierHasItsTimesAlone) {
  EngineStatus status;
  status.tiers = {{.speed = {.latency_ms = 1, .bytes_per_ms = 131'072}}};
  const json::value tier = BodyOf(status, 100).at("tiers").at(0);
  EXPECT_EQ(tier.at("load_ms"), (json::array{1 + 7. * 16}));  // in whole blocks
  EXPECT_TRUE(tier.at("loads_from_tokens").is_null());
  EXPECT_TRUE(tier.at("break_even_bytes_per_second").is_null());
}

}  // namespace
}  // namespace quire
