#include "server/server.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "kv/layout.h"
#include "server/metrics/server_metrics.h"
#include "server/routes/completion_request.h"
#include "server/routes/routes.h"
#include "server/text_pool.h"

namespace quire {
namespace {

// What is aborted at the drain's deadline has this long to tell its client.
constexpr std::chrono::milliseconds kLastWords{2000};

// Answers while there is no model yet, and when no more requests are taken.
void AnswerWithout(const HttpRequest& request, HttpExchange& exchange, bool is_draining) {
  if (request.path == "/live") return exchange.Respond({.body = R"({"status":"ok"})"});
  const ApiError loading{.status = 503,
                         .message = "the model is being loaded; try again in a moment",
                         .type = "server_error",
                         .code = "model_loading"};
  exchange.Respond({.status = 503,
                    .body = ToJson(is_draining ? ShuttingDown() : loading),
                    .headers = {{"Retry-After", "1"}}});
}

}  // namespace

struct Server::Parts {
  enum class State : uint8_t { kLoading, kServing, kDraining };

  ServerOptions options;
  ServerLog log;
  std::unique_ptr<HttpServer> http;
  std::atomic<State> state = State::kLoading;
  LiveHub live;  // told by the engine, also before Serve

  // From Serve on. Each uses those above it.
  std::unique_ptr<ServerMetrics> metrics;
  std::unique_ptr<EngineThread> engine;
  std::unique_ptr<TextPool> text;
  std::optional<ServerContext> context;
  std::unique_ptr<Router> router;

  std::mutex mutex;  // of the next two
  std::condition_variable wake;
  bool is_drained = false;

  explicit Parts(ServerOptions given) : options(std::move(given)), log(options.log) {}
  // First whoever calls others, so that nobody is called any more when he goes.
  ~Parts() {
    if (http) http->Stop();
    if (engine) engine->Stop();
    text.reset();
  }

  void Handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
    const State now = state;
    if (now == State::kServing) return router->Handle(std::move(request), std::move(exchange));
    AnswerWithout(request, *exchange, now == State::kDraining);
  }

  bool WaitUntilDrained(std::chrono::milliseconds deadline) {
    std::unique_lock lock(mutex);
    return wake.wait_for(lock, deadline, [this] { return is_drained; });
  }
};

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::Listen(ServerOptions options) {
  auto parts = std::make_unique<Parts>(std::move(options));
  QUIRE_ASSIGN_OR_RETURN(parts->http, HttpServer::Listen(parts->options.http));
  parts->http->Start(
      [parts = parts.get()](HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
        parts->Handle(std::move(request), std::move(exchange));
      });
  return std::unique_ptr<Server>(new Server(std::move(parts)));
}

void Server::Serve(std::unique_ptr<Engine> engine, ServedModel model) {
  Parts& parts = *parts_;
  QUIRE_CHECK(!parts.engine, "a server serves one engine");
  const KvLayout& layout = engine->cache().layout();
  parts.metrics = std::make_unique<ServerMetrics>(
      MetricsLabels{.model_name = model.id,
                    .block_size = kBlockSlots,
                    .num_blocks = engine->cache().usage().total_blocks,
                    .cache_dtype = std::string(NameOf(layout.type)),
                    .context_length = engine->context_length(),
                    .version = QUIRE_VERSION});
  engine->SetStepObserver([metrics = parts.metrics.get()](const StepReport& report) {
    int num_rows = 0;
    for (const StepItem& item : report.items) num_rows += item.num_tokens;
    metrics->ObserveStep(num_rows);
  });
  parts.options.limits.body.vocab_size = engine->vocab_size();
  parts.options.limits.body.max_body_bytes = parts.options.http.max_body_bytes;
  parts.engine = std::make_unique<EngineThread>(std::move(engine));
  parts.text = std::make_unique<TextPool>(parts.options.text_threads);
  HttpServer& http = *parts.http;
  const auto post_after = [&http](std::chrono::milliseconds delay, std::function<void()> task) {
    http.PostAfter(delay, std::move(task));
  };
  parts.live.Open({.text = parts.text.get(), .post_after = post_after});
  parts.context.emplace(
      ServerContext{.engine = *parts.engine,
                    .network = http.network(),
                    .text = *parts.text,
                    .metrics = *parts.metrics,
                    .live = parts.live,
                    .tenants = parts.options.tenants,
                    .log = parts.log,
                    .model = std::move(model),
                    .limits = parts.options.limits,
                    .post_after = post_after,
                    .http_counters = [&http] { return http.counters(); },
                    .is_ready = [&parts] { return parts.state == Parts::State::kServing; }});
  ServerContext& context = *parts.context;
  parts.router = std::make_unique<Router>(context, parts.options.router);
  AddCompletionRoutes(*parts.router, context);
  AddRenderRoutes(*parts.router, context);
  AddEmbeddingRoutes(*parts.router, context);
  AddModelRoutes(*parts.router, context);
  AddTokenRoutes(*parts.router, context);
  AddHealthRoutes(*parts.router, context);
  AddQuireRoutes(*parts.router, context);
  AddPinRoutes(*parts.router, context);
  AddLiveRoutes(*parts.router, context);
  AddGraphRoutes(*parts.router, context);
  parts.engine->Start();
  // A drain that has begun meanwhile stays one.
  auto loading = Parts::State::kLoading;
  parts.state.compare_exchange_strong(loading, Parts::State::kServing);
}

bool Server::Drain(std::chrono::milliseconds deadline) {
  Parts& parts = *parts_;
  parts.state = Parts::State::kDraining;
  parts.live.Close();  // they would never end by themselves
  parts.http->Drain([&parts] {
    // Told under the lock: the waiter may go as soon as it has it.
    const std::scoped_lock lock(parts.mutex);
    parts.is_drained = true;
    parts.wake.notify_all();
  });
  if (parts.WaitUntilDrained(deadline)) return true;
  if (parts.engine) parts.engine->Stop();
  parts.WaitUntilDrained(kLastWords);
  return false;
}

std::string Server::url() const { return parts_->http->url(); }

int Server::port() const { return parts_->http->port(); }

TraceSink& Server::live() { return parts_->live; }

ServerLog& Server::log() { return parts_->log; }

}  // namespace quire
