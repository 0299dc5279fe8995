// Which path is answered by whom.
//
// Checks what all routes have in common: the API key (401), the method (405 with Allow, HEAD as
// GET, OPTIONS for CORS), and what nobody answers (404 in OpenAI's error form, with a hint where a
// neighbour's path was meant; routes/neighbour_paths.h). Gives every answer its X-Request-Id (the
// client's own where it is printable ASCII of at most 128 characters, one made here otherwise) and
// the headers of CORS. A slash at a path's end does not matter.
//
// Without keys, the name that a request asks for is looked at instead (403; routes/host_names.h):
// "/" and what is below /quire, which shows what others asked, is answered under the server's own
// names alone. Under any other name the rest is answered to programs, and refused to what has an
// Origin, as browsers give the scripts of pages, unless CORS lets that in. What needs no key where
// there are keys, and /metrics, is there under any name.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/api_error.h"
#include "server/http/http_exchange.h"
#include "server/routes/host_names.h"
#include "server/server_context.h"

namespace quire {

// One request on its way through a route.
struct RouteCall {
  HttpRequest request{};
  Caller caller{};
  // Of a route that ends in '*': what stands there, percent-decoded. Any bytes.
  std::string path_rest{};
  std::shared_ptr<HttpExchange> exchange{};
};

using RouteHandler = std::function<void(RouteCall call)>;

struct Route {
  std::string method{};  // "GET"
  std::string path{};    // "/v1/models"; "/v1/models/*" takes all that begins so and goes on
  RouteHandler handler{};
  bool needs_key = true;  // off: /health, /live, /version
  bool needs_admin = false;
};

struct RouterOptions {
  std::vector<std::string> cors_origins{};   // "*" = any; empty = no CORS headers
  std::vector<std::string> allowed_hosts{};  // patterns, beside those that are always the server's
};

class Router {
 public:
  Router(ServerContext& context, RouterOptions options);

  // Before the first Handle.
  void Add(Route route);
  // On the network thread; an HttpHandler.
  void Handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) const;

  const std::vector<Route>& routes() const { return routes_; }

 private:
  bool IsAskedByItsName(const Route& route, const HttpRequest& request) const;

  ServerContext& context_;
  RouterOptions options_;
  HostNames host_names_;
  std::vector<Route> routes_;
};

// Answers with an error in OpenAI's form; counts it, and logs its status and code. 429 and 503 get
// a Retry-After where the headers have none.
void RespondError(ServerContext& context, RouteCall& call, const ApiError& error,
                  HttpHeaders headers = {});

}  // namespace quire
