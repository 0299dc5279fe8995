#include "server/routes/completion_job.h"
#include "server/routes/routes.h"

namespace quire {

void AddCompletionRoutes(Router& router, ServerContext& context) {
  const auto board = std::make_shared<CompletionBoard>(context);
  context.engine.SetAfterStep([board] { board->AfterStep(); });
  for (const auto& [path, endpoint] :
       {std::pair{"/v1/chat/completions", OpenAiEndpoint::kChatCompletions},
        std::pair{"/v1/completions", OpenAiEndpoint::kCompletions}}) {
    router.Add(
        {.method = "POST", .path = path, .handler = [board, &context, endpoint](RouteCall call) {
           std::make_shared<CompletionJob>(context, *board, endpoint, std::move(call))->Start();
         }});
  }
}

}  // namespace quire
