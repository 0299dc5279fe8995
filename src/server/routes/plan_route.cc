#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "plan/memory_plan.h"
#include "server/openai/json_members.h"
#include "server/routes/break_even_body.h"
#include "server/routes/completion_request.h"
#include "server/routes/plan_answer.h"
#include "server/routes/quire_routes.h"

namespace quire {
namespace {

// What the engine runs with.
struct RunningPlan {
  int num_threads = 0;
  int max_sequences = 0;
  int max_batched_tokens = 0;
  int64_t num_blocks = 0;
};

void WriteKv(const KvLayout& layout, const RunningPlan& running, int64_t sequence_blocks,
             JsonWriter& json) {
  json.Key("kv");
  json.BeginObject();
  TextMember("type", KvElementOf(layout.type).name, json);
  BytesMember("bytes_per_token", layout.bytes_per_token, json);
  IntMember("block_tokens", kBlockSlots, json);
  BytesMember("block_bytes", layout.block_bytes, json);
  IntMember("groups", layout.num_groups(), json);
  IntMember("blocks", running.num_blocks, json);
  BytesMember("bytes", static_cast<uint64_t>(running.num_blocks) * layout.block_bytes, json);
  IntMember("blocks_per_sequence", sequence_blocks, json);
  json.EndObject();
}

void WriteMemory(const MemoryPlan& plan, uint64_t kv_bytes, JsonWriter& json) {
  json.Key("memory");
  json.BeginObject();
  uint64_t total = 0;
  for (const MemoryLine& line : plan.Lines()) {
    // The pool as it is, in place of what one sequence would take.
    const uint64_t bytes = line.name == "kv" ? kv_bytes : line.bytes;
    total += bytes;
    BytesMember(fmt::format("{}_bytes", line.name), bytes, json);
  }
  BytesMember("total_bytes", total, json);
  json.EndObject();
}

void WriteFits(const KvLayout& layout, const RunningPlan& running, int context_length,
               int64_t sequence_blocks, JsonWriter& json) {
  const int longest = LargestThat(context_length, [&](int tokens) {
    return layout.PeakBlocks(tokens, std::min(tokens, running.max_batched_tokens)) <=
           running.num_blocks;
  });
  json.Key("fits");
  json.BeginObject();
  IntMember("sequences_of_whole_context",
            running.num_blocks / std::max<int64_t>(sequence_blocks, 1), json);
  IntMember("tokens_of_one_sequence", longest, json);
  json.EndObject();
}

Result<std::string> PlanBody(const ServerContext& context, const RunningPlan& running) {
  const EngineThread& engine = context.engine;
  const KvLayout& layout = engine.layout();
  const int context_length = engine.context_length();
  QUIRE_ASSIGN_OR_RETURN(const ModelShape shape, ShapeOfFile(engine.model().file()));
  QUIRE_ASSIGN_OR_RETURN(const MemoryPlan plan,
                         PlanMemory(shape, {.kv_element = KvElementOf(layout.type),
                                            .context_tokens = context_length,
                                            .num_sequences = running.max_sequences,
                                            .prefill_chunk = running.max_batched_tokens,
                                            .num_threads = running.num_threads}));
  QUIRE_ASSIGN_OR_RETURN(const KvCost cost, KvCost::Make(shape.config, KvElementOf(layout.type)));
  const int64_t sequence_blocks =
      layout.PeakBlocks(context_length, std::min(running.max_batched_tokens, context_length));
  std::string body;
  JsonWriter json(body);
  json.BeginObject();
  TextMember("object", "quire.plan", json);
  IntMember("version", kQuireVersion, json);
  TextMember("model", context.model.id, json);
  TextMember("file", context.model.file, json);
  TextMember("architecture", shape.config.architecture, json);
  BytesMember("parameters", shape.parameters, json);
  IntMember("context", context_length, json);
  IntMember("model_context", shape.config.context_length, json);
  IntMember("threads", running.num_threads, json);
  IntMember("max_sequences", running.max_sequences, json);
  IntMember("max_batched_tokens", running.max_batched_tokens, json);
  WriteKv(layout, running, sequence_blocks, json);
  WriteMemory(plan, static_cast<uint64_t>(running.num_blocks) * layout.block_bytes, json);
  WriteFits(layout, running, context_length, sequence_blocks, json);
  json.Key("break_even");
  WriteBreakEven(engine.status(), cost, context_length, json);
  json.EndObject();
  return body;
}

std::variant<std::string, ApiError> AnswerQuestion(const ServerContext& context,
                                                   const RunningPlan& running,
                                                   const QueryFields& query) {
  const EngineThread& engine = context.engine;
  auto shape = ShapeOfFile(engine.model().file());
  if (!shape.ok()) return ApiErrorOf(shape.error());
  return PlanAnswerBody({.model = context.model.id,
                         .shape = std::move(shape).value(),
                         .options = {.kv_element = KvElementOf(engine.layout().type),
                                     .context_tokens = engine.context_length(),
                                     .num_sequences = running.max_sequences,
                                     .prefill_chunk = running.max_batched_tokens,
                                     .num_threads = running.num_threads}},
                        query);
}

void RespondQuestion(ServerContext& context, RouteCall& call, const RunningPlan& running,
                     const QueryFields& query) {
  auto answer = AnswerQuestion(context, running, query);
  if (const auto* error = std::get_if<ApiError>(&answer)) {
    return RespondError(context, call, *error);
  }
  call.exchange->Respond({.body = std::get<std::string>(std::move(answer))});
}

void AnswerPlan(ServerContext& context, RouteCall call) {
  const bool is_taken = context.engine.Post([&context, call](Engine& engine) {
    const RunningPlan running{.num_threads = engine.runner().threads().num_threads(),
                              .max_sequences = engine.scheduler_options().max_sequences,
                              .max_batched_tokens = engine.scheduler_options().max_batched_tokens,
                              .num_blocks = engine.cache().usage().total_blocks};
    context.text.Post([&context, call, running]() mutable {
      const QueryFields query = ParseQuery(call.request.query);
      if (!query.empty()) return RespondQuestion(context, call, running, query);
      auto body = PlanBody(context, running);
      if (!body.ok()) return RespondError(context, call, ApiErrorOf(body.error()));
      call.exchange->Respond({.body = std::move(body).value()});
    });
  });
  if (!is_taken) RespondError(context, call, ShuttingDown());
}

}  // namespace

void AddPlanRoute(Router& router, ServerContext& context) {
  router.Add({.method = "GET",
              .path = "/quire/plan",
              .handler = [&context](RouteCall call) { AnswerPlan(context, std::move(call)); },
              .needs_admin = true});
}

}  // namespace quire
