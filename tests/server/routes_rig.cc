#include "server/routes_rig.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "server/routes/routes.h"
#include "server/support/fake_exchange.h"
#include "support/rigs.h"

namespace quire::testing {
namespace {

constexpr const char* kTemplate =
    "{% for m in messages %}{{ '<user>' if m.role == 'user' else '<bot>' }}{{ m.content }}"
    "{{ '<end>' }}{% endfor %}{% if add_generation_prompt %}{{ '<bot>' }}{% endif %}";

std::unique_ptr<Engine> MakeEngine(const std::filesystem::path& path, int num_blocks,
                                   TraceSink* trace) {
  const std::vector<float> says_a = {0, 0, 0, 9, 0, 0};
  WriteMarkovModel(path, {{"<end>", true}, {"<user>", true}, {"<bot>", true}, {"a"}, {"b"}, {"c"}},
                   std::vector<std::vector<float>>(6, says_a), kTemplate);
  // One layer of 6 dimensions, keys and values in 16 bits: far below a KiB a block, rounded up.
  EngineOptions options{.runner = {.num_threads = 1, .context_length = 256}};
  auto sized = Engine::Create(path, options);
  QUIRE_CHECK(sized.ok(), "{}", sized.error().message);
  options.runner.kv_bytes = (*sized)->cache().layout().block_bytes * num_blocks;
  sized->reset();
  options.trace = trace;
  auto engine = Engine::Create(path, options);
  QUIRE_CHECK(engine.ok(), "{}", engine.error().message);
  return std::move(engine).value();
}

}  // namespace

std::string RigAnswer::Header(std::string_view name) const {
  const auto named = [&](const auto& header) { return header.first == name; };
  EXPECT_LE(std::ranges::count_if(headers, named), 1) << name;
  const std::string* value = FindHeader(headers, name);
  return value == nullptr ? "" : *value;
}

RoutesRig::RoutesRig(RoutesRigOptions options)
    : options_(std::move(options)), log_({.level = LogLevel::kOff}) {
  metrics_ = std::make_unique<ServerMetrics>(MetricsLabels{.model_name = "rig"});
  auto engine = MakeEngine(directory_.path() / "rig.gguf", options_.num_blocks, &live_);
  engine_ = std::make_unique<EngineThread>(std::move(engine));
  live_.Open({.text = &inline_});
  context_ = std::make_unique<ServerContext>(ServerContext{
      .engine = *engine_,
      .network = inline_,
      .text = inline_,
      .metrics = *metrics_,
      .live = live_,
      .tenants = options_.tenants,
      .log = log_,
      .model = {.id = "rig", .aliases = {"gpt-4o", "org/rig"}, .file = "rig.gguf", .created = 7},
      .limits = {.body = {.vocab_size = engine_->vocab_size()}}});
  router_ = std::make_unique<Router>(*context_, options_.router);
  AddCompletionRoutes(*router_, *context_);
  AddRenderRoutes(*router_, *context_);
  AddEmbeddingRoutes(*router_, *context_);
  AddModelRoutes(*router_, *context_);
  AddTokenRoutes(*router_, *context_);
  AddHealthRoutes(*router_, *context_);
  AddQuireRoutes(*router_, *context_);
  AddPinRoutes(*router_, *context_);
  AddLiveRoutes(*router_, *context_);
  AddGraphRoutes(*router_, *context_);
  engine_->Start();
}

RoutesRig::~RoutesRig() { engine_->Stop(); }

RigAnswer RoutesRig::Ask(HttpRequest request) {
  auto [exchange, client] = MakeFakeExchange();
  router_->Handle(std::move(request), std::move(exchange));
  EXPECT_TRUE(client->WaitForEnd());
  EXPECT_FALSE(client->was_given_up());
  return {
      .status = client->status(), .body = client->body(), .headers = client->response().headers};
}

RigAnswer RoutesRig::Ask(std::string_view method, std::string_view path, std::string_view body,
                         std::string_view key) {
  HttpRequest request{
      .method = std::string(method), .path = std::string(path), .body = std::string(body)};
  if (!key.empty()) request.headers = {{"Authorization", "Bearer " + std::string(key)}};
  return Ask(std::move(request));
}

}  // namespace quire::testing
