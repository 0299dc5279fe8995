// The routes over a small model, with real threads and without sockets.
//
//   ServingRig rig(path);
//   const auto client = rig.Post("/v1/completions", R"({"prompt":"?"})");
//   ASSERT_TRUE(client->WaitForEnd());
#pragma once

#include <boost/json.hpp>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/routes/router.h"
#include "server/support/fake_exchange.h"
#include "server/text_pool.h"
#include "support/rigs.h"
#include "support/scratch_directory.h"

namespace quire::testing {

struct RigOptions {
  EngineOptions engine{};
  ServerLimits limits{};
  Tenants tenants{};
  LogOptions log{.level = LogLevel::kOff};
};

// One that threads wait at while it is shut.
class Gate {
 public:
  void Shut() { Set(0); }
  // Shut behind so many more.
  void ShutAfter(int64_t count) { Set(count); }
  void Open() { Set(INT64_MAX); }
  void Pass() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return passes_ > 0; });
    if (passes_ != INT64_MAX) --passes_;
  }

 private:
  void Set(int64_t passes) {
    const std::scoped_lock lock(mutex_);
    passes_ = passes;
    wake_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  int64_t passes_ = INT64_MAX;
};

class ServingRig {
 public:
  explicit ServingRig(const std::filesystem::path& model, RigOptions options = {});
  ~ServingRig();

  std::shared_ptr<FakeClient> Send(HttpRequest request);
  std::shared_ptr<FakeClient> Post(const std::string& path, const std::string& body,
                                   HttpHeaders headers = {});
  // The whole answer; the test has failed where none comes.
  std::shared_ptr<FakeClient> Ask(const std::string& path, const std::string& body,
                                  HttpHeaders headers = {});

  // Steps wait at it after their forward pass.
  Gate& steps() { return steps_; }
  // The network thread's tasks wait at it.
  Gate& network_gate() { return network_gate_; }
  // What was to be run on the network thread later: runs it.
  void RunTimers();
  size_t num_timers() const;

  EngineThread& engine() { return *engine_; }
  LiveHub& live() { return live_; }
  ServerContext& context() { return *context_; }
  // Runs on the engine's thread, and waits for it.
  void OnEngine(const EngineThread::Task& task);
  bool WaitUntilIdle();
  // Ends the log, so that all of it is written. Nothing may be asked any more.
  void EndLog();
  // The value of a metric without labels beyond the model's, by the beginning of its line.
  double Metric(const std::string& name) const;

 private:
  class GatedQueue;

  Gate steps_;
  Gate network_gate_;
  Tenants tenants_;
  std::unique_ptr<ServerLog> log_;
  ServerMetrics metrics_;
  LiveHub live_;
  std::unique_ptr<EngineThread> engine_;
  std::unique_ptr<TaskQueue> network_;
  std::unique_ptr<TextPool> text_;
  mutable std::mutex mutex_;  // of the next
  std::vector<std::function<void()>> timers_;
  std::unique_ptr<ServerContext> context_;
  std::unique_ptr<Router> router_;
};

// A model that answers "?" with these pieces, one a token, and then ends; with `repeats`, begins
// again instead. Pieces are any bytes, and all different.
void WriteScriptModel(const std::filesystem::path& path, const std::vector<std::string>& pieces,
                      bool repeats = false, const std::string& chat_template = "");
// One that says any of the letters a to z next, all alike; it never ends.
void WriteLettersModel(const std::filesystem::path& path);

// The events of a stream; the test has failed where it is not made of "data: ...", comments and
// empty lines alone. "[DONE]" is the string.
std::vector<boost::json::value> Events(const std::string& body);
// Events without [DONE].
std::vector<boost::json::object> Chunks(const std::string& body);
// What a choice's chunks of either dialect join to.
std::string StreamedText(const std::string& body, int choice = 0);
// Its finish reasons, those that are null left out.
std::vector<std::string> FinishReasons(const std::string& body, int choice = 0);
boost::json::object Json(const std::string& text);
// Of an answer that is no stream, either dialect.
std::string AnswerText(const std::string& body, size_t choice = 0);

}  // namespace quire::testing
