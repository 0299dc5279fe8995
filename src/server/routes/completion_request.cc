#include "server/routes/completion_request.h"

#include <algorithm>
#include <utility>

#include "formats/printable.h"

namespace quire {

std::variant<PreparedCompletion, ApiError> PrepareCompletion(const ServerContext& context,
                                                             const RouteCall& call,
                                                             OpenAiEndpoint endpoint) {
  auto parsed = ParseOpenAiRequest(endpoint, call.request.body, context.limits.body);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  PreparedCompletion prepared{.body = std::move(std::get<OpenAiRequest>(parsed))};
  OpenAiRequest& body = prepared.body;
  if (auto error = CheckModel(context.model, body.model)) return *error;
  const Tenant& tenant = *call.caller.tenant;
  body.request.cache_salt = SaltOf(tenant, body.request.cache_salt);
  SetTenant(context, tenant, body.request);
  auto prompts =
      EngineRequestsOf(body, PromptSourceOf(context.engine), context.limits.default_max_tokens);
  if (auto* error = std::get_if<ApiError>(&prompts)) return std::move(*error);
  prepared.prompts = std::move(std::get<std::vector<EngineRequest>>(prompts));
  prepared.dialect = ToolDialectOf(body, context.engine.model());
  // The engine has them in ids.
  body.prompts.clear();
  body.messages = body.tools = body.documents = jinja::Value::MakeNone();
  return prepared;
}

std::optional<ApiError> CheckModel(const ServedModel& served, std::string_view name) {
  if (name.empty() || served.IsNamed(name)) return std::nullopt;
  std::string ids = served.id;
  for (const std::string& alias : served.aliases) ids += ", " + alias;
  return ApiError{.status = 404,
                  .message = fmt::format("the model '{}' is not served here; this server has: {}",
                                         Printable(name, 120), Printable(ids, 1000)),
                  .param = "model",
                  .code = "model_not_found"};
}

void SetTenant(const ServerContext& context, const Tenant& tenant, Request& request) {
  request.tenant = tenant.name;
  if (tenant.kv_quota_bytes == 0) return;
  const uint64_t blocks = tenant.kv_quota_bytes / context.engine.layout().block_bytes;
  request.tenant_max_blocks =
      static_cast<int64_t>(std::clamp<uint64_t>(blocks, 1, uint64_t{1} << 40));
}

std::optional<ApiError> SetDeadline(const ServerLimits& limits, double age_ms, Request& request) {
  if (limits.request_timeout_ms <= 0) return std::nullopt;
  const double rest = limits.request_timeout_ms - age_ms;
  if (rest <= 0) return TimedOut(limits.request_timeout_ms);
  request.timeout_ms = rest;
  return std::nullopt;
}

std::optional<ApiError> ErrorOf(const RequestResult& result, double timeout_ms) {
  if (!result.status.ok()) return ApiErrorOf(result.status.error());
  for (const Choice& choice : result.choices) {
    if (choice.finish_reason == FinishReason::kTimeout) return TimedOut(timeout_ms);
    if (choice.finish_reason == FinishReason::kAborted) return ShuttingDown();
  }
  // A beam search, or an embedding, that was ended before anything came of it.
  if (!result.choices.empty() || !result.embedding.empty()) return std::nullopt;
  if (timeout_ms > 0 && result.total_ms >= timeout_ms) return TimedOut(timeout_ms);
  return ShuttingDown();
}

ApiError TimedOut(double timeout_ms) {
  return {.status = 504,
          .message = fmt::format("the answer was not ready within the {:.0f} ms that this server "
                                 "gives a request; ask for fewer tokens",
                                 timeout_ms),
          .type = "timeout_error",
          .code = "request_timeout"};
}

ApiError ShuttingDown() {
  return {.status = 503,
          .message = "the server is shutting down",
          .type = "server_error",
          .code = "shutting_down"};
}

std::optional<ApiError> CheckQueue(const Engine& engine, int max_queued, size_t num_prompts) {
  if (max_queued <= 0) return std::nullopt;
  // Those that the next step takes up do not wait.
  const int places = engine.scheduler_options().max_sequences - engine.num_running();
  const int waiting = std::max(0, engine.num_waiting() - std::max(places, 0));
  const int64_t after =
      engine.num_waiting() + static_cast<int64_t>(num_prompts) - std::max(places, 0);
  if (after <= max_queued) return std::nullopt;
  return ApiError{.status = 429,
                  .message = fmt::format("{} requests wait and at most {} may; try again later",
                                         waiting, max_queued),
                  .type = "rate_limit_error",
                  .code = "rate_limit_exceeded"};
}

std::string HeaderOfIgnored(std::span<const std::string> names) {
  std::string value;
  for (const std::string& name : names) {
    if (!value.empty()) value += ", ";
    for (const char c : name) value += c > ' ' && c <= '~' && c != ',' ? c : '?';
  }
  return value;
}

}  // namespace quire
