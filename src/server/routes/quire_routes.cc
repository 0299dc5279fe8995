#include "server/routes/quire_routes.h"

#include <utility>

#include "server/routes/cache_body.h"
#include "server/routes/completion_request.h"
#include "server/routes/openapi_json.h"
#include "server/routes/routes.h"

namespace quire {
namespace {

// Text pool: what a tier is worth is searched for.
void AnswerCache(ServerContext& context, RouteCall call) {
  const EngineThread& engine = context.engine;
  const auto cost = KvCost::Make(engine.model().config(), KvElementOf(engine.layout().type));
  if (!cost.ok()) return RespondError(context, call, ApiErrorOf(cost.error()));
  call.exchange->Respond({.body = CacheBody(engine.status(), *cost, engine.context_length())});
}

}  // namespace

void AddCacheRoute(Router& router, ServerContext& context) {
  router.Add({.method = "GET",
              .path = "/quire/cache",
              .handler =
                  [&context](RouteCall call) {
                    context.text.Post([&context, call = std::move(call)]() mutable {
                      AnswerCache(context, std::move(call));
                    });
                  },
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
