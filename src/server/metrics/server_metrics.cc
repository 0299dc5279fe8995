#include "server/metrics/server_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "server/metrics/exposition.h"
#include "server/metrics/process_usage.h"
#include "server/metrics/tier_metrics.h"
#include "server/openai/usage.h"

namespace quire {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Labels;
using Buckets = std::vector<double>;

const Buckets kFirstTokenBuckets = {0.001, 0.005, 0.01, 0.02,  0.04,  0.06,  0.08, 0.1,
                                    0.25,  0.5,   0.75, 1.0,   2.5,   5.0,   7.5,  10.0,
                                    20.0,  40.0,  80.0, 160.0, 640.0, 2560.0};
const Buckets kTokenGapBuckets = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                                  0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
const Buckets kRequestTimeBuckets = {0.3,  0.5,   0.8,   1.0,   1.5,   2.0,    2.5,
                                     5.0,  10.0,  15.0,  20.0,  30.0,  40.0,   50.0,
                                     60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
const Buckets kStepTokenBuckets = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
const Buckets kChoiceBuckets = {1, 2, 5, 10, 20};

// 1, 2, 5, 10, ... up to `limit`.
Buckets TokenBuckets(int limit) {
  Buckets buckets;
  for (int64_t power = 1; power <= limit; power *= 10) {
    for (const int64_t mantissa : {1, 2, 5}) {
      if (mantissa * power <= limit) buckets.push_back(static_cast<double>(mantissa * power));
    }
  }
  if (buckets.empty()) buckets.push_back(1);
  return buckets;
}

constexpr std::array kFinishReasons = {FinishReason::kStop, FinishReason::kLength,
                                       FinishReason::kAborted, FinishReason::kTimeout,
                                       FinishReason::kError};
constexpr std::array kMissReasons = {MissReason::kNeverSeen, MissReason::kDiffers,
                                     MissReason::kEvicted, MissReason::kNotRead};
// Where there are tiers.
constexpr std::array kTierMissReasons = {MissReason::kCheaperToCompute, MissReason::kTierFault,
                                         MissReason::kTierDown, MissReason::kOtherModel};

// The whole request's reason: the one of its choices that went furthest from a good end.
FinishReason ReasonOf(const RequestResult& result) {
  if (!result.status.ok()) return FinishReason::kError;
  if (!result.embedding.empty()) return FinishReason::kStop;
  if (result.choices.empty()) return FinishReason::kAborted;
  return std::ranges::max_element(result.choices, {}, &Choice::finish_reason)->finish_reason;
}

int LongestChoice(const RequestResult& result) {
  size_t longest = 0;
  for (const Choice& choice : result.choices) longest = std::max(longest, choice.tokens.size());
  return static_cast<int>(longest);
}

void Follow(Counter& counter, int64_t value) {
  // prometheus-cpp passes over what is negative.
  counter.Increment(static_cast<double>(value) - counter.Value());
}

// Families in the order they are exposed in. A family with one metric is handed out as the metric.
class Exposed {
 public:
  explicit Exposed(Labels labels) : labels_(std::move(labels)) {}

  template <typename Metric>
  prometheus::Family<Metric>& Add(const std::string& name, const std::string& help,
                                  const Labels& labels) {
    auto family = std::make_unique<prometheus::Family<Metric>>(name, help, labels);
    prometheus::Family<Metric>& reference = *family;
    families_.push_back(std::move(family));
    return reference;
  }
  template <typename Metric>
  prometheus::Family<Metric>& Add(const std::string& name, const std::string& help) {
    return Add<Metric>(name, help, labels_);
  }
  Counter& AddCounter(const std::string& name, const std::string& help) {
    return Add<Counter>(name, help).Add({});
  }
  Gauge& AddGauge(const std::string& name, const std::string& help) {
    return Add<Gauge>(name, help).Add({});
  }
  Histogram& AddHistogram(const std::string& name, const std::string& help,
                          const Buckets& buckets) {
    return Add<Histogram>(name, help).Add({}, buckets);
  }

  std::string Render() const {
    std::string text;
    text.reserve(64 << 10);
    for (const auto& family : families_) AppendExposition(family->Collect(), text);
    return text;
  }

 private:
  const Labels labels_;
  std::vector<std::unique_ptr<prometheus::Collectable>> families_;
};

Labels CommonLabels(const MetricsLabels& labels) {
  return {{"model_name", RepairUtf8(labels.model_name)}, {"engine", "0"}};
}

// vLLM gives every field of its cache configuration; these are those that mean something here.
Labels CacheConfigLabels(const MetricsLabels& labels) {
  return {{"block_size", std::to_string(labels.block_size)},
          {"cache_dtype", RepairUtf8(labels.cache_dtype)},
          {"enable_prefix_caching", "True"},
          {"engine", "0"},
          {"num_gpu_blocks", std::to_string(labels.num_blocks)}};
}

}  // namespace

// The members are made in the order of their declaration, which is the order of the exposition.
struct ServerMetrics::Families {
  explicit Families(const MetricsLabels& labels)
      : exposed(CommonLabels(labels)),
        token_buckets(TokenBuckets(labels.context_length)),
        tiers(CommonLabels(labels)) {
    exposed
        .Add<Gauge>("vllm:cache_config_info", "Information of the LLMEngine CacheConfig",
                    CacheConfigLabels(labels))
        .Add({})
        .Set(1);
    exposed.Add<Gauge>("quire_build_info", "The version that runs.")
        .Add({{"version", RepairUtf8(labels.version)}})
        .Set(1);
    for (const FinishReason reason : kFinishReasons) {
      success[static_cast<size_t>(reason)] =
          &successes.Add({{"finished_reason", std::string(NameOf(reason))}});
    }
  }

