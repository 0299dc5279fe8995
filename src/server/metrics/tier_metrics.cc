#include "server/metrics/tier_metrics.h"

#include <prometheus/metric_family.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "server/metrics/exposition.h"
#include "server/tier_watch.h"

namespace quire {
namespace {

using Labels = std::vector<std::pair<std::string, std::string>>;
using prometheus::ClientMetric;
using prometheus::MetricType;

constexpr std::array kLoadChoices = {LoadChoice::kLoad, LoadChoice::kSplit, LoadChoice::kRecompute};
constexpr double kMsPerSecond = 1000;

// A number that each kind of tier has. Nothing: not known.
struct TierNumber {
  const char* name;
  MetricType type;
  const char* help;
  std::optional<double> (*of)(const TierStatus& tier);
};

std::optional<double> Known(uint64_t bytes) {
  if (bytes == 0) return std::nullopt;
  return static_cast<double>(bytes);
}

template <int64_t TierCounters::* Member>
std::optional<double> Count(const TierStatus& tier) {
  return static_cast<double>(tier.counters.*Member);
}

template <double TierCounters::* Member>
std::optional<double> Seconds(const TierStatus& tier) {
  return tier.counters.*Member / kMsPerSecond;
}

std::optional<double> Records(const TierStatus& tier) {
  if (tier.num_records < 0) return std::nullopt;
  return static_cast<double>(tier.num_records);
}

std::optional<double> LatencySeconds(const TierStatus& tier) {
  if (tier.speed.bytes_per_ms <= 0) return std::nullopt;
  return tier.speed.latency_ms / kMsPerSecond;
}

std::optional<double> BytesPerSecond(const TierStatus& tier) {
  if (tier.speed.bytes_per_ms <= 0) return std::nullopt;
  return tier.speed.bytes_per_ms * kMsPerSecond;
}

constexpr auto kGauge = MetricType::Gauge;
constexpr auto kCounter = MetricType::Counter;
constexpr std::array kTierNumbers = {
    TierNumber{"quire_tier_bytes", kGauge, "Bytes that the tier takes, of all models, all told.",
               [](const TierStatus& tier) { return Known(tier.bytes); }},
    TierNumber{"quire_tier_max_bytes", kGauge, "Bytes that the tier may take.",
               [](const TierStatus& tier) { return Known(tier.max_bytes); }},
    TierNumber{"quire_tier_records", kGauge, "KV blocks of this model in the tier.", Records},
    TierNumber{"quire_tier_latency_seconds", kGauge, "Measured time until a load's first byte.",
               LatencySeconds},
    TierNumber{"quire_tier_bytes_per_second", kGauge, "Measured bandwidth of loads.",
               BytesPerSecond},
    TierNumber{"quire_tier_blocks_loaded_total", kCounter, "KV blocks loaded and proven right.",
               Count<&TierCounters::blocks_loaded>},
    TierNumber{"quire_tier_bytes_loaded_total", kCounter, "Bytes of keys and values loaded.",
               Count<&TierCounters::bytes_loaded>},
    TierNumber{"quire_tier_load_seconds_total", kCounter, "Time spent loading.",
               Seconds<&TierCounters::load_ms>},
    TierNumber{"quire_tier_blocks_stored_total", kCounter, "KV blocks stored.",
               Count<&TierCounters::blocks_stored>},
    TierNumber{"quire_tier_bytes_stored_total", kCounter, "Bytes of records stored.",
               Count<&TierCounters::bytes_stored>},
    TierNumber{"quire_tier_store_seconds_total", kCounter, "Time spent storing.",
               Seconds<&TierCounters::store_ms>},
    TierNumber{"quire_tier_blocks_dropped_total", kCounter,
               "KV blocks that were to be stored and found no room on the way.",
               [](const TierStatus& tier) {
                 return std::optional(static_cast<double>(tier.blocks_dropped));
               }},
    TierNumber{"quire_tier_stores_refused_total", kCounter,
               "KV blocks for which cap, free space or quota left no room.",
               Count<&TierCounters::stores_refused>},
    TierNumber{"quire_tier_evictions_total", kCounter, "Records that gave way to others.",
               Count<&TierCounters::evictions>},
    TierNumber{"quire_tier_times_down_total", kCounter,
               "Times that the tier was given up for a while.", Count<&TierCounters::times_down>},
};

// Absent and cancelled records are none.
bool IsFault(RecordFault fault) { return fault > RecordFault::kCancelled; }

// Sums over tiers: what vLLM's connectors tell.
struct Transfers {
  int64_t bytes_loaded = 0;
  int64_t bytes_stored = 0;
  double load_seconds = 0;
  double store_seconds = 0;
};

Transfers SumOf(const std::vector<TierStatus>& tiers) {
  Transfers sum;
  for (const TierStatus& tier : tiers) {
    sum.bytes_loaded += tier.counters.bytes_loaded;
    sum.bytes_stored += tier.counters.bytes_stored;
    sum.load_seconds += tier.counters.load_ms / kMsPerSecond;
    sum.store_seconds += tier.counters.store_ms / kMsPerSecond;
  }
  return sum;
}

}  // namespace

// The families of one scrape, in the order of their first sample.
class TierMetrics::Page {
 public:
  Page(const std::map<std::string, std::string>& labels, std::map<std::string, double>& counters)
      : labels_(labels), counters_(counters) {}

