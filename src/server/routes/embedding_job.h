// One request for embeddings on its way through the server.
//
//   network thread: Start
//   text pool:      reads the body, encodes
//   engine's thread: submits every input or none, collects results
//   text pool:      writes the answer
//
// A client that has gone has no request in the engine after the step under way.
// Kept alive by whoever has it to work on next.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "server/openai/embedding.h"
#include "server/routes/router.h"

namespace quire {

class EmbeddingJob : public std::enable_shared_from_this<EmbeddingJob> {
 public:
  EmbeddingJob(ServerContext& context, RouteCall call);

  // On the network thread. Once.
  void Start();

 private:
  // On the text pool.
  void Prepare();
  std::optional<ApiError> Prepare(std::vector<EngineRequest>& inputs);
  void WriteAnswer();
  // On the engine's thread.
  void Submit(Engine& engine, std::vector<EngineRequest> inputs);
  void AbortAll(Engine& engine);
  void OnFinish(Engine& engine, size_t input, RequestResult result);

  void Log(int status) const;
  double AgeMs() const;

  ServerContext& context_;
  const std::chrono::steady_clock::time_point arrival_ = std::chrono::steady_clock::now();
  RouteCall call_;
  std::atomic<bool> is_gone_ = false;

  // Written before the submission, const afterwards.
  EmbeddingRequest body_;

  // Of the engine's thread until the last has ended.
  std::vector<Request> asked_;  // the prompts left out
  std::vector<RequestId> ids_;  // 0 = not submitted, or ended
  std::vector<RequestResult> results_;
  size_t num_open_ = 0;
  bool is_refused_ = false;
  std::optional<ApiError> error_;
};

}  // namespace quire
