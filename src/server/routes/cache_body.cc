#include "server/routes/cache_body.h"

#include <cmath>

#include "plan/break_even.h"
#include "server/openai/json_members.h"
#include "server/routes/quire_routes.h"
#include "server/tier_watch.h"

namespace quire {
namespace {

void WriteUsage(const EngineStatus& status, JsonWriter& json) {
  const KvUsage& kv = status.kv;
  json.Key("blocks");
  json.BeginObject();
  IntMember("total", kv.total_blocks, json);
  IntMember("used", kv.used_blocks, json);
  IntMember("cached", kv.cached_blocks, json);
  IntMember("free", kv.free_blocks, json);
  json.EndObject();
  const auto block_bytes = static_cast<int64_t>(kv.block_bytes);
  json.Key("bytes");
  json.BeginObject();
  IntMember("total", kv.total_blocks * block_bytes, json);
  IntMember("used", kv.used_blocks * block_bytes, json);
  IntMember("cached", kv.cached_blocks * block_bytes, json);
  IntMember("free", kv.free_blocks * block_bytes, json);
  IntMember("committed", static_cast<int64_t>(kv.committed_bytes), json);
  json.EndObject();
  json.Key("pinned");
  json.BeginObject();
  IntMember("blocks", status.num_pinned_blocks, json);
  IntMember("bytes", status.num_pinned_blocks * block_bytes, json);
  json.EndObject();
  IntMember("filled_slots", kv.filled_slots, json);
}

void WriteCounters(const EngineStatus& status, JsonWriter& json) {
  json.Key("tokens");
  json.BeginObject();
  IntMember("prompt", status.counters.prompt_tokens, json);
  IntMember("cached", status.counters.cached_tokens, json);
  IntMember("computed", status.counters.computed_tokens, json);
  IntMember("generated", status.counters.generated_tokens, json);
  json.EndObject();
  json.Key("prefix_cache");
  json.BeginObject();
  IntMember("tokens_looked_up", status.counters.prefix_cache_queries, json);
  IntMember("tokens_found", status.counters.prefix_cache_hits, json);
  json.EndObject();
  json.Key("misses");
  json.BeginObject();
  for (int idx = 1; idx < kNumMissReasons; ++idx) {
    const auto reason = static_cast<MissReason>(idx);
    if (reason >= MissReason::kCheaperToCompute && status.tiers.empty()) break;
    IntMember(NameOf(reason), status.counters.misses[idx], json);
  }
  json.EndObject();
  const KvCounters& kv = status.kv_counters;
  json.Key("events");
  json.BeginObject();
  IntMember("blocks_committed", kv.blocks_committed, json);
  IntMember("blocks_shared", kv.blocks_shared, json);
  IntMember("blocks_copied", kv.blocks_copied, json);
  IntMember("partial_hits", kv.partial_hits, json);
  IntMember("window_releases", kv.window_releases, json);
  IntMember("preemptions", status.batch_counters.preemptions, json);
  json.EndObject();
  json.Key("evictions");
  json.BeginObject();
  IntMember("allocation", kv.blocks_evicted, json);
  IntMember("taken_over", kv.blocks_taken_over, json);
  IntMember("dropped", kv.blocks_dropped, json);
  json.EndObject();
}

void Milliseconds(std::string_view name, double value, JsonWriter& json) {
  // A nanosecond is enough.
  NumberMember(name, std::round(value * 1e6) / 1e6, json);
}

// Null where it is not known.
void IntOrNull(std::string_view name, int64_t value, bool is_known, JsonWriter& json) {
  json.Key(name);
  if (is_known) return json.Int(value);
  json.Null();
}

void WriteTierCounters(const TierStatus& tier, JsonWriter& json) {
  const TierCounters& counters = tier.counters;
  json.Key("counters");
  json.BeginObject();
  IntMember("blocks_asked_for", counters.names_asked, json);
  IntMember("blocks_found", counters.names_found, json);
  IntMember("blocks_loaded", counters.blocks_loaded, json);
  IntMember("bytes_loaded", counters.bytes_loaded, json);
  Milliseconds("load_ms", counters.load_ms, json);
  IntMember("blocks_stored", counters.blocks_stored, json);
  IntMember("bytes_stored", counters.bytes_stored, json);
  Milliseconds("store_ms", counters.store_ms, json);
  IntMember("blocks_dropped", tier.blocks_dropped, json);
  IntMember("stores_refused", counters.stores_refused, json);
  IntMember("evictions", counters.evictions, json);
  IntMember("times_down", counters.times_down, json);
  json.EndObject();
  // Those that have happened.
  json.Key("faults");
  json.BeginObject();
  for (int idx = 0; idx < kNumRecordFaults; ++idx) {
    if (counters.faults[idx] > 0) {
      IntMember(NameOf(static_cast<RecordFault>(idx)), counters.faults[idx], json);
    }
  }
  json.EndObject();
}

void WriteTier(const TierStatus& tier, const PrefillCost& prefill, const KvCost& cost,
               int context_length, JsonWriter& json) {
  json.BeginObject();
  TextMember("tier", NameOf(tier.kind), json);
  TextMember("place", tier.place, json);
  BoolMember("read_only", tier.is_read_only, json);
  TextMember("state", Answers(tier) ? "up" : "down", json);
  if (!Answers(tier)) {
    TextMember("reason", tier.state.reason, json);
    Milliseconds("down_for_ms", tier.state.down_for_ms, json);
  }
  IntOrNull("records", tier.num_records, tier.num_records >= 0, json);
  IntOrNull("bytes", static_cast<int64_t>(tier.bytes), tier.bytes > 0, json);
  IntOrNull("max_bytes", static_cast<int64_t>(tier.max_bytes), tier.max_bytes > 0, json);
  const bool is_speed_known = tier.speed.bytes_per_ms > 0;
  json.Key("speed");
  if (is_speed_known) {
    json.BeginObject();
    Milliseconds("latency_ms", tier.speed.latency_ms, json);
    NumberMember("bytes_per_second", tier.speed.bytes_per_ms * 1000, json);
    json.EndObject();
  } else {
    json.Null();
  }
  const bool is_weighed = is_speed_known && prefill.is_known();
  const int tokens = is_weighed ? BreakEvenTokens(prefill, tier.speed, cost, context_length) : 0;
  IntOrNull("break_even_tokens", tokens, is_weighed, json);
  WriteTierCounters(tier, json);
  json.EndObject();
}

void WriteTiers(const EngineStatus& status, const KvCost& cost, int context_length,
                JsonWriter& json) {
  json.Key("tiers");
  json.BeginArray();
  for (const TierStatus& tier : status.tiers)
    WriteTier(tier, status.prefill, cost, context_length, json);
  json.EndArray();
  json.Key("prefill");
  if (status.prefill.is_known()) {
    json.BeginObject();
    Milliseconds("token_ms", status.prefill.token_ms, json);
    NumberMember("depth_ms", status.prefill.depth_ms, json);
    json.EndObject();
  } else {
    json.Null();
  }
  if (status.tiers.empty()) return;
  const EngineCounters& counters = status.counters;
  json.Key("loads");
  json.BeginObject();
  IntMember("tokens_looked_up", counters.tier_queries, json);
  for (const TierKind kind : {TierKind::kDisk, TierKind::kRemote}) {
    IntMember(kind == TierKind::kDisk ? "tokens_from_disk" : "tokens_from_remote",
              counters.tier_hits[static_cast<size_t>(kind)], json);
  }
  for (const LoadChoice choice : {LoadChoice::kLoad, LoadChoice::kSplit, LoadChoice::kRecompute}) {
    IntMember(NameOf(choice), counters.load_choices[static_cast<size_t>(choice)], json);
  }
  Milliseconds("wait_ms", counters.tier_wait_ms, json);
  Milliseconds("max_wait_ms", counters.max_tier_wait_ms, json);
  IntMember("preempted_blocks_spilled", counters.preempted_blocks_spilled, json);
  json.EndObject();
}

}  // namespace

std::string CacheBody(const EngineStatus& status, const KvCost& cost, int context_length) {
  std::string body;
  JsonWriter json(body);
  json.BeginObject();
  TextMember("object", "quire.cache", json);
  IntMember("version", kQuireVersion, json);
  IntMember("block_tokens", kBlockSlots, json);
  IntMember("block_bytes", static_cast<int64_t>(cost.layout().block_bytes), json);
  IntMember("bytes_per_token", static_cast<int64_t>(cost.layout().bytes_per_token), json);
  WriteUsage(status, json);
  json.Key("requests");
  json.BeginObject();
  IntMember("running", status.num_running, json);
  IntMember("waiting", status.num_waiting, json);
  json.EndObject();
  WriteCounters(status, json);
  WriteTiers(status, cost, context_length, json);
  json.EndObject();
  return body;
}

}  // namespace quire
