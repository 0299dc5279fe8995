#include "server/routes/completion_log.h"

#include <algorithm>
#include <string>

#include "text/stream_decoder.h"

namespace quire {
namespace {

std::string TextOf(const Tokenizer& tokenizer, std::span<const int32_t> ids) {
  StreamDecoder decoder(tokenizer, /*with_control=*/true);
  std::string text;
  for (const int32_t id : ids) text += decoder.Push(id);
  return text + decoder.Finish();
}

}  // namespace

void LogCompletion(const ServerContext& context, const RouteCall& call,
                   std::span<const PromptAnswer> answers, const CompletionEnd& end) {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t completion_tokens = 0;
  double queue_ms = 0;
  double first_token_ms = 0;
  std::string finish_reason;
  for (const PromptAnswer& answer : answers) {
    const RequestResult& result = answer.result;
    prompt_tokens += result.prompt_tokens;
    cached_tokens += result.cached_tokens;
    completion_tokens += result.completion_tokens();
    queue_ms = std::max(queue_ms, result.queue_ms);
    first_token_ms = std::max(first_token_ms, result.first_token_ms);
    if (finish_reason.empty() && !result.choices.empty()) {
      finish_reason = NameOf(result.choices.front().finish_reason);
    }
  }
  if (end.is_error) finish_reason = NameOf(FinishReason::kError);
  context.log.Write(LogLevel::kInfo, "request",
                    {{"id", call.caller.request_id},
                     {"tenant", call.caller.tenant->name},
                     {"path", call.request.path},
                     {"status", int64_t{end.status}},
                     {"prompt_tokens", prompt_tokens},
                     {"cached_tokens", cached_tokens},
                     {"completion_tokens", completion_tokens},
                     {"queue_ms", queue_ms},
                     {"first_token_ms", first_token_ms},
                     {"total_ms", end.total_ms},
                     {"finish_reason", finish_reason}});
  if (!context.log.shows_text()) return;
  const Tokenizer& tokenizer = context.engine.model().tokenizer();
  for (const PromptAnswer& answer : answers) {
    std::string text;
    for (const Choice& choice : answer.result.choices) text += choice.text + "\n";
    context.log.Write(LogLevel::kInfo, "text",
                      {{"id", call.caller.request_id},
                       {"prompt", TextOf(tokenizer, answer.prompt)},
                       {"answer", text}});
  }
}

}  // namespace quire
