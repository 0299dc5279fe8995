#include "server/routes/completion_job.h"
#include "server/routes/routes.h"
#include "server/tier_watch.h"

namespace quire {

void AddCompletionRoutes(Router& router, ServerContext& context) {
  const auto board = std::make_shared<CompletionBoard>(context);
  // The engine's thread has one hook, for all that look at it after a step.
  const auto tiers = std::make_shared<TierWatch>(context.log, context.engine.status().tiers);
  context.engine.SetAfterStep([board, tiers, &context] {
    board->AfterStep();
    const auto now = TierWatch::Clock::now();
    if (tiers->IsDue(now)) tiers->Look(context.engine.status().tiers, now);
  });
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
