#include "cli/batch_run.h"

#include <ctime>
#include <utility>

#include "formats/printable.h"
#include "server/openai/prompts.h"
#include "server/openai/response.h"

namespace quire {
namespace {

constexpr size_t kMaxNames = 16;

void Remember(std::set<std::string>& names, const std::string& name) {
  if (names.size() < kMaxNames) names.insert(Printable(name, 80));
}

}  // namespace

// A line whose prompts are under way.
struct BatchRun::Job {
  int64_t line_number = 0;
  std::string custom_id;
  OpenAiRequest body;
  std::vector<PromptAnswer> answers;  // one a prompt
  std::vector<RequestId> requests;    // submitted
  size_t num_open = 0;                // prompts without a result
  std::optional<ApiError> error;
  int64_t num_sequences = 0;
  size_t num_bytes = 0;
};

BatchRun::BatchRun(Engine& engine, BatchInput& input, BatchOutput& output, BatchOptions options)
    : engine_(engine), input_(input), output_(output), options_(std::move(options)) {
  limits_.max_body_bytes = BatchInput::kMaxLineBytes;
  limits_.vocab_size = engine.vocab_size();
}

BatchRun::~BatchRun() { GiveUp(); }

Status BatchRun::Run(const std::function<bool()>& interrupted,
                     const std::function<void()>& on_step) {
  while (status_.ok()) {
    if (interrupted()) {
      summary_.was_interrupted = true;
      break;
    }
    if (const Status status = ReadAhead(); !status.ok()) {
      GiveUp();
      return status;
    }
    if (jobs_.empty() && is_at_end_) break;
    engine_.Step();
    on_step();
  }
  GiveUp();
  QUIRE_RETURN_IF_ERROR(output_.Sync());
  return status_;
}

Status BatchRun::ReadAhead() {
  while (!is_at_end_ && status_.ok() && sequences_ahead_ < options_.max_sequences_ahead &&
         bytes_ahead_ < options_.max_bytes_ahead) {
    BatchLine line;
    // A slow writer at the other end of a pipe holds up nobody who has been read.
    QUIRE_ASSIGN_OR_RETURN(const LineState state, input_.Next(line, /*may_wait=*/jobs_.empty()));
    if (state == LineState::kNotYet) return {};
    if (state == LineState::kEnd) {
      is_at_end_ = true;
      return {};
    }
    TakeLine(std::move(line));
  }
  return {};
}

void BatchRun::TakeLine(BatchLine line) {
  if (line.is_too_long) {
    return RefuseLine({.message = fmt::format("longer than {} bytes", BatchInput::kMaxLineBytes),
                       .code = "line_too_long"},
                      line.number);
  }
  auto parsed = ParseBatchLine(line.text, line.number, limits_);
  if (const auto* error = std::get_if<ApiError>(&parsed)) return RefuseLine(*error, line.number);
  auto& request = std::get<BatchRequest>(parsed);
  if (!seen_.insert(request.custom_id).second) {
    return RefuseLine({.message = fmt::format("custom_id '{}' was used by an earlier line",
                                              Printable(request.custom_id, 80)),
                       .code = "duplicate_custom_id"},
                      line.number);
  }
  if (output_.past().answered.contains(request.custom_id)) {
    ++summary_.skipped;
  } else if (output_.past().refused.contains(request.custom_id)) {
    ++summary_.skipped_refused;
  } else {
    Start(line, std::move(request));
  }
}

void BatchRun::Start(const BatchLine& line, BatchRequest request) {
  if (const auto* error = std::get_if<ApiError>(&request.body)) {
    return Refuse(request.custom_id, *error, line.number);
  }
  auto& body = std::get<OpenAiRequest>(request.body);
  for (const std::string& name : body.ignored) Remember(summary_.ignored_fields, name);
  if (!body.model.empty() && body.model != options_.model_name) {
    Remember(summary_.other_models, body.model);
  }
  if (body.stream) {
    return Refuse(request.custom_id,
                  {.message = "stream must be false: a batch has whole answers",
                   .param = "stream",
                   .code = "unsupported_value"},
                  line.number);
  }
  auto prepared = EngineRequestsOf(body, PromptSourceOf(engine_), options_.max_tokens);
  if (const auto* error = std::get_if<ApiError>(&prepared)) {
    return Refuse(request.custom_id, *error, line.number);
  }
  auto& prompts = std::get<std::vector<EngineRequest>>(prepared);
  auto owned = std::make_unique<Job>();
  Job& job = *owned;
  job.line_number = line.number;
  job.custom_id = std::move(request.custom_id);
  job.body = std::move(body);
  // The engine has them in ids.
  job.body.messages = job.body.tools = job.body.documents = jinja::Value::MakeNone();
  job.body.prompts.clear();
  job.answers.resize(prompts.size());
  job.num_open = prompts.size();
  job.num_sequences = static_cast<int64_t>(prompts.size()) * job.body.request.num_choices;
  job.num_bytes = line.text.size();
  sequences_ahead_ += job.num_sequences;
  bytes_ahead_ += job.num_bytes;
  jobs_.emplace(line.number, std::move(owned));
  for (size_t i = 0; i < prompts.size(); ++i) {
    job.answers[i].prompt = prompts[i].request.prompt;
    prompts[i].request.name = job.custom_id;
    job.answers[i].num_added = prompts[i].num_added;
    const auto submitted = engine_.Submit(std::move(prompts[i].request),
                                          {.on_finish = [this, &job, i](RequestResult result) {
                                            OnFinish(job, i, std::move(result));
                                          }});
    if (submitted.ok()) {
      job.requests.push_back(*submitted);
      continue;
    }
    job.error = ApiErrorOf(submitted.error(), PromptFieldOf(job.body));
    // One prompt that cannot be answered fails its line: the rest is not begun, what is begun ends.
    job.num_open -= prompts.size() - i;
    if (job.num_open == 0) return Complete(job);
    const std::vector<RequestId> begun = job.requests;
    for (const RequestId id : begun) engine_.Abort(id);
    return;
  }
}

void BatchRun::OnFinish(Job& job, size_t prompt, RequestResult result) {
  if (is_giving_up_) return;
  if (!result.status.ok() && !job.error) job.error = ApiErrorOf(result.status.error());
  job.answers[prompt].result = std::move(result);
  if (--job.num_open == 0) Complete(job);
}

void BatchRun::Complete(Job& job) {
  if (job.error) {
    Refuse(job.custom_id, *job.error, job.line_number);
  } else {
    const std::string id = NewResponseId(job.body.endpoint);
    Write(AnsweredLine(job.custom_id, id,
                       ResponseBody(job.body, job.answers, engine_.model().tokenizer(),
                                    {.id = id,
                                     .model = options_.model_name,
                                     .created = static_cast<int64_t>(std::time(nullptr)),
                                     .dialect = ToolDialectOf(job.body, engine_.model())})));
    summary_.answered += status_.ok() ? 1 : 0;
    for (const PromptAnswer& answer : job.answers) {
      summary_.prompt_tokens += answer.result.prompt_tokens;
      summary_.cached_tokens += answer.result.cached_tokens;
      summary_.generated_tokens += answer.result.completion_tokens();
    }
  }
  sequences_ahead_ -= job.num_sequences;
  bytes_ahead_ -= job.num_bytes;
  jobs_.erase(job.line_number);
}

void BatchRun::Refuse(const std::string& custom_id, const ApiError& error, int64_t line_number) {
  ++summary_.refused;
  if (summary_.errors.size() < BatchSummary::kMaxErrors) {
    summary_.errors.push_back(
        fmt::format("line {} ({}): {}", line_number, Printable(custom_id, 80), error.message));
  }
  Write(RefusedLine(custom_id, error, line_number));
}

void BatchRun::RefuseLine(const ApiError& error, int64_t line_number) {
  // Told once, however often the input is read.
  if (output_.past().bad_lines.contains(line_number)) {
    ++summary_.skipped_refused;
    return;
  }
  ++summary_.refused;
  if (summary_.errors.size() < BatchSummary::kMaxErrors) {
    summary_.errors.push_back(fmt::format("line {}: {}", line_number, error.message));
  }
  Write(BadLine(error, line_number));
}

void BatchRun::Write(std::string line) {
  if (status_.ok()) status_ = output_.Write(std::move(line));
}

void BatchRun::GiveUp() {
  is_giving_up_ = true;
  for (const auto& [number, job] : jobs_) {
    for (const RequestId id : job->requests) engine_.Abort(id);
  }
  jobs_.clear();
}

}  // namespace quire
