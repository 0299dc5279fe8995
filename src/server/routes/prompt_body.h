// A body that says prompts and asks for no answer: what is pinned, what is explained.
#pragma once

#include <variant>
#include <vector>

#include "server/openai/prompts.h"
#include "server/routes/router.h"
#include "text/chat_template/value.h"

namespace quire {

struct PromptBody {
  jinja::Value json{};                   // an object: the body, for members beside the prompt's
  std::vector<EngineRequest> prompts{};  // at least one; of the caller's tenant, salted
};

// A body of /v1/chat/completions where it has `messages`, of /v1/completions otherwise. On the text
// pool.
std::variant<PromptBody, ApiError> ReadPromptBody(const ServerContext& context,
                                                  const RouteCall& call);

}  // namespace quire