  std::mutex render_mutex;  // of what a scrape sets
  Exposed exposed;
  const Buckets token_buckets;
  TierMetrics tiers;
  // Of ended requests, by where they came from: memory, disk, remote.
  std::array<std::atomic<int64_t>, 3> cached_by_tier{};

  Gauge& running = exposed.AddGauge("vllm:num_requests_running",
                                    "Number of requests in model execution batches.");
  Gauge& waiting =
      exposed.AddGauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.");
  Gauge& kv_usage =
      exposed.AddGauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.");
  Counter& prefix_queries =
      exposed.AddCounter("vllm:prefix_cache_queries_total",
                         "Prefix cache queries, in terms of number of queried tokens.");
  Counter& prefix_hits = exposed.AddCounter(
      "vllm:prefix_cache_hits_total", "Prefix cache hits, in terms of number of cached tokens.");
  Counter& external_queries =
      exposed.AddCounter("vllm:external_prefix_cache_queries_total",
                         "Tokens of prompts that memory did not have and tiers were asked for.");
  Counter& external_hits = exposed.AddCounter("vllm:external_prefix_cache_hits_total",
                                              "Tokens of prompts that came from tiers.");
  Counter& drafts =
      exposed.AddCounter("vllm:spec_decode_num_drafts_total", "Number of spec decoding drafts.");
  Counter& draft_tokens =
      exposed.AddCounter("vllm:spec_decode_num_draft_tokens_total", "Number of draft tokens.");
  Counter& accepted_drafts = exposed.AddCounter("vllm:spec_decode_num_accepted_tokens_total",
                                                "Number of accepted tokens.");
  prometheus::Family<Counter>& accepted_at = exposed.Add<Counter>(
      "vllm:spec_decode_num_accepted_tokens_per_pos_total", "Accepted tokens per draft position.");
  Counter& preemptions = exposed.AddCounter("vllm:num_preemptions_total",
                                            "Cumulative number of preemption from the engine.");
  Counter& prompt_tokens =
      exposed.AddCounter("vllm:prompt_tokens_total", "Number of prefill tokens processed.");
  prometheus::Family<Counter>& by_source = exposed.Add<Counter>(
      "vllm:prompt_tokens_by_source_total", "Number of prompt tokens by source.");
  Counter& from_compute = by_source.Add({{"source", "local_compute"}});
  Counter& from_cache = by_source.Add({{"source", "local_cache_hit"}});
  Counter& from_tiers = by_source.Add({{"source", "external_kv_transfer"}});
  Counter& cached_tokens = exposed.AddCounter("vllm:prompt_tokens_cached_total",
                                              "Number of cached prompt tokens (local + external).");
  Counter& generation_tokens =
      exposed.AddCounter("vllm:generation_tokens_total", "Number of generation tokens processed.");
  prometheus::Family<Counter>& successes = exposed.Add<Counter>(
      "vllm:request_success_total", "Count of successfully processed requests.");
  std::array<Counter*, kFinishReasons.size()> success{};  // [FinishReason]

