#include "server/routes/prompt_body.h"

#include <utility>

#include "server/routes/completion_request.h"
#include "text/chat_template/json_text.h"

namespace quire {

std::variant<PromptBody, ApiError> ReadPromptBody(const ServerContext& context,
                                                  const RouteCall& call) {
  PromptBody result;
  // What is no JSON, or no object, is refused below, in the words of the endpoint.
  auto json = jinja::ValueFromJson(call.request.body);
  if (json.ok()) result.json = std::move(json).value();
  const bool is_chat = result.json.IsDict() && result.json.AsDict().Find("messages") != nullptr;
  auto prepared = PrepareCompletion(
      context, call, is_chat ? OpenAiEndpoint::kChatCompletions : OpenAiEndpoint::kCompletions);
  if (auto* error = std::get_if<ApiError>(&prepared)) return std::move(*error);
  result.prompts = std::move(std::get<PreparedCompletion>(prepared).prompts);
  return result;
}

}  // namespace quire
