#include <utility>
#include <vector>

#include "engine/prefix_report.h"
#include "server/openai/json_writer.h"
#include "server/openai/miss.h"
#include "server/routes/completion_request.h"
#include "server/routes/prompt_body.h"
#include "server/routes/quire_routes.h"

namespace quire {
namespace {

struct Explained {
  std::vector<int32_t> tokens{};  // of the prompt
  PrefixReport report{};
};

std::string ExplanationBody(const ServerContext& context, const std::vector<Explained>& prompts) {
  std::string body;
  JsonWriter json(body);
  json.BeginObject();
  json.Key("object");
  json.String("quire.explanation");
  json.Key("version");
  json.Int(kQuireVersion);
  json.Key("model");
  json.String(context.model.id);
  json.Key("prompts");
  json.BeginArray();
  for (size_t i = 0; i < prompts.size(); ++i) {
    const Explained& explained = prompts[i];
    const PrefixMatch& match = explained.report.match;
    const auto num_tokens = static_cast<int64_t>(explained.tokens.size());
    json.BeginObject();
    json.Key("index");
    json.Int(static_cast<int64_t>(i));
    json.Key("tokens");
    json.Int(num_tokens);
    json.Key("cached_tokens");
    json.Int(match.num_tokens);
    json.Key("tier_tokens");
    json.Int(explained.report.tier_tokens);
    json.Key("tokens_to_compute");
    json.Int(num_tokens - match.num_tokens - explained.report.tier_tokens);
    json.Key("blocks_in_use");
    json.Int(match.blocks_used);
    json.Key("blocks_cached");
    json.Int(match.blocks_cached);
    json.Key("miss");
    WriteMiss(explained.report.miss, explained.tokens, context.engine.model().tokenizer(), json);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  return body;
}

// Text pool, the engine's thread for a look at the cache, and the text pool again.
void AnswerExplain(ServerContext& context, RouteCall call) {
  auto read = ReadPromptBody(context, call);
  if (const auto* error = std::get_if<ApiError>(&read)) return RespondError(context, call, *error);
  call.request.body.clear();
  const bool is_taken = context.engine.Post(
      [&context, call, prompts = std::move(std::get<PromptBody>(read).prompts)](Engine& engine) {
        std::vector<Explained> explained;
        for (const EngineRequest& prompt : prompts) {
          explained.push_back({prompt.request.prompt, ReportPrefix(engine, prompt.request)});
        }
        context.text.Post([&context, call, explained = std::move(explained)] {
          call.exchange->Respond({.body = ExplanationBody(context, explained)});
        });
      });
  if (!is_taken) RespondError(context, call, ShuttingDown());
}

}  // namespace

void AddExplainRoute(Router& router, ServerContext& context) {
  router.Add({.method = "POST", .path = "/quire/explain", .handler = [&context](RouteCall call) {
                context.text.Post([&context, call = std::move(call)]() mutable {
                  AnswerExplain(context, std::move(call));
                });
              }});
}

}  // namespace quire
