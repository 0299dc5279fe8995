#include "server/routes/cache_body.h"

#include <cmath>

#include "base/utf8.h"
#include "plan/break_even.h"
#include "server/openai/json_writer.h"
#include "server/routes/quire_routes.h"
#include "server/tier_watch.h"

namespace quire {
namespace {

void Int(std::string_view name, int64_t value, JsonWriter& json) {
  json.Key(name);
  json.Int(value);
}

void WriteUsage(const EngineStatus& status, JsonWriter& json) {
  const KvUsage& kv = status.kv;
  json.Key("blocks");
  json.BeginObject();
  Int("total", kv.total_blocks, json);
  Int("used", kv.used_blocks, json);
  Int("cached", kv.cached_blocks, json);
  Int("free", kv.free_blocks, json);
  json.EndObject();
  const auto block_bytes = static_cast<int64_t>(kv.block_bytes);
  json.Key("bytes");
  json.BeginObject();
  Int("total", kv.total_blocks * block_bytes, json);
  Int("used", kv.used_blocks * block_bytes, json);
  Int("cached", kv.cached_blocks * block_bytes, json);
  Int("free", kv.free_blocks * block_bytes, json);
  Int("committed", static_cast<int64_t>(kv.committed_bytes), json);
  json.EndObject();
  json.Key("pinned");
  json.BeginObject();
  Int("blocks", status.num_pinned_blocks, json);
  Int("bytes", status.num_pinned_blocks * block_bytes, json);
  json.EndObject();
  Int("filled_slots", kv.filled_slots, json);
}

void WriteCounters(const EngineStatus& status, JsonWriter& json) {
  json.Key("tokens");
  json.BeginObject();
  Int("prompt", status.counters.prompt_tokens, json);
  Int("cached", status.counters.cached_tokens, json);
  Int("computed", status.counters.computed_tokens, json);
  Int("generated", status.counters.generated_tokens, json);
  json.EndObject();
  json.Key("prefix_cache");
  json.BeginObject();
  Int("tokens_looked_up", status.counters.prefix_cache_queries, json);
  Int("tokens_found", status.counters.prefix_cache_hits, json);
  json.EndObject();
  json.Key("misses");
  json.BeginObject();
  for (int idx = 1; idx < kNumMissReasons; ++idx) {
    const auto reason = static_cast<MissReason>(idx);
    if (reason >= MissReason::kCheaperToCompute && status.tiers.empty()) break;
    Int(NameOf(reason), status.counters.misses[idx], json);
  }
  json.EndObject();
  const KvCounters& kv = status.kv_counters;
  json.Key("events");
  json.BeginObject();
  Int("blocks_committed", kv.blocks_committed, json);
  Int("blocks_shared", kv.blocks_shared, json);
  Int("blocks_copied", kv.blocks_copied, json);
  Int("partial_hits", kv.partial_hits, json);
  Int("window_releases", kv.window_releases, json);
  Int("preemptions", status.batch_counters.preemptions, json);
  json.EndObject();
  json.Key("evictions");
  json.BeginObject();
  Int("allocation", kv.blocks_evicted, json);
  Int("taken_over", kv.blocks_taken_over, json);
  Int("dropped", kv.blocks_dropped, json);
  json.EndObject();
}

void Milliseconds(std::string_view name, double value, JsonWriter& json) {
  json.Key(name);
  // A nanosecond is enough.
  json.Number(std::round(value * 1e6) / 1e6);
}

void Text(std::string_view name, std::string_view text, JsonWriter& json) {
  json.Key(name);
  json.String(RepairUtf8(text));
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
  Int("blocks_asked_for", counters.names_asked, json);
  Int("blocks_found", counters.names_found, json);
  Int("blocks_loaded", counters.blocks_loaded, json);
  Int("bytes_loaded", counters.bytes_loaded, json);
  Milliseconds("load_ms", counters.load_ms, json);
  Int("blocks_stored", counters.blocks_stored, json);
  Int("bytes_stored", counters.bytes_stored, json);
  Milliseconds("store_ms", counters.store_ms, json);
  Int("blocks_dropped", tier.blocks_dropped, json);
  Int("stores_refused", counters.stores_refused, json);
  Int("evictions", counters.evictions, json);
  Int("times_down", counters.times_down, json);
  json.EndObject();
  // Those that have happened.
  json.Key("faults");
  json.BeginObject();
  for (int idx = 0; idx < kNumRecordFaults; ++idx) {
    if (counters.faults[idx] > 0) {
      Int(NameOf(static_cast<RecordFault>(idx)), counters.faults[idx], json);
    }
  }
  json.EndObject();
}

void WriteTier(const TierStatus& tier, const PrefillCost& prefill, const KvCost& cost,
               int context_length, JsonWriter& json) {
  json.BeginObject();
  Text("tier", NameOf(tier.kind), json);
  Text("place", tier.place, json);
  json.Key("read_only");
  json.Bool(tier.is_read_only);
  Text("state", Answers(tier) ? "up" : "down", json);
  if (!Answers(tier)) {
    Text("reason", tier.state.reason, json);
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
    json.Key("bytes_per_second");
    json.Number(tier.speed.bytes_per_ms * 1000);
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
    json.Key("depth_ms");
    json.Number(status.prefill.depth_ms);
    json.EndObject();
  } else {
    json.Null();
  }
  if (status.tiers.empty()) return;
  const EngineCounters& counters = status.counters;
  json.Key("loads");
  json.BeginObject();
  Int("tokens_looked_up", counters.tier_queries, json);
  for (const TierKind kind : {TierKind::kDisk, TierKind::kRemote}) {
    Int(kind == TierKind::kDisk ? "tokens_from_disk" : "tokens_from_remote",
        counters.tier_hits[static_cast<size_t>(kind)], json);
  }
  for (const LoadChoice choice : {LoadChoice::kLoad, LoadChoice::kSplit, LoadChoice::kRecompute}) {
    Int(NameOf(choice), counters.load_choices[static_cast<size_t>(choice)], json);
  }
  Milliseconds("wait_ms", counters.tier_wait_ms, json);
  Milliseconds("max_wait_ms", counters.max_tier_wait_ms, json);
  Int("preempted_blocks_spilled", counters.preempted_blocks_spilled, json);
  json.EndObject();
}

}  // namespace

std::string CacheBody(const EngineStatus& status, const KvCost& cost, int context_length) {
  std::string body;
  JsonWriter json(body);
  json.BeginObject();
  json.Key("object");
  json.String("quire.cache");
  Int("version", kQuireVersion, json);
  Int("block_tokens", kBlockSlots, json);
  Int("block_bytes", static_cast<int64_t>(cost.layout().block_bytes), json);
  Int("bytes_per_token", static_cast<int64_t>(cost.layout().bytes_per_token), json);
  WriteUsage(status, json);
  json.Key("requests");
  json.BeginObject();
  Int("running", status.num_running, json);
  Int("waiting", status.num_waiting, json);
  json.EndObject();
  WriteCounters(status, json);
  WriteTiers(status, cost, context_length, json);
  json.EndObject();
  return body;
}

}  // namespace quire
