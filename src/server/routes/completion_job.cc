#include "server/routes/completion_job.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "formats/printable.h"
#include "server/routes/completion_log.h"
#include "server/routes/completion_request.h"

namespace quire {
namespace {

constexpr std::string_view kComment = ": keep-alive\n\n";
// As in nginx: the client has gone before its answer.
constexpr int kStatusOfGone = 499;

// As vLLM names the answer to a request that has a name.
std::string ResponseIdOf(OpenAiEndpoint endpoint, std::string_view request_id) {
  const bool is_chat = endpoint == OpenAiEndpoint::kChatCompletions;
  return fmt::format("{}-{}", is_chat ? "chatcmpl" : "cmpl", Printable(request_id, 128));
}

double MsBetween(BoardStream::Clock::time_point start, BoardStream::Clock::time_point end) {
  return std::chrono::duration<double, std::milli>(end - start).count();
}

}  // namespace

CompletionJob::CompletionJob(ServerContext& context, CompletionBoard& board,
                             OpenAiEndpoint endpoint, RouteCall call)
    : context_(context), board_(board), call_(std::move(call)), body_{.endpoint = endpoint} {}

void CompletionJob::Start() {
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

void CompletionJob::Prepare() {
  if (is_gone_) return Log(kStatusOfGone);
  std::vector<EngineRequest> prompts;
  if (const auto error = Prepare(prompts)) return Refuse(*error);
  const bool is_taken = context_.engine.Post(
      [job = shared_from_this(), prompts = std::move(prompts)](Engine& engine) mutable {
        job->Submit(engine, std::move(prompts));
      });
  if (!is_taken) Refuse(ShuttingDown());
}

std::optional<ApiError> CompletionJob::Prepare(std::vector<EngineRequest>& prompts) {
  auto prepared = PrepareCompletion(context_, call_, body_.endpoint);
  if (const auto* error = std::get_if<ApiError>(&prepared)) return *error;
  auto& ready = std::get<PreparedCompletion>(prepared);
  body_ = std::move(ready.body);
  prompts = std::move(ready.prompts);
  std::string().swap(call_.request.body);
  head_ = {.id = body_.request_id.empty() ? NewResponseId(body_.endpoint)
                                          : ResponseIdOf(body_.endpoint, body_.request_id),
           .model = context_.model.id,
           .created = static_cast<int64_t>(std::time(nullptr)),
           .dialect = ready.dialect};
  asked_ = body_.request;
  asked_.max_tokens = prompts.front().request.max_tokens;
  for (EngineRequest& prompt : prompts) prompt.request.name = head_.id;
  answers_.resize(prompts.size());
  prompts_.resize(prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) {
    answers_[i].prompt = prompts[i].request.prompt;
    answers_[i].num_added = prompts[i].num_added;
    prompts_[i].last_tokens.resize(static_cast<size_t>(asked_.num_choices));
  }
  return std::nullopt;
}

void CompletionJob::Submit(Engine& engine, std::vector<EngineRequest> prompts) {
  if (is_gone_) return Log(kStatusOfGone);
  auto error = CheckQueue(engine, context_.limits.max_queued, prompts.size());
  num_open_ = prompts.size();
  for (size_t i = 0; i < prompts.size() && !error; ++i) {
    error = SetDeadline(context_.limits, AgeMs(), prompts[i].request);
    if (error) break;
    RequestHooks hooks{
        .on_piece = [this, i](const AnswerPiece& piece) { OnPiece(i, piece); },
        .on_finish = [job = shared_from_this(), i, &engine](
                         RequestResult result) { job->OnFinish(engine, i, std::move(result)); }};
    const auto submitted = engine.Submit(std::move(prompts[i].request), std::move(hooks));
    if (submitted.ok()) {
      prompts_[i].id = *submitted;
    } else {
      error = ApiErrorOf(submitted.error(), PromptFieldOf(body_));
    }
  }
  if (error) {
    // Those that have begun end unseen: a body is answered whole.
    is_refused_ = true;
    AbortAll(engine);
    Refuse(*error);
  } else if (body_.stream) {
    AddNews([](News&) {});
  }
}

void CompletionJob::AbortAll(Engine& engine) {
  for (const PromptState& prompt : prompts_) {
    if (prompt.id != 0) engine.Abort(prompt.id);
  }
}

void CompletionJob::OnPiece(size_t prompt, const AnswerPiece& piece) {
  if (piece.token >= 0) {
    PromptState& state = prompts_[prompt];
    const Clock::time_point now = Clock::now();
    Clock::time_point& last = state.last_tokens[static_cast<size_t>(piece.choice)];
    if (last != Clock::time_point()) {
      context_.metrics.ObserveTokenGap(MsBetween(last, now));
    } else if (std::ranges::count(state.last_tokens, Clock::time_point()) ==
               std::ssize(state.last_tokens)) {
      context_.metrics.ObserveFirstToken(MsBetween(arrival_, now));
    }
    last = now;
  }
  if (!body_.stream || is_gone_) return;
  AddNews([&](News& news) {
    auto& pieces = news.pieces;
    if (pieces.empty() || pieces.back().prompt != prompt || pieces.back().choice != piece.choice) {
      pieces.push_back({.prompt = prompt, .choice = piece.choice});
    }
    Piece& joined = pieces.back();
    joined.text += piece.text;
    if (piece.token >= 0) joined.tokens.push_back(piece.token);
    if (piece.log_probs != nullptr) joined.log_probs.push_back(*piece.log_probs);
  });
}

void CompletionJob::OnFinish(Engine& engine, size_t prompt, RequestResult result) {
  prompts_[prompt].id = 0;
  if (is_refused_) return;
  NoteEnd(result);
  if (!error_ && !is_gone_) {
    error_ = ErrorOf(result, context_.limits.request_timeout_ms);
    // What cannot be answered whole is not computed further.
    if (error_) AbortAll(engine);
  }
  answers_[prompt].result = std::move(result);
  --num_open_;
  if (!error_ && body_.stream) {
    AddNews([&](News& news) { news.ended_prompts.push_back(prompt); });
  }
  if (num_open_ == 0) Complete();
}

void CompletionJob::NoteEnd(const RequestResult& result) {
  if (body_.max_tokens != 0) return context_.metrics.ObserveEnd(result, asked_);
  // The token that was not asked for is in nobody's usage.
  RequestResult shown = result;
  for (Choice& choice : shown.choices) choice.tokens.clear();
  context_.metrics.ObserveEnd(shown, asked_);
}

void CompletionJob::Complete() {
  if (body_.stream) {
    AddNews([](News& news) { news.is_complete = true; });
  } else {
    board_.RunAfterStep([job = shared_from_this()] { job->WriteAnswer(); });
  }
}

template <typename Add>
void CompletionJob::AddNews(Add&& add) {
  {
    const std::scoped_lock lock(mutex_);
    add(news_);
    if (is_announced_) return;
    is_announced_ = true;
  }
  board_.Announce(shared_from_this());
}

void CompletionJob::WriteAnswer() {
  if (is_gone_) return Log(kStatusOfGone);
  if (error_) {
    Refuse(*error_);
    return Log(error_->status);
  }
  HttpResponse response = AnswerHead();
  response.body = ResponseBody(body_, answers_, context_.engine.model().tokenizer(), head_);
  call_.exchange->Respond(std::move(response));
  Log(200);
}

bool CompletionJob::WriteNews(Clock::time_point now) {
  News news;
  {
    const std::scoped_lock lock(mutex_);
    std::swap(news, news_);
    is_announced_ = false;
  }
  if (has_ended_) return false;
  std::string bytes;
  if (last_write_ == Clock::time_point()) BeginStream(now);
  for (const Piece& piece : news.pieces) {
    writer_->Piece({.prompt = piece.prompt,
                    .choice = piece.choice,
                    .text = piece.text,
                    .tokens = piece.tokens,
                    .log_probs = piece.log_probs},
                   bytes);
  }
  for (const size_t prompt : news.ended_prompts) writer_->End(prompt, answers_[prompt], bytes);
  if (news.is_complete) {
    EndStream(std::move(bytes));
    return false;
  }
  if (!bytes.empty()) {
    call_.exchange->Write(std::move(bytes));
    last_write_ = now;
  }
  return true;
}

void CompletionJob::BeginStream(Clock::time_point now) {
  HttpResponse head = AnswerHead();
  head.content_type = "text/event-stream; charset=utf-8";
  // Neither a cache nor nginx may hold events back.
  head.headers.emplace_back("Cache-Control", "no-cache");
  head.headers.emplace_back("X-Accel-Buffering", "no");
  writer_ = std::make_unique<ChunkWriter>(body_, context_.engine.model().tokenizer(), head_);
  for (size_t i = 0; i < answers_.size(); ++i) {
    writer_->Begin(i, answers_[i].prompt, answers_[i].num_added, head.body);
  }
  call_.exchange->BeginStream(std::move(head));
  last_write_ = now;
}

void CompletionJob::EndStream(std::string bytes) {
  has_ended_ = true;
  if (error_) {
    AppendErrorEvent(*error_, bytes);
  } else if (!is_gone_) {
    writer_->Finish(bytes);
  }
  if (!is_gone_) call_.exchange->Write(std::move(bytes));
  call_.exchange->EndStream();
  Log(is_gone_ ? kStatusOfGone : error_ ? error_->status : 200);
}

bool CompletionJob::WriteComment(Clock::time_point now) {
  if (has_ended_ || is_gone_) return false;
  call_.exchange->Write(std::string(kComment));
  last_write_ = now;
  return true;
}

void CompletionJob::Refuse(const ApiError& error) {
  // OpenAI's clients ask again by themselves after some statuses: here they would meet the same.
  HttpHeaders headers;
  if (error.status == 504) headers.emplace_back("x-should-retry", "false");
  RespondError(context_, call_, error, std::move(headers));
}

HttpResponse CompletionJob::AnswerHead() const {
  HttpResponse response;
  const std::string ignored = HeaderOfIgnored(body_.ignored);
  if (!ignored.empty()) response.headers.emplace_back("X-Quire-Ignored-Fields", ignored);
  return response;
}

double CompletionJob::AgeMs() const { return MsBetween(arrival_, Clock::now()); }

void CompletionJob::Log(int status) const {
  LogCompletion(context_, call_, answers_,
                {.status = status, .total_ms = AgeMs(), .is_error = error_.has_value()});
}

}  // namespace quire
