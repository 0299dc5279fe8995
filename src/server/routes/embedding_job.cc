#include "server/routes/embedding_job.h"

#include <ctime>
#include <utility>

#include "server/routes/completion_request.h"

namespace quire {
namespace {

constexpr int kStatusOfGone = 499;

}  // namespace

EmbeddingJob::EmbeddingJob(ServerContext& context, RouteCall call)
    : context_(context), call_(std::move(call)) {}

void EmbeddingJob::Start() {
  call_.exchange->OnGone([weak = weak_from_this()] {
    const auto job = weak.lock();
    if (!job) return;
    job->is_gone_ = true;
    job->context_.engine.Post([job](Engine& engine) {
      // One that has not been submitted sees by itself that its client has gone.
      if (job->num_open_ > 0) job->AbortAll(engine);
    });
  });
  PostReading(context_, call_.request.body.size(), [job = shared_from_this()] { job->Prepare(); });
}

void EmbeddingJob::Prepare() {
  if (is_gone_) return Log(kStatusOfGone);
  std::vector<EngineRequest> inputs;
  if (const auto error = Prepare(inputs)) return RespondError(context_, call_, *error);
  const bool is_taken =
      context_.engine.Post([job = shared_from_this(), inputs = std::move(inputs)](
                               Engine& engine) mutable { job->Submit(engine, std::move(inputs)); });
  if (!is_taken) RespondError(context_, call_, ShuttingDown());
}

std::optional<ApiError> EmbeddingJob::Prepare(std::vector<EngineRequest>& inputs) {
  auto parsed = ParseEmbeddingRequest(call_.request.body, context_.limits.body);
  if (const auto* error = std::get_if<ApiError>(&parsed)) return *error;
  body_ = std::move(std::get<EmbeddingRequest>(parsed));
  if (auto error = CheckModel(context_.model, body_.model)) return error;
  const Tenant& tenant = *call_.caller.tenant;
  body_.cache_salt = SaltOf(tenant, body_.cache_salt);
  auto prepared = EngineRequestsOf(body_, PromptSourceOf(context_.engine));
  if (const auto* error = std::get_if<ApiError>(&prepared)) return *error;
  inputs = std::move(std::get<std::vector<EngineRequest>>(prepared));
  body_.inputs.clear();
  std::string().swap(call_.request.body);
  for (EngineRequest& input : inputs) {
    SetTenant(context_, tenant, input.request);
    Request& asked = asked_.emplace_back();
    asked.embedding = input.request.embedding;
    asked.tenant = input.request.tenant;
  }
  ids_.resize(inputs.size());
  results_.resize(inputs.size());
  return std::nullopt;
}

void EmbeddingJob::Submit(Engine& engine, std::vector<EngineRequest> inputs) {
  if (is_gone_) return Log(kStatusOfGone);
  auto error = CheckQueue(engine, context_.limits.max_queued, inputs.size());
  num_open_ = inputs.size();
  for (size_t i = 0; i < inputs.size() && !error; ++i) {
    error = SetDeadline(context_.limits, AgeMs(), inputs[i].request);
    if (error) break;
    const auto submitted =
        engine.Submit(std::move(inputs[i].request),
                      {.on_finish = [job = shared_from_this(), i, &engine](RequestResult result) {
                        job->OnFinish(engine, i, std::move(result));
                      }});
    if (submitted.ok()) {
      ids_[i] = *submitted;
    } else {
      error = ApiErrorOf(submitted.error(), "input");
    }
  }
  if (!error) return;
  is_refused_ = true;
  AbortAll(engine);
  RespondError(context_, call_, *error);
}

void EmbeddingJob::AbortAll(Engine& engine) {
  for (const RequestId id : ids_) {
    if (id != 0) engine.Abort(id);
  }
}

void EmbeddingJob::OnFinish(Engine& engine, size_t input, RequestResult result) {
  ids_[input] = 0;
  if (is_refused_) return;
  context_.metrics.ObserveEnd(result, asked_[input]);
  if (!error_ && !is_gone_) {
    error_ = ErrorOf(result, context_.limits.request_timeout_ms);
    if (error_) AbortAll(engine);
  }
  results_[input] = std::move(result);
  if (--num_open_ > 0) return;
  context_.text.Post([job = shared_from_this()] { job->WriteAnswer(); });
}

void EmbeddingJob::WriteAnswer() {
  if (is_gone_) return Log(kStatusOfGone);
  if (error_) return RespondError(context_, call_, *error_);
  HttpResponse response;
  const std::string ignored = HeaderOfIgnored(body_.ignored);
  if (!ignored.empty()) response.headers.emplace_back("X-Quire-Ignored-Fields", ignored);
  response.body = EmbeddingBody(body_, results_,
                                {.id = NewResponseId("embd-"),
                                 .model = context_.model.id,
                                 .created = static_cast<int64_t>(std::time(nullptr))});
  call_.exchange->Respond(std::move(response));
  Log(200);
}

double EmbeddingJob::AgeMs() const {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - arrival_)
      .count();
}

void EmbeddingJob::Log(int status) const {
  int64_t prompt_tokens = 0;
  for (const RequestResult& result : results_) prompt_tokens += result.prompt_tokens;
  context_.log.Write(LogLevel::kInfo, "request",
                     {{"id", call_.caller.request_id},
                      {"tenant", call_.caller.tenant->name},
                      {"path", call_.request.path},
                      {"status", int64_t{status}},
                      {"prompt_tokens", prompt_tokens},
                      {"total_ms", AgeMs()}});
}

}  // namespace quire
