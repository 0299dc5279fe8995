// What the server counts and measures, in Prometheus' text form.
//
// Names, labels and buckets are vLLM's, so that dashboards and routers made for it work; what is
// Quire's own begins with quire_. docs/metrics.md lists them all. prometheus-cpp keeps the numbers.
//
// Invariants:
//   1. A counter never falls. Those that mirror the engine's take over what it says at a scrape.
//   2. What clients are told in `usage` sums up to vllm:prompt_tokens_total and
//      vllm:generation_tokens_total: both count a request when it ends. A request that ended before
//      its prompt was computed adds to neither.
// Thread-safe; observing costs well under a microsecond.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/engine_thread.h"
#include "server/http/http_server.h"

namespace quire {

struct MetricsLabels {
  std::string model_name{};
  // For vllm:cache_config_info.
  int block_size = 0;
  int64_t num_blocks = 0;
  std::string cache_dtype{};
  int context_length = 0;  // the buckets for numbers of tokens end with it
  std::string version{};   // for quire_build_info
};

class ServerMetrics {
 public:
  explicit ServerMetrics(const MetricsLabels& labels);
  ~ServerMetrics();

  // A request's first token came this long after it arrived.
  void ObserveFirstToken(double ttft_ms);
  // A further one, this long after the one before.
  void ObserveTokenGap(double gap_ms);
  // A request has ended, however it did; its prompt and tokens are counted here, so that sums of
  // `usage` equal the counters.
  void ObserveEnd(const RequestResult& result, const Request& request);
  // A step has fed so many tokens.
  void ObserveStep(int num_tokens);
  // A request was refused: the HTTP status of the answer, 400 to 599.
  void CountRefusal(int status);

  // The exposition text, version 0.0.4.
  std::string Render(const EngineStatus& engine, const HttpCounters& http) const;

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace quire
