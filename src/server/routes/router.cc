#include "server/routes/router.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/check.h"
#include "formats/printable.h"
#include "sampling/seed.h"
#include "server/http/query.h"
#include "server/routes/neighbour_paths.h"

namespace quire {
namespace {

constexpr std::string_view kRequestIdHeader = "X-Request-Id";
constexpr size_t kMaxRequestId = 128;
constexpr std::string_view kExposedHeaders = "X-Request-Id, X-Quire-Ignored-Fields, Retry-After";
constexpr std::string_view kUsualRequestHeaders = "Authorization, Content-Type, X-Request-Id";

// Gives every answer that goes through it the same further headers.
class HeaderAddingExchange : public HttpExchange {
 public:
  HeaderAddingExchange(std::shared_ptr<HttpExchange> inner, HttpHeaders headers)
      : inner_(std::move(inner)), headers_(std::move(headers)) {}

  void Respond(HttpResponse response) override { inner_->Respond(With(std::move(response))); }
  void BeginStream(HttpResponse head) override { inner_->BeginStream(With(std::move(head))); }
  void Write(std::string bytes) override { inner_->Write(std::move(bytes)); }
  void EndStream() override { inner_->EndStream(); }
  void OnGone(std::function<void()> callback) override { inner_->OnGone(std::move(callback)); }
  size_t unsent_bytes() const override { return inner_->unsent_bytes(); }

 private:
  HttpResponse With(HttpResponse response) const {
    for (const auto& [name, value] : headers_) {
      if (FindHeader(response.headers, name) == nullptr) response.headers.emplace_back(name, value);
    }
    return response;
  }

