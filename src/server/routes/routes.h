// The routes, a file each. Every function adds those of one concern.
#pragma once

#include "server/routes/router.h"

namespace quire {

// /v1/chat/completions, /v1/completions
void AddCompletionRoutes(Router& router, ServerContext& context);
// /v1/chat/completions/render, /v1/completions/render
void AddRenderRoutes(Router& router, ServerContext& context);
// /v1/embeddings
void AddEmbeddingRoutes(Router& router, ServerContext& context);
// /v1/models, /v1/models/{id}
void AddModelRoutes(Router& router, ServerContext& context);
// /tokenize, /detokenize
void AddTokenRoutes(Router& router, ServerContext& context);
// /health, /live, /version, /metrics
void AddHealthRoutes(Router& router, ServerContext& context);
// /quire/cache, /quire/plan, /quire/explain, /openapi.json
void AddQuireRoutes(Router& router, ServerContext& context);
// /, /quire/events, /quire/blocks, /quire/tree
void AddLiveRoutes(Router& router, ServerContext& context);
// /quire/model, /quire/growth, /quire/roofline
void AddGraphRoutes(Router& router, ServerContext& context);
// /quire/pins
void AddPinRoutes(Router& router, ServerContext& context);

}  // namespace quire
