#include "server/routes/quire_routes.h"

#include "server/openai/json_writer.h"
#include "server/routes/openapi_json.h"
#include "server/routes/routes.h"

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
  for (const MissReason reason :
       {MissReason::kNeverSeen, MissReason::kDiffers, MissReason::kEvicted, MissReason::kNotRead}) {
    Int(NameOf(reason), status.counters.misses[static_cast<size_t>(reason)], json);
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

std::string CacheBody(const ServerContext& context) {
  const EngineStatus status = context.engine.status();
  const KvLayout& layout = context.engine.layout();
  std::string body;
  JsonWriter json(body);
  json.BeginObject();
  json.Key("object");
  json.String("quire.cache");
  Int("version", kQuireVersion, json);
  Int("block_tokens", kBlockSlots, json);
  Int("block_bytes", static_cast<int64_t>(layout.block_bytes), json);
  Int("bytes_per_token", static_cast<int64_t>(layout.bytes_per_token), json);
  WriteUsage(status, json);
  json.Key("requests");
  json.BeginObject();
  Int("running", status.num_running, json);
  Int("waiting", status.num_waiting, json);
  json.EndObject();
  WriteCounters(status, json);
  json.EndObject();
  return body;
}

}  // namespace

void AddCacheRoute(Router& router, ServerContext& context) {
  router.Add(
      {.method = "GET",
       .path = "/quire/cache",
       .handler =
           [&context](RouteCall call) { call.exchange->Respond({.body = CacheBody(context)}); },
       .needs_admin = true});
}

void AddQuireRoutes(Router& router, ServerContext& context) {
  AddCacheRoute(router, context);
  AddPlanRoute(router, context);
  AddExplainRoute(router, context);
  router.Add(
      {.method = "GET",
       .path = "/openapi.json",
       .handler =
           [](RouteCall call) { call.exchange->Respond({.body = std::string(kOpenApiJson)}); },
       .needs_key = false});
}

}  // namespace quire