  std::shared_ptr<HttpExchange> inner_;
  HttpHeaders headers_;
};

bool IsSaneRequestId(std::string_view id) {
  return !id.empty() && id.size() <= kMaxRequestId &&
         std::ranges::all_of(id, [](char c) { return c > ' ' && c <= '~'; });
}

std::string RequestIdOf(const HttpRequest& request) {
  const std::string* sent = FindHeader(request.headers, kRequestIdHeader);
  if (sent != nullptr && IsSaneRequestId(*sent)) return *sent;
  const auto high = RandomSeed();
  const auto low = RandomSeed();
  return fmt::format("req_{:016x}{:016x}", high.ok() ? *high : 0, low.ok() ? *low : 0);
}

// What stands at the route's '*'; empty for one without. Nothing where the path is another's.
std::optional<std::string_view> Match(const Route& route, std::string_view path) {
  const std::string_view pattern = route.path;
  if (!pattern.ends_with('*')) {
    if (path != pattern) return std::nullopt;
    return std::string_view();
  }
  const std::string_view beginning = pattern.substr(0, pattern.size() - 1);
  if (path.size() <= beginning.size() || !path.starts_with(beginning)) return std::nullopt;
  return path.substr(beginning.size());
}

// Those of the first route that answers the path, and of all others with the same.
std::string AllowedMethods(const std::vector<Route>& routes, std::string_view path) {
  std::string allowed;
  for (const Route& route : routes) {
    if (!Match(route, path)) continue;
    if (!allowed.empty()) allowed += ", ";
    allowed += route.method;
    if (route.method == "GET") allowed += ", HEAD";
  }
  return allowed.empty() ? allowed : allowed + ", OPTIONS";
}

// The headers that a page's script asks to send, where they read like header names.
std::string RequestedHeaders(const HttpRequest& request) {
  const std::string* asked = FindHeader(request.headers, "Access-Control-Request-Headers");
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == ',' || c == ' ';
  };
  if (asked == nullptr || asked->empty() || asked->size() > 2048 ||
      !std::ranges::all_of(*asked, is_plain)) {
    return std::string(kUsualRequestHeaders);
  }
  return *asked;
}

bool IsListed(const std::vector<std::string>& origins, const std::string& origin) {
  return std::ranges::find(origins, origin) != origins.end();
}

// Empty without CORS.
HttpHeaders CorsHeaders(const RouterOptions& options, const HttpRequest& request) {
  const auto& origins = options.cors_origins;
  if (origins.empty()) return {};
  HttpHeaders headers;
  const bool is_any = IsListed(origins, "*");
  const std::string* origin = FindHeader(request.headers, "Origin");
  const bool is_listed = origin != nullptr && IsListed(origins, *origin);
  // A cache in between must not give one origin what was meant for another.
  if (!is_any) headers.emplace_back("Vary", "Origin");
  if (is_any || is_listed) {
    headers.emplace_back("Access-Control-Allow-Origin", is_any ? "*" : *origin);
    headers.emplace_back("Access-Control-Expose-Headers", kExposedHeaders);
  }
  return headers;
}

// The answer to OPTIONS: what may be asked, and to a page's script that it may ask.
HttpResponse AnswerOptions(const RouterOptions& options, const HttpRequest& request,
                           const std::string& allowed) {
  HttpResponse response{.status = 204, .content_type = ""};
  response.headers.emplace_back("Allow", allowed);
  const bool is_preflight = FindHeader(request.headers, "Access-Control-Request-Method") != nullptr;
  if (!is_preflight || options.cors_origins.empty()) return response;
  response.headers.emplace_back("Access-Control-Allow-Methods", allowed);
  response.headers.emplace_back("Access-Control-Allow-Headers", RequestedHeaders(request));
  response.headers.emplace_back("Access-Control-Max-Age", "600");
  return response;
}

ApiError NoSuchMethod(const HttpRequest& request, const std::string& allowed) {
  return {
      .status = 405,
      .message = fmt::format("{} does not answer {}; it answers {}", Printable(request.path, 120),
                             Printable(request.method, 20), allowed),
      .code = "method_not_allowed"};
}

ApiError NoKey(bool has_sent_one) {
  return {.status = 401,
          .message = has_sent_one ? "the API key is none of this server's"
                                  : "this server asks for an API key: send it as the header "
                                    "'Authorization: Bearer KEY'",
          .code = "invalid_api_key"};
}

ApiError NoRight(const Route& route) {
  return {.status = 403,
          .message = fmt::format("{} shows what is everybody's, and is for keys with "
                                 "\"admin\": true alone",
                                 route.path),
          .type = "permission_error",
          .code = "insufficient_permissions"};
}

ApiError NotItsName(const Route& route, const HttpRequest& request) {
  const std::string* host = FindHeader(request.headers, "Host");
  return {.status = 403,
          .message = fmt::format("the host '{}' is not among those that {} is answered for without "
                                 "an API key; start the server with --allowed-hosts NAME or "
                                 "--api-key",
                                 Printable(host == nullptr ? "" : *host, 120), route.path),
          .type = "permission_error",
          .code = "host_not_allowed"};
}

}  // namespace

Router::Router(ServerContext& context, RouterOptions options)
    : context_(context), options_(std::move(options)), host_names_(options_.allowed_hosts) {}

bool Router::IsAskedByItsName(const Route& route, const HttpRequest& request) const {
  const std::string* host = FindHeader(request.headers, "Host");
  if (host == nullptr || host_names_.Has(*host)) return true;
  if (route.path == "/" || route.path.starts_with("/quire/")) return false;
  // Load balancers and Prometheus have names of their own for us.
  if (!route.needs_key || route.path == "/metrics") return true;
  // An answer may quote what is cached (usage.quire). Browsers name the origin of every POST.
  const std::string* origin = FindHeader(request.headers, "Origin");
  return origin == nullptr || IsListed(options_.cors_origins, "*") ||
         IsListed(options_.cors_origins, *origin);
}

