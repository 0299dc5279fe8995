#include "server/routes/break_even_body.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "plan/break_even.h"

namespace quire {
namespace {

template <typename Values, typename WriteValue>
void Array(std::string_view name, const Values& values, JsonWriter& json, const WriteValue& write) {
  json.Key(name);
  json.BeginArray();
  for (const auto& value : values) write(value);
  json.EndArray();
}

void Numbers(std::string_view name, const std::vector<double>& values, double factor,
             JsonWriter& json) {
  Array(name, values, json, [&](double value) { json.Number(value * factor); });
}

void Nulls(std::initializer_list<std::string_view> names, JsonWriter& json) {
  for (const std::string_view name : names) {
    json.Key(name);
    json.Null();
  }
}

// What a tier takes; null while its speed, or that of prefill, has not been measured.
void WriteTier(const TierStatus& tier, const BreakEven& table, JsonWriter& json) {
  json.BeginObject();
  json.Key("kind");
  json.String(NameOf(tier.kind));
  if (table.loading.empty()) {
    Nulls({"latency_ms", "bytes_per_second", "load_ms"}, json);
  } else {
    json.Key("latency_ms");
    json.Number(tier.speed.latency_ms);
    json.Key("bytes_per_second");
    json.Number(tier.speed.bytes_per_ms * 1000);
    Numbers("load_ms", table.loading[0].ms, 1, json);
  }
  if (table.loading.empty() || table.computing.empty()) {
    Nulls({"loads_from_tokens", "break_even_bytes_per_second"}, json);
  } else {
    const BreakEven::Pair& pair = table.computing[0].pairs[0];
    if (pair.loads_from_tokens < 0) {
      Nulls({"loads_from_tokens"}, json);
    } else {
      json.Key("loads_from_tokens");
      json.Int(pair.loads_from_tokens);
    }
    Numbers("break_even_bytes_per_second", pair.bytes_per_ms, 1000, json);
  }
  json.EndObject();
}

}  // namespace

void WriteBreakEven(const EngineStatus& status, const KvCost& cost, int context_length,
                    JsonWriter& json) {
  std::vector<PrefillCost> prefills;
  if (status.prefill.is_known()) prefills.push_back(status.prefill);
  const BreakEven table = MakeBreakEven(cost, context_length, prefills, {});
  json.BeginObject();
  json.Key("prefill");
  if (prefills.empty()) {
    json.Null();
  } else {
    json.BeginObject();
    json.Key("token_ms");
    json.Number(status.prefill.token_ms);
    json.Key("depth_ms");
    json.Number(status.prefill.depth_ms);
    json.EndObject();
  }
  Array("prefix_tokens", table.lengths, json, [&](int length) { json.Int(length); });
  Array("prefix_bytes", table.bytes, json, [&](uint64_t bytes) {
    json.Int(static_cast<int64_t>(std::min<uint64_t>(bytes, INT64_MAX)));
  });
  if (prefills.empty()) {
    Nulls({"compute_ms"}, json);
  } else {
    Numbers("compute_ms", table.computing[0].ms, 1, json);
  }
  Array("tiers", status.tiers, json, [&](const TierStatus& tier) {
    std::vector<TierSpeed> speeds;
    if (tier.speed.bytes_per_ms > 0) speeds.push_back(tier.speed);
    WriteTier(tier, MakeBreakEven(cost, context_length, prefills, speeds), json);
  });
  json.EndObject();
}

}  // namespace quire
