// The parts of AddQuireRoutes (routes/routes.h).
#pragma once

#include "server/routes/router.h"

namespace quire {

// The version of the bodies under /quire. Members may be added within one; none changes its meaning
// or goes.
inline constexpr int kQuireVersion = 1;

// GET /quire/cache: what the KV cache holds and has done, over all tenants.
void AddCacheRoute(Router& router, ServerContext& context);
// GET /quire/plan: what memory goes where, and what fits.
void AddPlanRoute(Router& router, ServerContext& context);
// POST /quire/explain: how much of a prompt is cached, and why not more. Nothing is computed.
void AddExplainRoute(Router& router, ServerContext& context);

}  // namespace quire
