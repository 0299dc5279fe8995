// What every route that asks something of the engine does first: reads the body, checks the model's
// name, and gives the requests their tenant; and how an end becomes an error.
// Of any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/openai/prompts.h"
#include "server/openai/request.h"
#include "server/openai/tool_calls.h"
#include "server/routes/router.h"

namespace quire {

struct PreparedCompletion {
  OpenAiRequest body{};                  // prompts, messages and tools left out
  std::vector<EngineRequest> prompts{};  // at least one
  ToolDialect dialect = ToolDialect::kNone;
};

// Takes long for a long body: on the text pool.
std::variant<PreparedCompletion, ApiError> PrepareCompletion(const ServerContext& context,
                                                             const RouteCall& call,
                                                             OpenAiEndpoint endpoint);

// 404 naming what is served, unless the name is one of it or empty.
std::optional<ApiError> CheckModel(const ServedModel& served, std::string_view name);

// The tenant's name and quota. The salt is the tenant's already.
void SetTenant(const ServerContext& context, const Tenant& tenant, Request& request);

// Gives a request that arrived so long ago what is left of its time; 504 where nothing is. Just
// before it is submitted: the engine counts from there.
std::optional<ApiError> SetDeadline(const ServerLimits& limits, double age_ms, Request& request);

// What an end tells the client in place of an answer, or nothing: an error of the engine, 504 for a
// deadline that passed, 503 for a server that shuts down.
std::optional<ApiError> ErrorOf(const RequestResult& result, double timeout_ms);
ApiError TimedOut(double timeout_ms);
ApiError ShuttingDown();

// More requests than may wait: 429. On the engine's thread, before they are submitted.
std::optional<ApiError> CheckQueue(const Engine& engine, int max_queued, size_t num_prompts);

// The value of X-Quire-Ignored-Fields; empty where there are none.
std::string HeaderOfIgnored(std::span<const std::string> names);

}  // namespace quire
