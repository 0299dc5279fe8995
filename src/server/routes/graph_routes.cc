// What `quire explain shapes`, `growth` and `roofline` print with --json, of the model that runs.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plan/explain_json.h"
#include "server/live/measured_roofline.h"
#include "server/routes/completion_request.h"
#include "server/routes/routes.h"

namespace quire {
namespace {

Result<std::string> GraphBody(const ServerContext& context) {
  const EngineThread& engine = context.engine;
  QUIRE_ASSIGN_OR_RETURN(const ModelShape shape, ShapeOfFile(engine.model().file()));
  // A token of decode follows what prefill computed, so there is to be room for it.
  const int prefill = std::clamp(engine.context_length() - 1, 1, GraphOptions{}.prefill_tokens);
  QUIRE_ASSIGN_OR_RETURN(
      const ModelGraph graph,
      MakeModelGraph(shape, {.prefill_tokens = prefill, .kv_type = engine.layout().type}));
  return ModelGraphAsJson(graph);
}

// What the engine holds at this moment, of its thread.
struct GrowthNow {
  int chunk = 1;
  std::vector<GrowthPoint> points{};  // the sequences that run, the shortest first
};

GrowthNow LookAtGrowth(const Engine& engine) {
  GrowthNow now{.chunk = std::max(engine.scheduler_options().max_batched_tokens, 1)};
  const KvLayout& layout = engine.cache().layout();
  for (const auto& [sequence, request] : engine.sequences()) {
    const bool is_running = engine.batch().is_running(sequence);
    const int num_tokens = is_running ? engine.batch().num_computed(sequence) : 0;
    if (num_tokens == 0) continue;
    int64_t num_blocks = 0;
    for (int group = 0; group < layout.num_groups(); ++group) {
      num_blocks += std::ranges::count_if(engine.batch().table(sequence, group),
                                          [](BlockId block) { return block != kNoBlock; });
    }
    now.points.push_back(
        MakeGrowthPoint(layout, num_tokens, num_blocks, engine.cache().usage().committed_bytes));
  }
  std::ranges::sort(now.points, {}, &GrowthPoint::tokens);
  return now;
}

Result<std::string> GrowthBody(const ServerContext& context, GrowthNow now) {
  const EngineThread& engine = context.engine;
  QUIRE_ASSIGN_OR_RETURN(KvGrowth growth,
                         MakeKvGrowth(engine.model().config(), KvElementOf(engine.layout().type),
                                      {.max_tokens = engine.context_length(), .chunk = now.chunk}));
  growth.model = context.model.id;
  growth.measured = std::move(now.points);
  return KvGrowthAsJson(growth);
}

void Answer(ServerContext& context, RouteCall& call, Result<std::string> body) {
  if (!body.ok()) return RespondError(context, call, ApiErrorOf(body.error()));
  call.exchange->Respond({.body = std::move(body).value()});
}

void AnswerGraph(ServerContext& context, RouteCall call) {
  context.text.Post(
      [&context, call = std::move(call)]() mutable { Answer(context, call, GraphBody(context)); });
}

void AnswerGrowth(ServerContext& context, RouteCall call) {
  const bool is_taken = context.engine.Post([&context, call](Engine& engine) {
    context.text.Post([&context, call, now = LookAtGrowth(engine)]() mutable {
      Answer(context, call, GrowthBody(context, std::move(now)));
    });
  });
  if (!is_taken) RespondError(context, call, ShuttingDown());
}

// Measured when somebody first asks; of the engine's thread.
struct KnownRoofline {
  std::string body{};  // empty: not yet
  bool is_measuring = false;
  std::vector<RouteCall> waiting{};  // asked meanwhile
};

void MeasureRoofline(ServerContext& context, KnownRoofline& known, Engine& engine) {
  known.is_measuring = true;
  Result<std::string> body =
      MeasureRooflineBody(engine, context.model.id, [&context] { return context.engine.Yield(); });
  known.is_measuring = false;
  for (RouteCall& call : std::exchange(known.waiting, {})) {
    if (body.ok()) {
      call.exchange->Respond({.body = *body});
    } else if (body.error().code == ErrorCode::kInterrupted) {
      RespondError(context, call, ShuttingDown());
    } else {
      RespondError(context, call, ApiErrorOf(body.error()));
    }
  }
  if (body.ok()) known.body = std::move(body).value();
}

void AnswerRoofline(ServerContext& context, KnownRoofline& known, RouteCall call) {
  const bool is_taken = context.engine.Post([&context, &known, call](Engine& engine) {
    if (!known.body.empty()) return call.exchange->Respond({.body = known.body});
    known.waiting.push_back(call);
    if (!known.is_measuring) MeasureRoofline(context, known, engine);
  });
  if (!is_taken) RespondError(context, call, ShuttingDown());
}

}  // namespace

void AddGraphRoutes(Router& router, ServerContext& context) {
  router.Add({.method = "GET",
              .path = "/quire/model",
              .handler = [&context](RouteCall call) { AnswerGraph(context, std::move(call)); },
              .needs_admin = true});
  router.Add({.method = "GET",
              .path = "/quire/growth",
              .handler = [&context](RouteCall call) { AnswerGrowth(context, std::move(call)); },
              .needs_admin = true});
  const auto known = std::make_shared<KnownRoofline>();
  router.Add({.method = "GET",
              .path = "/quire/roofline",
              .handler = [&context, known](
                             RouteCall call) { AnswerRoofline(context, *known, std::move(call)); },
              .needs_admin = true});
}

}  // namespace quire