  void Add(MetricType type, std::string_view name, std::string_view help, double value,
           const Labels& labels = {}) {
    if (families_.empty() || families_.back().name != name) {
      families_.push_back({std::string(name), std::string(help), type, {}});
    }
    ClientMetric metric;
    std::string key(name);
    for (const auto& [label, text] : labels_) metric.label.push_back({label, text});
    for (const auto& [label, text] : labels) {
      metric.label.push_back({label, text});
      key.append(" ").append(text);
    }
    if (type == MetricType::Counter) {
      double& last = counters_[key];
      last = std::max(last, value);
      metric.counter.value = last;
    } else {
      metric.gauge.value = value;
    }
    families_.back().metric.push_back(std::move(metric));
  }
  void AddCounter(std::string_view name, std::string_view help, double value,
                  const Labels& labels = {}) {
    Add(MetricType::Counter, name, help, value, labels);
  }

  void AddTiers(const std::vector<TierStatus>& tiers);
  void AddTransfers(const std::vector<TierStatus>& tiers);
  void AddEngine(const EngineStatus& engine, const std::array<int64_t, 3>& cached_tokens);

  const std::vector<prometheus::MetricFamily>& families() const { return families_; }

 private:
  const std::map<std::string, std::string>& labels_;
  std::map<std::string, double>& counters_;
  std::vector<prometheus::MetricFamily> families_;
};

void TierMetrics::Page::AddTiers(const std::vector<TierStatus>& tiers) {
  // By kind, those that there are.
  std::map<TierKind, std::vector<const TierStatus*>> kinds;
  for (const TierStatus& tier : tiers) kinds[tier.kind].push_back(&tier);
  const auto label = [](TierKind kind) { return std::pair("tier", std::string(NameOf(kind))); };
  for (const auto& [kind, members] : kinds) {
    const bool is_up =
        std::ranges::all_of(members, [](const TierStatus* tier) { return Answers(*tier); });
    Add(MetricType::Gauge, "quire_tier_up", "Whether the tier is asked: 1, or 0 while it rests.",
        is_up ? 1 : 0, {label(kind)});
  }
  for (const TierNumber& number : kTierNumbers) {
    for (const auto& [kind, members] : kinds) {
      std::optional<double> sum;
      for (const TierStatus* tier : members) {
        if (const auto value = number.of(*tier)) sum = sum.value_or(0) + *value;
      }
      if (sum) Add(number.type, number.name, number.help, *sum, {label(kind)});
    }
  }
  for (const auto& [kind, members] : kinds) {
    for (int idx = 0; idx < kNumRecordFaults; ++idx) {
      const auto fault = static_cast<RecordFault>(idx);
      if (!IsFault(fault)) continue;
      int64_t sum = 0;
      for (const TierStatus* tier : members) sum += tier->counters.faults[idx];
      AddCounter("quire_tier_faults_total", "Records and calls that failed, by fault.",
                 static_cast<double>(sum), {label(kind), {"fault", std::string(NameOf(fault))}});
    }
  }
}

void TierMetrics::Page::AddTransfers(const std::vector<TierStatus>& tiers) {
  const Transfers sum = SumOf(tiers);
  const auto loaded = static_cast<double>(sum.bytes_loaded);
  const auto stored = static_cast<double>(sum.bytes_stored);
  AddCounter("vllm:kv_offload_load_bytes_total", "Bytes loaded from all tiers.", loaded);
  AddCounter("vllm:kv_offload_load_time_total", "Seconds spent loading from all tiers.",
             sum.load_seconds);
  AddCounter("vllm:kv_offload_store_bytes_total", "Bytes stored in all tiers.", stored);
  AddCounter("vllm:kv_offload_store_time_total", "Seconds spent storing in all tiers.",
             sum.store_seconds);
  // The names of older versions, which the dashboards of their connectors have; there memory of the
  // processor is what a GPU's blocks go to, here it is where they come from.
  const Labels load = {{"transfer_type", "CPU_to_GPU"}};
  const Labels store = {{"transfer_type", "GPU_to_CPU"}};
  constexpr const char* kBytes = "vllm:kv_offload_total_bytes_total";
  constexpr const char* kBytesHelp = "Bytes moved to and from all tiers, by direction.";
  AddCounter(kBytes, kBytesHelp, loaded, load);
  AddCounter(kBytes, kBytesHelp, stored, store);
  constexpr const char* kTime = "vllm:kv_offload_total_time_total";
  constexpr const char* kTimeHelp = "Seconds spent moving to and from all tiers, by direction.";
  AddCounter(kTime, kTimeHelp, sum.load_seconds, load);
  AddCounter(kTime, kTimeHelp, sum.store_seconds, store);
}

void TierMetrics::Page::AddEngine(const EngineStatus& engine,
                                  const std::array<int64_t, 3>& cached_tokens) {
  constexpr std::array kPlaces = {"memory", "disk", "remote"};
  for (size_t i = 0; i < kPlaces.size(); ++i) {
    AddCounter("quire_cached_tokens_total", "Cached prompt tokens, by where they came from.",
               static_cast<double>(cached_tokens[i]), {{"tier", kPlaces[i]}});
  }
  const EngineCounters& counters = engine.counters;
  for (const LoadChoice choice : kLoadChoices) {
    AddCounter("quire_load_decisions_total", "What was done about prefixes that a tier had.",
               static_cast<double>(counters.load_choices[static_cast<size_t>(choice)]),
               {{"choice", std::string(NameOf(choice))}});
  }
  AddCounter("quire_tier_wait_seconds_total", "Time that requests waited for tiers, all together.",
             counters.tier_wait_ms / kMsPerSecond);
  Add(MetricType::Gauge, "quire_tier_wait_max_seconds", "The longest that one request waited.",
      counters.max_tier_wait_ms / kMsPerSecond);
  AddCounter("quire_preempted_blocks_spilled_total",
             "KV blocks of preempted sequences that went to a tier.",
             static_cast<double>(counters.preempted_blocks_spilled));
  if (!engine.prefill.is_known()) return;
  Add(MetricType::Gauge, "quire_prefill_token_seconds",
      "Measured time that a prompt's first tokens take, each.",
      engine.prefill.token_ms / kMsPerSecond);
}

TierMetrics::TierMetrics(std::map<std::string, std::string> labels) : labels_(std::move(labels)) {}

void TierMetrics::Append(const EngineStatus& engine, const std::array<int64_t, 3>& cached_tokens,
                         std::string& text) {
  if (engine.tiers.empty()) return;
  Page page(labels_, counters_);
  page.AddTransfers(engine.tiers);
  page.AddTiers(engine.tiers);
  page.AddEngine(engine, cached_tokens);
  AppendExposition(page.families(), text);
}

}  // namespace quire
