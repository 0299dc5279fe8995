// What one look at a running server has found: its answers to GET /quire/cache and GET /metrics as
// plain data.
//
// Counts are from the server's start. The two answers come one after the other, so figures of one
// may be a step ahead of figures of the other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/top/latency_histogram.h"

namespace quire {

// What only grows while the server lives.
struct ServerCounts {
  int64_t output_tokens = 0;  // sampled
  int64_t prompt_tokens = 0;  // of prompts that have been computed
  int64_t cached_tokens = 0;  // of those: found, in memory or in a tier
  int64_t disk_tokens = 0;    // of those: loaded from a disk
  int64_t remote_tokens = 0;  // and from a remote server
  int64_t looked_up_tokens = 0;
  int64_t found_tokens = 0;
  int64_t computed_tokens = 0;  // rows of the forward pass
  int64_t steps = 0;
  int64_t requests_ended = 0;
  int64_t requests_refused = 0;
  int64_t preemptions = 0;
  int64_t evicted_blocks = 0;
  int64_t draft_tokens = 0;
  int64_t accepted_tokens = 0;
  LatencyHistogram ttft{};
  LatencyHistogram itl{};

  // What has come since. Nothing where a count fell: the server is another process than before.
  std::optional<ServerCounts> Since(const ServerCounts& earlier) const;
};

struct TierLook {
  std::string tier{};  // "disk", "remote"
  std::string place{};
  bool is_up = false;
  std::string reason{};  // why it is not
  std::optional<int64_t> records{};
  std::optional<int64_t> bytes{};
  std::optional<int64_t> max_bytes{};
};

struct ServerLook {
  double at_s = 0;          // when it was taken, on any clock that never goes back
  double start_time_s = 0;  // of the server, Unix time; 0 = not told
  std::string model{};
  std::string version{};
  int64_t running = 0;  // requests that have had a step
  int64_t waiting = 0;  // requests that have not
  int64_t block_tokens = 0;
  int64_t block_bytes = 0;
  // used + cached + free = total; pinned ones are among the used.
  int64_t total_blocks = 0;
  int64_t used_blocks = 0;
  int64_t cached_blocks = 0;
  int64_t free_blocks = 0;
  int64_t pinned_blocks = 0;
  std::vector<TierLook> tiers{};
  ServerCounts counts{};
};

// kCorrupt, naming the member or the line, where the answers are not what a Quire server says.
Result<ServerLook> ReadLook(std::string_view cache_json, std::string_view metrics_text);

// The message of an error body in OpenAI's form; empty where there is none.
std::string ErrorMessageIn(std::string_view body);

}  // namespace quire
