// What /metrics says of tiers.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "server/metrics/server_metrics.h"
#include "server/support/tier_rows.h"
#include "support/exposition_reader.h"

namespace quire {
namespace {

using testing::DiskStatus;
using testing::RemoteStatus;
using testing::StatusWithTiers;
using Samples = std::map<std::string, double>;

class TierMetricsTest : public ::testing::Test {
 protected:
  Samples Scrape(const EngineStatus& engine) {
    const Exposition exposition = ReadExposition(metrics_.Render(engine, {}));
    EXPECT_EQ(exposition.fault, "");
    return exposition.samples;
  }
  // `labels` are those of the series, between the engine's and the model's in the alphabet or not.
  static double Of(const Samples& samples, const std::string& name,
                   std::map<std::string, std::string> labels = {}) {
    labels.insert({{"engine", "0"}, {"model_name", "tiny"}});
    std::string key = name + "{";
    for (const auto& [label, value] : labels) {
      if (key.back() != '{') key += ',';
      key.append(label).append("=\"").append(value).append("\"");
    }
    const auto found = samples.find(key + "}");
    if (found == samples.end()) {
      ADD_FAILURE() << "no " << key << "}";
      return -1;
    }
    return found->second;
  }
  static bool Has(const Samples& samples, const std::string& part) {
    for (const auto& [key, value] : samples) {
      if (key.find(part) != std::string::npos) return true;
    }
    return false;
  }

