// One request for a completion on its way through the server, from its body to its last byte.
//
//   network thread: Start, watches for the client going away
//   text pool:      reads the body, renders, encodes
//   engine's thread: submits every prompt or none, collects pieces and results
//   network thread: writes a stream (routes/completion_board.h), or
//   text pool:      writes the whole answer
//
// Invariants:
//   1. The exchange gets one answer; what fails before a stream's first byte is a status and an
//      error body, what fails after it an error event.
//   2. A client that has gone has no request in the engine after the step under way.
//   3. What is said of prompts and answers to the log is counts and times.
// Kept alive by whoever has it to work on next.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/openai/prompts.h"
#include "server/openai/request.h"
#include "server/openai/response.h"
#include "server/openai/stream.h"
#include "server/routes/completion_board.h"
#include "server/routes/router.h"

namespace quire {

class CompletionJob : public BoardStream, public std::enable_shared_from_this<CompletionJob> {
 public:
  CompletionJob(ServerContext& context, CompletionBoard& board, OpenAiEndpoint endpoint,
                RouteCall call);

  // On the network thread. Once.
  void Start();

  bool WriteNews(Clock::time_point now) override;
  bool WriteComment(Clock::time_point now) override;
  Clock::time_point last_write() const override { return last_write_; }

 private:
  // Tokens of one answer that came one after the other.
  struct Piece {
    size_t prompt = 0;
    int choice = 0;
    std::string text{};
    std::vector<int32_t> tokens{};
    std::vector<LogProbs> log_probs{};
  };
  // What the network thread has not seen.
  struct News {
    std::vector<Piece> pieces{};
    std::vector<size_t> ended_prompts{};
    bool is_complete = false;  // nothing follows
  };
  // Of the engine's thread: one of the body's prompts.
  struct PromptState {
    RequestId id = 0;
    std::vector<Clock::time_point> last_tokens{};  // by choice; the epoch before its first
  };

  // On the text pool.
  void Prepare();
  std::optional<ApiError> Prepare(std::vector<EngineRequest>& prompts);
  void WriteAnswer();
  // On the engine's thread.
  void Submit(Engine& engine, std::vector<EngineRequest> prompts);
  void AbortAll(Engine& engine);
  void OnPiece(size_t prompt, const AnswerPiece& piece);
  void OnFinish(Engine& engine, size_t prompt, RequestResult result);
  void NoteEnd(const RequestResult& result);
  void Complete();
  template <typename Add>
  void AddNews(Add&& add);
  // On the network thread.
  void BeginStream(Clock::time_point now);
  void EndStream(std::string bytes);

  // Any thread; ends the job.
  void Refuse(const ApiError& error);
  void Log(int status) const;
  HttpResponse AnswerHead() const;
  double AgeMs() const;

  ServerContext& context_;
  CompletionBoard& board_;
  const Clock::time_point arrival_ = Clock::now();
  RouteCall call_;
  std::atomic<bool> is_gone_ = false;

  // Written before the submission, const afterwards.
  OpenAiRequest body_;
  ResponseHead head_;
  Request asked_;  // as every prompt's request, the prompt left out

  // Of the engine's thread. The answer of a prompt that has ended is not written again, and who is
  // told of the end may read it.
  std::vector<PromptState> prompts_;
  std::vector<PromptAnswer> answers_;
  size_t num_open_ = 0;
  bool is_refused_ = false;        // a prompt was, and the whole body with it
  std::optional<ApiError> error_;  // what ended it early; const once it is complete

  std::mutex mutex_;  // of the next two
  News news_;
  bool is_announced_ = false;

  // Of the network thread.
  std::unique_ptr<ChunkWriter> writer_;
  Clock::time_point last_write_{};  // the epoch before the stream has begun
  bool has_ended_ = false;
};

}  // namespace quire
