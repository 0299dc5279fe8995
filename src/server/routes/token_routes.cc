// Text to token ids and back, on the text pool.
#include <optional>
#include <utility>
#include <variant>

#include "server/openai/tokenize.h"
#include "server/routes/completion_request.h"
#include "server/routes/routes.h"

namespace quire {
namespace {

using Body = std::variant<std::string, ApiError>;

Body Tokenize(const ServerContext& context, const RouteCall& call) {
  auto parsed = ParseTokenizeRequest(call.request.body, context.limits.body);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  auto& request = std::get<TokenizeRequest>(parsed);
  if (auto error = CheckModel(context.model, request.body.model)) return *std::move(error);
  std::string& salt = request.body.request.cache_salt;
  salt = SaltOf(*call.caller.tenant, salt);
  return TokenizeBody(request, PromptSourceOf(context.engine));
}

Body Detokenize(const ServerContext& context, const RouteCall& call) {
  auto parsed = ParseDetokenizeRequest(call.request.body, context.limits.body);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  const auto& request = std::get<DetokenizeRequest>(parsed);
  if (auto error = CheckModel(context.model, request.model)) return *std::move(error);
  return DetokenizeBody(request, context.engine.model().tokenizer());
}

// A route whose whole answer is made on the text pool.
void AddTextRoute(Router& router, ServerContext& context, std::string path,
                  Body (*answer)(const ServerContext&, const RouteCall&)) {
  const auto handler = [&context, answer](RouteCall call) {
    const size_t body_bytes = call.request.body.size();
    PostReading(context, body_bytes, [&context, answer, call = std::move(call)]() mutable {
      auto body = answer(context, call);
      if (const auto* error = std::get_if<ApiError>(&body)) {
        return RespondError(context, call, *error);
      }
      call.exchange->Respond({.body = std::move(std::get<std::string>(body))});
    });
  };
  router.Add({.method = "POST", .path = std::move(path), .handler = handler});
}

}  // namespace

void AddTokenRoutes(Router& router, ServerContext& context) {
  AddTextRoute(router, context, "/tokenize", Tokenize);
  AddTextRoute(router, context, "/detokenize", Detokenize);
}

}  // namespace quire