  Histogram& request_prompt_tokens = exposed.AddHistogram(
      "vllm:request_prompt_tokens", "Number of prefill tokens processed.", token_buckets);
  Histogram& request_generation_tokens = exposed.AddHistogram(
      "vllm:request_generation_tokens", "Number of generation tokens processed.", token_buckets);
  Histogram& step_tokens =
      exposed.AddHistogram("vllm:iteration_tokens_total",
                           "Histogram of number of tokens per engine_step.", kStepTokenBuckets);
  Histogram& request_longest = exposed.AddHistogram(
      "vllm:request_max_num_generation_tokens",
      "Histogram of maximum number of requested generation tokens.", token_buckets);
  Histogram& params_n = exposed.AddHistogram(
      "vllm:request_params_n", "Histogram of the n request parameter.", kChoiceBuckets);
  Histogram& params_max_tokens =
      exposed.AddHistogram("vllm:request_params_max_tokens",
                           "Histogram of the max_tokens request parameter.", token_buckets);
  Histogram& computed_prompt_tokens = exposed.AddHistogram(
      "vllm:request_prefill_kv_computed_tokens",
      "Histogram of new KV tokens computed during prefill (excluding cached tokens).",
      token_buckets);

  Histogram& first_token =
      exposed.AddHistogram("vllm:time_to_first_token_seconds",
                           "Histogram of time to first token in seconds.", kFirstTokenBuckets);
  Histogram& token_gap =
      exposed.AddHistogram("vllm:inter_token_latency_seconds",
                           "Histogram of inter-token latency in seconds.", kTokenGapBuckets);
  Histogram& time_per_token = exposed.AddHistogram(
      "vllm:request_time_per_output_token_seconds",
      "Histogram of time_per_output_token_seconds per request.", kTokenGapBuckets);
  Histogram& end_to_end =
      exposed.AddHistogram("vllm:e2e_request_latency_seconds",
                           "Histogram of e2e request latency in seconds.", kRequestTimeBuckets);
  Histogram& queue_time = exposed.AddHistogram(
      "vllm:request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.",
      kRequestTimeBuckets);
  Histogram& inference_time = exposed.AddHistogram(
      "vllm:request_inference_time_seconds",
      "Histogram of time spent in RUNNING phase for request.", kRequestTimeBuckets);
  Histogram& prefill_time = exposed.AddHistogram(
      "vllm:request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.",
      kRequestTimeBuckets);
  Histogram& decode_time = exposed.AddHistogram(
      "vllm:request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.",
      kRequestTimeBuckets);

  Gauge& kv_pool_bytes = exposed.AddGauge("quire_kv_pool_bytes", "Bytes of all KV blocks.");
  Gauge& kv_used_bytes =
      exposed.AddGauge("quire_kv_used_bytes", "Bytes of KV blocks that sequences or pins hold.");
  Gauge& kv_cached_bytes = exposed.AddGauge(
      "quire_kv_cached_bytes", "Bytes of KV blocks that nobody holds and a prefix finds.");
  Gauge& kv_free_bytes = exposed.AddGauge("quire_kv_free_bytes", "Bytes of free KV blocks.");
  Gauge& kv_pinned_bytes =
      exposed.AddGauge("quire_kv_pinned_bytes", "Bytes of KV blocks that pins hold.");
  Gauge& kv_committed_bytes = exposed.AddGauge("quire_kv_committed_bytes",
                                               "Bytes of the KV pool that the system has given.");
  prometheus::Family<Counter>& evictions = exposed.Add<Counter>(
      "quire_kv_evicted_blocks_total", "Cached KV blocks that gave way, by reason.");
  Counter& evicted_for_room = evictions.Add({{"reason", "allocation"}});
  Counter& evicted_by_copy = evictions.Add({{"reason", "copy"}});
  Counter& evicted_on_demand = evictions.Add({{"reason", "dropped"}});
  Counter& kv_filled_blocks =
      exposed.AddCounter("quire_kv_filled_blocks_total", "KV blocks filled and made findable.");
  Counter& kv_shared_blocks =
      exposed.AddCounter("quire_kv_shared_blocks_total", "KV blocks taken over as they are.");
  Counter& kv_copied_blocks = exposed.AddCounter(
      "quire_kv_copied_blocks_total", "KV blocks copied for partial hits and before a write.");
  Counter& kv_partial_hits = exposed.AddCounter("quire_kv_partial_hits_total",
                                                "Prefix hits that ended inside a KV block.");
  prometheus::Family<Counter>& misses = exposed.Add<Counter>(
      "quire_prefix_misses_total", "Requests whose prompt was not found whole, by reason.");

