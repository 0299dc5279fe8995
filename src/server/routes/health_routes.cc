// Whether the server lives and may be asked, what it is, and what it has counted.
#include <fmt/format.h>

#include "server/http/http_server.h"
#include "server/routes/routes.h"

namespace quire {
namespace {

constexpr std::string_view kExpositionType = "text/plain; version=0.0.4; charset=utf-8";

void AnswerHealth(const ServerContext& context, const RouteCall& call) {
  if (!context.is_ready || context.is_ready()) {
    return call.exchange->Respond({.body = R"({"status":"ok"})"});
  }
  call.exchange->Respond(
      {.status = 503, .body = R"({"status":"draining"})", .headers = {{"Retry-After", "1"}}});
}

}  // namespace

void AddHealthRoutes(Router& router, ServerContext& context) {
  router.Add({.method = "GET",
              .path = "/health",
              .handler = [&context](RouteCall call) { AnswerHealth(context, call); },
              .needs_key = false});
  router.Add(
      {.method = "GET",
       .path = "/live",
       .handler = [](RouteCall call) { call.exchange->Respond({.body = R"({"status":"ok"})"}); },
       .needs_key = false});
  router.Add({.method = "GET",
              .path = "/version",
              .handler =
                  [](RouteCall call) {
                    call.exchange->Respond({.body = R"({"version":")" QUIRE_VERSION R"("})"});
                  },
              .needs_key = false});
  // It counts for all tenants together.
  router.Add({.method = "GET",
              .path = "/metrics",
              .handler =
                  [&context](RouteCall call) {
                    const HttpCounters http =
                        context.http_counters ? context.http_counters() : HttpCounters{};
                    call.exchange->Respond(
                        {.content_type = std::string(kExpositionType),
                         .body = context.metrics.Render(context.engine.status(), http)});
                  },
              .needs_admin = true});
}

}  // namespace quire
