// What the routes share. Everything outlives them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine_thread.h"
#include "server/live/live_hub.h"
#include "server/metrics/server_metrics.h"
#include "server/openai/request.h"
#include "server/server_log.h"
#include "server/task_queue.h"
#include "server/tenants.h"

namespace quire {

struct ServedModel {
  std::string id{};                    // what answers say
  std::vector<std::string> aliases{};  // further names that clients may use
  std::string file{};                  // shown to admins
  int64_t created = 0;                 // Unix time in seconds

  bool IsNamed(std::string_view name) const;
};

struct ServerLimits {
  OpenAiLimits body{};            // what one body may ask for
  int max_queued = 0;             // requests that wait; beyond it 429; 0 = no limit
  double request_timeout_ms = 0;  // from arrival to the end; 0 = none
  double keep_alive_comment_ms =
      15'000;  // between two comments of a stream that has nothing to say
  std::optional<int> default_max_tokens{};
};

struct ServerContext {
  EngineThread& engine;
  TaskQueue& network;
  TaskQueue& text;
  ServerMetrics& metrics;
  LiveHub& live;
  const Tenants& tenants;
  ServerLog& log;
  ServedModel model{};
  ServerLimits limits{};
  // Runs a task on the network thread later (HttpServer::PostAfter). Empty: nothing that waits for
  // time to pass happens, such as keep-alive comments.
  std::function<void(std::chrono::milliseconds, std::function<void()>)> post_after{};
  // Of the server's connections, for the metrics; may be empty.
  std::function<HttpCounters()> http_counters{};
  // Whether further requests are taken; empty = yes. False while the server drains.
  std::function<bool()> is_ready{};
};

// What a route knows of the one who asks.
struct Caller {
  const Tenant* tenant = nullptr;  // never null in a route
  std::string request_id{};        // X-Request-Id, or one made here; goes back and into the log
};

// Runs a task that reads a body of so many bytes on the text pool.
void PostReading(ServerContext& context, size_t body_bytes, std::function<void()> task);

// The salt of a tenant's prefixes, with the one that the request names.
std::string SaltOf(const Tenant& tenant, std::string_view request_salt);

}  // namespace quire
