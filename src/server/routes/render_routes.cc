#include "server/openai/render.h"

#include "server/routes/completion_request.h"
#include "server/routes/routes.h"

namespace quire {
namespace {

void Render(ServerContext& context, RouteCall& call, OpenAiEndpoint endpoint) {
  auto prepared = PrepareCompletion(context, call, endpoint);
  if (const auto* error = std::get_if<ApiError>(&prepared)) {
    return RespondError(context, call, *error);
  }
  const auto& ready = std::get<PreparedCompletion>(prepared);
  HttpResponse response{.body = RenderBody(ready.prompts, context.model.id)};
  const std::string ignored = HeaderOfIgnored(ready.body.ignored);
  if (!ignored.empty()) response.headers.emplace_back("X-Quire-Ignored-Fields", ignored);
  call.exchange->Respond(std::move(response));
}

}  // namespace

void AddRenderRoutes(Router& router, ServerContext& context) {
  for (const auto& [path, endpoint] :
       {std::pair{"/v1/chat/completions/render", OpenAiEndpoint::kChatCompletions},
        std::pair{"/v1/completions/render", OpenAiEndpoint::kCompletions}}) {
    router.Add({.method = "POST", .path = path, .handler = [&context, endpoint](RouteCall call) {
                  const size_t body_bytes = call.request.body.size();
                  PostReading(context, body_bytes,
                              [&context, endpoint, call = std::move(call)]() mutable {
                                Render(context, call, endpoint);
                              });
                }});
  }
}

}  // namespace quire
