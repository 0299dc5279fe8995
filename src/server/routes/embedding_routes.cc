#include "server/routes/embedding_job.h"
#include "server/routes/routes.h"

namespace quire {

void AddEmbeddingRoutes(Router& router, ServerContext& context) {
  router.Add({.method = "POST", .path = "/v1/embeddings", .handler = [&context](RouteCall call) {
                std::make_shared<EmbeddingJob>(context, std::move(call))->Start();
              }});
}

}  // namespace quire