  Counter& steps = exposed.AddCounter("quire_steps_total", "Steps of the engine.");
  Counter& computed_tokens =
      exposed.AddCounter("quire_computed_tokens_total", "Tokens fed through the model.");
  Counter& sampled_tokens = exposed.AddCounter(
      "quire_sampled_tokens_total", "Tokens sampled, those of requests under way included.");
  Counter& admissions =
      exposed.AddCounter("quire_admissions_total", "Sequences that began or went on to run.");
  Counter& shared_waits = exposed.AddCounter(
      "quire_shared_waits_total",
      "Steps that a sequence waited for another one to compute the prefix that both have.");
  Counter& expired =
      exposed.AddCounter("quire_expired_sequences_total", "Sequences whose deadline passed.");

  prometheus::Family<Counter>& refusals = exposed.Add<Counter>(
      "quire_refused_requests_total", "Requests answered with an error, by HTTP status.");
  Gauge& connections = exposed.AddGauge("quire_http_connections", "Connections that are open.");
  Counter& accepted =
      exposed.AddCounter("quire_http_connections_total", "Connections that were accepted.");
  Counter& http_requests =
      exposed.AddCounter("quire_http_requests_total", "HTTP requests that were read.");

  Gauge& resident_bytes =
      exposed.AddGauge("process_resident_memory_bytes", "Resident memory size in bytes.");
  Counter& cpu_seconds = exposed.AddCounter("process_cpu_seconds_total",
                                            "Total user and system CPU time spent in seconds.");
  Gauge& start_time = exposed.AddGauge("process_start_time_seconds",
                                       "Start time of the process since unix epoch in seconds.");

