// The log's line of a completion that has ended: who, what, how many tokens, how long. Texts are
// told in a line of their own, and only where LogOptions::shows_text asks for them.
#pragma once

#include <span>
#include <string_view>

#include "server/openai/response.h"
#include "server/routes/router.h"

namespace quire {

struct CompletionEnd {
  int status = 0;  // 499: the client has gone
  double total_ms = 0;
  bool is_error = false;
};

void LogCompletion(const ServerContext& context, const RouteCall& call,
                   std::span<const PromptAnswer> answers, const CompletionEnd& end);

}  // namespace quire