void Router::Add(Route route) {
  QUIRE_CHECK(!route.path.empty() && route.path.front() == '/' && route.handler,
              "a route needs a path and a handler");
  const size_t star = route.path.find('*');
  QUIRE_CHECK(star == std::string::npos || route.path.ends_with("/*"),
              "a '*' may only be all of a path's last part");
  QUIRE_CHECK(route.method != "HEAD" && route.method != "OPTIONS", "the router answers these");
  for (const Route& other : routes_) {
    QUIRE_CHECK(other.path != route.path || other.method != route.method, "a route twice");
  }
  routes_.push_back(std::move(route));
}

void Router::Handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) const {
  RouteCall call{.request = std::move(request)};
  call.caller.request_id = RequestIdOf(call.request);
  HttpHeaders headers = CorsHeaders(options_, call.request);
  headers.emplace_back(kRequestIdHeader, call.caller.request_id);
  call.exchange = std::make_shared<HeaderAddingExchange>(std::move(exchange), std::move(headers));

  static const Tenant kNobody;
  const std::string* authorization = FindHeader(call.request.headers, "Authorization");
  const Tenant* tenant = context_.tenants.Authorize(authorization == nullptr ? "" : *authorization);
  call.caller.tenant = tenant == nullptr ? &kNobody : tenant;

  std::string_view path = call.request.path;
  if (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  const std::string allowed = AllowedMethods(routes_, path);
  if (allowed.empty()) {
    return RespondError(context_, call, NoSuchPath(call.request.path, routes_));
  }
  if (call.request.method == "OPTIONS") {
    return call.exchange->Respond(AnswerOptions(options_, call.request, allowed));
  }
  const bool is_head = call.request.method == "HEAD";
  const std::string_view method = is_head ? "GET" : std::string_view(call.request.method);
  const auto found = std::ranges::find_if(routes_, [&](const Route& route) {
    return route.method == method && Match(route, path).has_value();
  });
  if (found == routes_.end()) {
    const ApiError error = NoSuchMethod(call.request, allowed);
    return RespondError(context_, call, error, {{"Allow", allowed}});
  }
  if (!context_.tenants.asks_for_key() && !IsAskedByItsName(*found, call.request)) {
    return RespondError(context_, call, NotItsName(*found, call.request));
  }
  if (found->needs_key && tenant == nullptr) {
    return RespondError(context_, call, NoKey(authorization != nullptr),
                        {{"WWW-Authenticate", "Bearer realm=\"quire\""}});
  }
  if (found->needs_admin && !call.caller.tenant->is_admin) {
    return RespondError(context_, call, NoRight(*found));
  }
  if (const std::string* coding = FindHeader(call.request.headers, "Content-Encoding");
      coding != nullptr && !coding->empty() && *coding != "identity") {
    return RespondError(context_, call,
                        {.status = 415,
                         .message = fmt::format("a body with Content-Encoding '{}' is not read; "
                                                "send it as it is",
                                                Printable(*coding, 40)),
                         .code = "unsupported_content_encoding"});
  }
  call.path_rest = PercentDecoded(*Match(*found, path));
  found->handler(std::move(call));
}

void RespondError(ServerContext& context, RouteCall& call, const ApiError& error,
                  HttpHeaders headers) {
  context.metrics.CountRefusal(error.status);
  // Without the message, which may quote what was asked.
  context.log.Write(LogLevel::kInfo, "refused",
                    {{"id", call.caller.request_id},
                     {"tenant", call.caller.tenant->name},
                     {"method", Printable(call.request.method, 20)},
                     {"path", Printable(call.request.path, 120)},
                     {"status", int64_t{error.status}},
                     {"code", error.code}});
  const bool is_temporary = error.status == 429 || error.status == 503;
  if (is_temporary && FindHeader(headers, "Retry-After") == nullptr) {
    headers.emplace_back("Retry-After", "1");
  }
  call.exchange->Respond(
      {.status = error.status, .body = ToJson(error), .headers = std::move(headers)});
}

}  // namespace quire