  void TakeEngine(const EngineStatus& engine);
  void TakeHttp(const HttpCounters& http);
  void TakeProcess();
};

void ServerMetrics::Families::TakeEngine(const EngineStatus& engine) {
  running.Set(engine.num_running);
  waiting.Set(engine.num_waiting);
  const KvUsage& kv = engine.kv;
  const auto share = static_cast<double>(kv.used_blocks) /
                     static_cast<double>(std::max<int64_t>(kv.total_blocks, 1));
  kv_usage.Set(share);
  const auto block_bytes = static_cast<double>(kv.block_bytes);
  kv_pool_bytes.Set(static_cast<double>(kv.total_blocks) * block_bytes);
  kv_used_bytes.Set(static_cast<double>(kv.used_blocks) * block_bytes);
  kv_cached_bytes.Set(static_cast<double>(kv.cached_blocks) * block_bytes);
  kv_free_bytes.Set(static_cast<double>(kv.free_blocks) * block_bytes);
  kv_pinned_bytes.Set(static_cast<double>(engine.num_pinned_blocks) * block_bytes);
  kv_committed_bytes.Set(static_cast<double>(kv.committed_bytes));

  const KvCounters& cache = engine.kv_counters;
  Follow(evicted_for_room, cache.blocks_evicted);
  Follow(evicted_by_copy, cache.blocks_taken_over);
  Follow(evicted_on_demand, cache.blocks_dropped);
  Follow(kv_filled_blocks, cache.blocks_committed);
  Follow(kv_shared_blocks, cache.blocks_shared);
  Follow(kv_copied_blocks, cache.blocks_copied);
  Follow(kv_partial_hits, cache.partial_hits);

  Follow(steps, engine.counters.steps);
  Follow(computed_tokens, engine.counters.computed_tokens);
  Follow(sampled_tokens, engine.counters.generated_tokens);
  Follow(prefix_queries, engine.counters.prefix_cache_queries);
  Follow(prefix_hits, engine.counters.prefix_cache_hits);
  const DraftCounters& drafted = engine.counters.drafts;
  Follow(drafts, drafted.drafts);
  Follow(draft_tokens, drafted.draft_tokens);
  Follow(accepted_drafts, drafted.accepted);
  // Places that no draft has reached are not told.
  for (size_t place = 0; place < drafted.accepted_at.size(); ++place) {
    if (place > 0 && drafted.accepted_at[place] == 0) break;
    Follow(accepted_at.Add({{"position", std::to_string(place)}}), drafted.accepted_at[place]);
  }
  Follow(external_queries, engine.counters.tier_queries);
  const auto& tier_hits = engine.counters.tier_hits;
  Follow(external_hits, std::accumulate(tier_hits.begin(), tier_hits.end(), int64_t{0}));
  const auto follow_misses = [&](std::span<const MissReason> reasons) {
    for (const MissReason reason : reasons) {
      Follow(misses.Add({{"reason", std::string(NameOf(reason))}}),
             engine.counters.misses[static_cast<size_t>(reason)]);
    }
  };
  follow_misses(kMissReasons);
  if (!engine.tiers.empty()) follow_misses(kTierMissReasons);
  Follow(preemptions, engine.batch_counters.preemptions);
  Follow(admissions, engine.batch_counters.admissions);
  Follow(shared_waits, engine.batch_counters.shared_waits);
  Follow(expired, engine.batch_counters.expired);
}

void ServerMetrics::Families::TakeHttp(const HttpCounters& http) {
  connections.Set(static_cast<double>(http.connections_open));
  Follow(accepted, http.connections_accepted);
  Follow(http_requests, http.requests);
}

void ServerMetrics::Families::TakeProcess() {
  const ProcessUsage usage = ReadProcessUsage();
  resident_bytes.Set(static_cast<double>(usage.resident_bytes));
  cpu_seconds.Increment(usage.cpu_seconds - cpu_seconds.Value());
  start_time.Set(usage.start_time);
}

ServerMetrics::ServerMetrics(const MetricsLabels& labels)
    : families_(std::make_unique<Families>(labels)) {}
ServerMetrics::~ServerMetrics() = default;

void ServerMetrics::ObserveFirstToken(double ttft_ms) {
  families_->first_token.Observe(ttft_ms / 1000);
}

void ServerMetrics::ObserveTokenGap(double gap_ms) { families_->token_gap.Observe(gap_ms / 1000); }

void ServerMetrics::ObserveStep(int num_tokens) { families_->step_tokens.Observe(num_tokens); }

void ServerMetrics::ObserveEnd(const RequestResult& result, const Request& request) {
  Families& to = *families_;
  const FinishReason reason = ReasonOf(result);
  to.success[static_cast<size_t>(reason)]->Increment();
  to.end_to_end.Observe(result.total_ms / 1000);
  to.params_n.Observe(request.num_choices);
  if (request.max_tokens > 0) to.params_max_tokens.Observe(request.max_tokens);
  to.queue_time.Observe(result.queue_ms / 1000);
  const bool was_computed = result.first_token_ms > 0 || reason <= FinishReason::kLength;
  if (!was_computed) return;

  const int computed = result.prompt_tokens - result.cached_tokens;
  to.prompt_tokens.Increment(result.prompt_tokens);
  to.from_compute.Increment(computed);
  const CachedTokens cached = PartedCachedTokens(result);
  to.from_cache.Increment(cached.memory);
  to.from_tiers.Increment(cached.disk + cached.remote);
  to.cached_by_tier[0] += cached.memory;
  to.cached_by_tier[1] += cached.disk;
  to.cached_by_tier[2] += cached.remote;
  to.cached_tokens.Increment(result.cached_tokens);
  to.generation_tokens.Increment(result.completion_tokens());
  to.request_prompt_tokens.Observe(result.prompt_tokens);
  to.computed_prompt_tokens.Observe(computed);

  const double prefill_end_ms = result.first_token_ms > 0 ? result.first_token_ms : result.total_ms;
  to.prefill_time.Observe((prefill_end_ms - result.queue_ms) / 1000);
  to.inference_time.Observe((prefill_end_ms - result.queue_ms + result.decode_ms) / 1000);
  if (request.embedding) return;
  const int longest = LongestChoice(result);
  to.decode_time.Observe(result.decode_ms / 1000);
  to.request_generation_tokens.Observe(result.completion_tokens());
  to.request_longest.Observe(longest);
  if (longest > 1) to.time_per_token.Observe(result.decode_ms / 1000 / (longest - 1));
}

void ServerMetrics::CountRefusal(int status) {
  QUIRE_CHECK(status >= 400 && status < 600, "status {} refuses nothing", status);
  families_->refusals.Add({{"status", std::to_string(status)}}).Increment();
}

std::string ServerMetrics::Render(const EngineStatus& engine, const HttpCounters& http) const {
  const std::lock_guard lock(families_->render_mutex);
  families_->TakeEngine(engine);
  families_->TakeHttp(http);
  families_->TakeProcess();
  std::string text = families_->exposed.Render();
  const auto& cached = families_->cached_by_tier;
  families_->tiers.Append(engine, {cached[0], cached[1], cached[2]}, text);
  return text;
}

}  // namespace quire