  ServerMetrics metrics_{{.model_name = "tiny", .context_length = 2048}};
};

TEST_F(TierMetricsTest, AreThoseOfEachTier) {
  const Samples samples = Scrape(StatusWithTiers());
  const std::map<std::string, std::string> disk = {{"tier", "disk"}};
  const std::map<std::string, std::string> remote = {{"tier", "remote"}};
  for (const auto& [name, value] : std::map<std::string, double>{{"up", 1},
                                                                 {"bytes", 5'000},
                                                                 {"max_bytes", 9'000},
                                                                 {"records", 70},
                                                                 {"latency_seconds", 0.002},
                                                                 {"bytes_per_second", 500'000},
                                                                 {"blocks_loaded_total", 23},
                                                                 {"bytes_loaded_total", 24'000},
                                                                 {"load_seconds_total", 2.5},
                                                                 {"blocks_stored_total", 26},
                                                                 {"bytes_stored_total", 27'000},
                                                                 {"store_seconds_total", 2.8},
                                                                 {"blocks_dropped_total", 11},
                                                                 {"stores_refused_total", 29},
                                                                 {"evictions_total", 30},
                                                                 {"times_down_total", 0}}) {
    EXPECT_DOUBLE_EQ(Of(samples, "quire_tier_" + name, disk), value) << name;
  }
  EXPECT_EQ(Of(samples, "quire_tier_up", remote), 0);
  EXPECT_EQ(Of(samples, "quire_tier_times_down_total", remote), 2);
  // What a server keeps to itself is not told as 0.
  for (const char* name : {"bytes", "max_bytes", "records", "latency_seconds"}) {
    EXPECT_FALSE(Has(samples, std::string("quire_tier_") + name +
                                  "{engine=\"0\",model_name=\"tiny\",tier=\"remote\"}"));
  }
}

TEST_F(TierMetricsTest, NameEveryFaultAndNothingElse) {
  const Samples samples = Scrape(StatusWithTiers());
  const auto faults = [&](const std::string& tier, const std::string& fault) {
    return Of(samples, "quire_tier_faults_total", {{"tier", tier}, {"fault", fault}});
  };
  EXPECT_EQ(faults("disk", "checksum"), 3);
  EXPECT_EQ(faults("disk", "timeout"), 0);
  EXPECT_EQ(faults("remote", "timeout"), 5);
  for (const char* fault : {"truncated", "foreign", "version", "other_model", "other_block",
                            "unsealed", "unknown_key", "forged", "bad_payload", "io", "down"}) {
    EXPECT_EQ(faults("remote", fault), 0) << fault;
  }
  for (const char* none : {"none", "absent", "cancelled"}) {
    EXPECT_FALSE(Has(samples, std::string("fault=\"") + none)) << none;
  }
}

TEST_F(TierMetricsTest, BearVllmsNamesForWhatItsConnectorsTell) {
  const Samples samples = Scrape(StatusWithTiers());
  EXPECT_EQ(Of(samples, "vllm:external_prefix_cache_queries_total"), 900);
  EXPECT_EQ(Of(samples, "vllm:external_prefix_cache_hits_total"), 800);
  EXPECT_EQ(Of(samples, "vllm:kv_offload_load_bytes_total"), 65'000);
  EXPECT_EQ(Of(samples, "vllm:kv_offload_store_bytes_total"), 70'000);
  EXPECT_DOUBLE_EQ(Of(samples, "vllm:kv_offload_load_time_total"), 6.75);
  EXPECT_DOUBLE_EQ(Of(samples, "vllm:kv_offload_store_time_total"), 7.2);
  const std::map<std::string, std::string> load = {{"transfer_type", "CPU_to_GPU"}};
  const std::map<std::string, std::string> store = {{"transfer_type", "GPU_to_CPU"}};
  EXPECT_EQ(Of(samples, "vllm:kv_offload_total_bytes_total", load), 65'000);
  EXPECT_EQ(Of(samples, "vllm:kv_offload_total_bytes_total", store), 70'000);
  EXPECT_DOUBLE_EQ(Of(samples, "vllm:kv_offload_total_time_total", load), 6.75);
  EXPECT_DOUBLE_EQ(Of(samples, "vllm:kv_offload_total_time_total", store), 7.2);
}

TEST_F(TierMetricsTest, CountDecisionsWaitsAndMisses) {
  const Samples samples = Scrape(StatusWithTiers());
  EXPECT_EQ(Of(samples, "quire_load_decisions_total", {{"choice", "load"}}), 6);
  EXPECT_EQ(Of(samples, "quire_load_decisions_total", {{"choice", "recompute"}}), 7);
  EXPECT_EQ(Of(samples, "quire_load_decisions_total", {{"choice", "split"}}), 8);
  EXPECT_EQ(Of(samples, "quire_tier_wait_seconds_total"), 1.5);
  EXPECT_EQ(Of(samples, "quire_tier_wait_max_seconds"), 0.25);
  EXPECT_EQ(Of(samples, "quire_preempted_blocks_spilled_total"), 12);
  EXPECT_EQ(Of(samples, "quire_prefill_token_seconds"), 0.004);
  const auto misses = [&](const std::string& reason) {
    return Of(samples, "quire_prefix_misses_total", {{"reason", reason}});
  };
  EXPECT_EQ(misses("cheaper_to_compute"), 13);
  EXPECT_EQ(misses("tier_down"), 14);
  EXPECT_EQ(misses("tier_fault"), 0);
  EXPECT_EQ(misses("other_model"), 0);
}

TEST_F(TierMetricsTest, PartCachedTokensByWhereTheyCameFrom) {
  RequestResult result{.prompt_tokens = 100, .cached_tokens = 90, .cached_by_tier = {20, 40, 30}};
  result.first_token_ms = 1;
  metrics_.ObserveEnd(result, {});
  const Samples samples = Scrape(StatusWithTiers());
  const auto cached = [&](const std::string& tier) {
    return Of(samples, "quire_cached_tokens_total", {{"tier", tier}});
  };
  EXPECT_EQ(cached("memory"), 20);
  EXPECT_EQ(cached("disk"), 40);
  EXPECT_EQ(cached("remote"), 30);
  const auto by_source = [&](const std::string& source) {
    return Of(samples, "vllm:prompt_tokens_by_source_total", {{"source", source}});
  };
  EXPECT_EQ(by_source("local_compute"), 10);
  EXPECT_EQ(by_source("local_cache_hit"), 20);
  EXPECT_EQ(by_source("external_kv_transfer"), 70);
}

TEST_F(TierMetricsTest, AreNotThereWithoutTiers) {
  const Samples samples = Scrape({});
  for (const char* part :
       {"quire_tier_", "kv_offload", "quire_cached_tokens", "quire_load_decisions",
        "quire_prefill_token", "cheaper_to_compute", "tier_fault"}) {
    EXPECT_FALSE(Has(samples, part)) << part;
  }
  // vLLM has these without a connector, too.
  EXPECT_EQ(Of(samples, "vllm:external_prefix_cache_queries_total"), 0);
  EXPECT_EQ(Of(samples, "vllm:external_prefix_cache_hits_total"), 0);
}

TEST_F(TierMetricsTest, SumUpTiersOfOneKindAndAreUpWhereAllAre) {
  EngineStatus engine;
  engine.tiers = {RemoteStatus(), RemoteStatus()};
  engine.tiers[0].state = {};
  const std::map<std::string, std::string> remote = {{"tier", "remote"}};
  Samples samples = Scrape(engine);
  EXPECT_EQ(Of(samples, "quire_tier_up", remote), 0);
  EXPECT_EQ(Of(samples, "quire_tier_blocks_loaded_total", remote), 80);
  engine.tiers[1].state = {};
  EXPECT_EQ(Of(Scrape(engine), "quire_tier_up", remote), 1);
}

TEST_F(TierMetricsTest, NeverLetACounterFall) {
  EngineStatus engine;
  engine.tiers = {DiskStatus()};
  Scrape(engine);
  engine.tiers[0].counters = {};
  engine.tiers[0].bytes = 1;
  const Samples samples = Scrape(engine);
  EXPECT_EQ(Of(samples, "quire_tier_blocks_loaded_total", {{"tier", "disk"}}), 23);
  EXPECT_EQ(Of(samples, "quire_tier_bytes", {{"tier", "disk"}}), 1);
}

}  // namespace
}  // namespace quire
