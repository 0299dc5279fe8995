// Which model is served, under all of its names.
#include <vector>

#include "server/openai/model_list.h"
#include "server/routes/completion_request.h"
#include "server/routes/routes.h"

namespace quire {
namespace {

ModelEntry EntryOf(const ServerContext& context, std::string_view name) {
  const ServedModel& model = context.model;
  return {.id = std::string(name),
          .created = model.created,
          .max_model_len = context.engine.context_length(),
          .root = name == model.id ? "" : model.id};
}

void AnswerList(const ServerContext& context, const RouteCall& call) {
  std::vector<ModelEntry> entries = {EntryOf(context, context.model.id)};
  for (const std::string& alias : context.model.aliases) {
    entries.push_back(EntryOf(context, alias));
  }
  call.exchange->Respond({.body = ModelListBody(entries)});
}

void AnswerOne(ServerContext& context, RouteCall& call) {
  if (const auto error = CheckModel(context.model, call.path_rest)) {
    return RespondError(context, call, *error);
  }
  call.exchange->Respond({.body = ModelBody(EntryOf(context, call.path_rest))});
}

}  // namespace

void AddModelRoutes(Router& router, ServerContext& context) {
  router.Add({.method = "GET", .path = "/v1/models", .handler = [&context](RouteCall call) {
                AnswerList(context, call);
              }});
  router.Add({.method = "GET", .path = "/v1/models/*", .handler = [&context](RouteCall call) {
                AnswerOne(context, call);
              }});
}

}  // namespace quire
