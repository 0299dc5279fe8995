// A server without sockets: all routes over a tiny model, asked through fake exchanges.
//
// Tokens: 0 <end>, 1 <user>, 2 <bot>, 3 a, 4 b, 5 c. After any token the model says "a". Text and
// network work runs where it is posted, the engine on its own thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "server/routes/router.h"
#include "server/server_context.h"
#include "support/scratch_directory.h"

namespace quire::testing {

struct RigAnswer {
  int status = 0;
  std::string body{};
  HttpHeaders headers{};

  // Of a header that is there once; "" where it is absent.
  std::string Header(std::string_view name) const;
};

struct RoutesRigOptions {
  Tenants tenants{};
  RouterOptions router{};
  int num_blocks = 64;
};

class RoutesRig {
 public:
  explicit RoutesRig(RoutesRigOptions options = {});
  ~RoutesRig();

  RigAnswer Ask(HttpRequest request);
  RigAnswer Ask(std::string_view method, std::string_view path, std::string_view body = {},
                std::string_view key = {});

  ServerContext& context() { return *context_; }
  Router& router() { return *router_; }
  void StopEngine() { engine_->Stop(); }

 private:
  ScratchDirectory directory_;
  RoutesRigOptions options_;
  InlineTaskQueue inline_;
  LiveHub live_;
  ServerLog log_;
  std::unique_ptr<ServerMetrics> metrics_;
  std::unique_ptr<EngineThread> engine_;
  std::unique_ptr<ServerContext> context_;
  std::unique_ptr<Router> router_;
};

}  // namespace quire::testing
