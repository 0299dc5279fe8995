// What GET /quire/cache says of tiers.
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "plan/break_even.h"
#include "server/routes/cache_body.h"
#include "server/routes_rig.h"
#include "server/support/tier_rows.h"

namespace quire {
namespace {

namespace json = boost::json;
using testing::RoutesRig;
using testing::StatusWithTiers;

class CacheBodyTest : public ::testing::Test {
 protected:
  KvCost Cost() const {
    return KvCost::Make(rig_.context().engine.model().config(), KvElementOf(KvType::kF16)).value();
  }
  json::object Body(const EngineStatus& status) const {
    return json::parse(CacheBody(status, Cost(), kContext)).as_object();
  }

  static constexpr int kContext = 256;
  mutable RoutesRig rig_;
};

TEST_F(CacheBodyTest, ListsEachTierWithStateSpeedAndCounts) {
  const json::object body = Body(StatusWithTiers());
  const json::array& tiers = body.at("tiers").as_array();
  ASSERT_EQ(tiers.size(), 2u);
  const json::object& disk = tiers[0].as_object();
  EXPECT_EQ(disk.at("tier"), "disk");
  EXPECT_EQ(disk.at("place"), "/var/kv");
  EXPECT_EQ(disk.at("state"), "up");
  EXPECT_FALSE(disk.contains("reason"));
  EXPECT_EQ(disk.at("records"), 70);
  EXPECT_EQ(disk.at("bytes"), 5'000);
  EXPECT_EQ(disk.at("max_bytes"), 9'000);
  EXPECT_EQ(disk.at("speed"), json::parse(R"({"latency_ms":2.0,"bytes_per_second":500000.0})"));
  EXPECT_EQ(disk.at("counters").at("blocks_loaded"), 23);
  EXPECT_EQ(disk.at("counters").at("blocks_dropped"), 11);
  EXPECT_EQ(disk.at("faults"), json::parse(R"({"checksum":3})"));
  const json::object& remote = tiers[1].as_object();
  EXPECT_EQ(remote.at("tier"), "remote");
  EXPECT_EQ(remote.at("state"), "down");
  EXPECT_EQ(remote.at("reason"), "connection refused");
  EXPECT_EQ(remote.at("down_for_ms"), 4'200.0);
  // What is not known is null.
  for (const char* name : {"records", "bytes", "max_bytes", "speed", "break_even_tokens"}) {
    EXPECT_TRUE(remote.at(name).is_null()) << name;
  }
}

TEST_F(CacheBodyTest, TellsWhatLoadsAreWeighedAgainst) {
  EngineStatus status = StatusWithTiers();
  const json::object body = Body(status);
  EXPECT_EQ(body.at("prefill"), json::parse(R"({"token_ms":4.0,"depth_ms":0.0005})"));
  EXPECT_EQ(body.at("loads"), json::parse(R"({"tokens_looked_up":900,"tokens_from_disk":500,
      "tokens_from_remote":300,"load":6,"split":8,"recompute":7,"wait_ms":1500.0,
      "max_wait_ms":250.0,"preempted_blocks_spilled":12})"));
  EXPECT_EQ(body.at("misses").at("cheaper_to_compute"), 13);
  EXPECT_EQ(body.at("tiers").at(0).at("break_even_tokens"),
            BreakEvenTokens(status.prefill, status.tiers[0].speed, Cost(), kContext));
  // A tier that takes a minute to answer is never worth it.
  status.tiers[0].speed.latency_ms = 60'000;
  EXPECT_EQ(Body(status).at("tiers").at(0).at("break_even_tokens"), -1);
  status.prefill = {};
  EXPECT_TRUE(Body(status).at("prefill").is_null());
  EXPECT_TRUE(Body(status).at("tiers").at(0).at("break_even_tokens").is_null());
}

TEST_F(CacheBodyTest, AnEngineWithoutTiersHasNone) {
  const json::object body = json::parse(rig_.Ask("GET", "/quire/cache").body).as_object();
  EXPECT_TRUE(body.at("tiers").as_array().empty());
  EXPECT_FALSE(body.contains("loads"));
  EXPECT_FALSE(body.at("misses").as_object().contains("tier_down"));
}

TEST_F(CacheBodyTest, AFaultyPlaceIsStillJson) {
  EngineStatus status = StatusWithTiers();
  status.tiers[0].place = "/var/\xff\"\n";
  EXPECT_EQ(Body(status).at("tiers").at(0).at("place"), "/var/\xEF\xBF\xBD\"\n");
}

}  // namespace
}  // namespace quire
