#include "server/routes/completion_log.h"

#include <algorithm>
#include <string>
#include <vector>

#include "server/openai/miss.h"
#include "server/openai/usage.h"
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
  CachedTokens by_tier;
  double queue_ms = 0;
  double tier_wait_ms = 0;
  double first_token_ms = 0;
  std::string finish_reason;
  for (const PromptAnswer& answer : answers) {
    const RequestResult& result = answer.result;
    prompt_tokens += result.prompt_tokens;
    cached_tokens += result.cached_tokens;
    completion_tokens += result.completion_tokens();
    const CachedTokens parts = PartedCachedTokens(result);
    by_tier.disk += parts.disk;
    by_tier.remote += parts.remote;
    tier_wait_ms = std::max(tier_wait_ms, result.tier_wait_ms);
    queue_ms = std::max(queue_ms, result.queue_ms);
    first_token_ms = std::max(first_token_ms, result.first_token_ms);
    if (finish_reason.empty() && !result.choices.empty()) {
      finish_reason = NameOf(result.choices.front().finish_reason);
    }
  }
  if (end.is_error) finish_reason = NameOf(FinishReason::kError);
  std::vector<LogField> fields = {{"id", call.caller.request_id},
                                  {"tenant", call.caller.tenant->name},
                                  {"path", call.request.path},
                                  {"status", int64_t{end.status}},
                                  {"prompt_tokens", prompt_tokens},
                                  {"cached_tokens", cached_tokens},
                                  {"completion_tokens", completion_tokens},
                                  {"queue_ms", queue_ms},
                                  {"first_token_ms", first_token_ms},
                                  {"total_ms", end.total_ms},
                                  {"finish_reason", finish_reason}};
  // What there is nothing of is not told.
  if (by_tier.disk > 0) fields.emplace_back("cached_from_disk", int64_t{by_tier.disk});
  if (by_tier.remote > 0) fields.emplace_back("cached_from_remote", int64_t{by_tier.remote});
  if (tier_wait_ms > 0) fields.emplace_back("tier_wait_ms", tier_wait_ms);
  const std::string miss =
      answers.empty() ? "" : MissText(answers.front().result.miss, MissReader::kOperator);
  if (!miss.empty()) fields.emplace_back("miss", miss);
  context.log.Write(LogLevel::kInfo, "request", fields);
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
