// The server as a whole: listens at once, answers 503 while the model loads, serves, drains.
//
//   Listen -> (load the model) -> Serve -> Drain -> destroyed
//
// SIGTERM's way: Drain takes no new request (503), ends the streams of /quire/events, lets the
// requests under way end or reach the drain deadline, and returns.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "engine/engine.h"
#include "server/http/http_server.h"
#include "server/routes/router.h"
#include "server/server_context.h"
#include "server/server_log.h"
#include "server/tenants.h"

namespace quire {

class TraceSink;

struct ServerOptions {
  HttpOptions http{};
  RouterOptions router{};
  ServerLimits limits{};
  Tenants tenants{};
  LogOptions log{};
  int text_threads = 1;
};

class Server {
 public:
  // Listens, and answers /live with 200 and everything else with 503 until Serve.
  static Result<std::unique_ptr<Server>> Listen(ServerOptions options);
  ~Server();

  // Takes the engine; from here on requests are answered. Once.
  void Serve(std::unique_ptr<Engine> engine, ServedModel model);
  // Waits until all requests have ended, at most so long; what is under way then is aborted. True
  // when nothing had to be.
  bool Drain(std::chrono::milliseconds deadline);

  // What the page's listeners are told by: EngineOptions::trace of the engine that Serve takes, or
  // one of its sinks. Lives as long as the server.
  TraceSink& live();

  std::string url() const;
  int port() const;
  ServerLog& log();

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace quire
