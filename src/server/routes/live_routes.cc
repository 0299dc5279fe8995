// The page for people, and what it asks for: events as they happen, the blocks, the tree of
// prefixes. What they show is everybody's, so that with keys they are for admins alone.
#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "formats/printable.h"
#include "server/http/query.h"
#include "server/live/block_body.h"
#include "server/live/tree_body.h"
#include "server/page/page.h"
#include "server/routes/completion_request.h"
#include "server/routes/routes.h"

namespace quire {
namespace {

constexpr size_t kMostTreeNodes = 10'000;

// Whether a client that names this tag has the page already. "*" and weak tags count, too.
bool HasTag(const HttpRequest& request, std::string_view tag) {
  const std::string* sent = FindHeader(request.headers, "If-None-Match");
  return sent != nullptr && (*sent == "*" || sent->find(tag) != std::string::npos);
}

void AnswerPage(const RouteCall& call) {
  const HttpHeaders headers = {{"ETag", PageTag()},
                               {"Cache-Control", "no-cache"},
                               {"Content-Security-Policy", PagePolicy()},
                               {"X-Content-Type-Options", "nosniff"},
                               {"Referrer-Policy", "no-referrer"}};
  if (HasTag(call.request, PageTag())) {
    return call.exchange->Respond({.status = 304, .content_type = "", .headers = headers});
  }
  call.exchange->Respond({.content_type = "text/html; charset=utf-8",
                          .body = std::string(PageHtml()),
                          .headers = headers});
}

ApiError BadField(std::string_view name, std::string_view expected, std::string_view got) {
  return {.status = 400,
          .message = fmt::format("the query's {} must be {}; got '{}'", name, expected,
                                 Printable(got, 80)),
          .param = std::string(name),
          .code = "invalid_value"};
}

// "blocks,operators" as the details of these names; empty asks for none.
std::variant<LiveDetail, ApiError> ReadDetail(const HttpRequest& request) {
  LiveDetail detail;
  for (const auto& [name, value] : ParseQuery(request.query)) {
    if (name != "detail") continue;
    std::string_view rest = value;
    while (!rest.empty()) {
      const std::string_view word = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(word.size() + 1, rest.size()));
      if (word == "blocks") {
        detail.blocks = true;
      } else if (word == "operators") {
        detail.operators = true;
      } else if (word == "candidates") {
        detail.candidates = true;
      } else {
        return BadField("detail", "a list of blocks, operators, candidates", value);
      }
    }
  }
  return detail;
}

LiveStatus StatusOf(const EngineStatus& status) {
  return {.num_running = status.num_running,
          .num_waiting = status.num_waiting,
          .used_blocks = status.kv.used_blocks,
          .cached_blocks = status.kv.cached_blocks,
          .free_blocks = status.kv.free_blocks};
}

// Text pool.
void Join(ServerContext& context, RouteCall call) {
  const auto detail = ReadDetail(call.request);
  if (const auto* error = std::get_if<ApiError>(&detail))
    return RespondError(context, call, *error);
  // HEAD asks what kind of answer there is, and not for a stream without an end.
  if (call.request.method == "HEAD") {
    return call.exchange->Respond({.content_type = "text/event-stream; charset=utf-8"});
  }
  switch (context.live.Join(call.exchange, std::get<LiveDetail>(detail),
                            StatusOf(context.engine.status()))) {
    case LiveHub::Joined::kYes:
      return;
    case LiveHub::Joined::kTooMany:
      return RespondError(
          context, call,
          {.status = 429,
           .message = fmt::format("{} listen to /quire/events, and no more than that may; close "
                                  "another page",
                                  LiveHub::kMaxListeners),
           .type = "rate_limit_error",
           .code = "rate_limit_exceeded"},
          {{"Retry-After", "10"}});
    case LiveHub::Joined::kClosed:
      return RespondError(context, call, ShuttingDown());
  }
}

void AnswerBlocks(ServerContext& context, RouteCall call) {
  const bool is_taken = context.engine.Post([&context, call](Engine& engine) {
    // Tiers live as long as the engine, and are for any thread.
    context.text.Post([&context, call, blocks = MapOwnedBlocks(engine), tiers = engine.tiers()] {
      call.exchange->Respond(
          {.body = BlockBody(blocks, context.engine.layout(), context.live.NowMs(), tiers)});
    });
  });
  if (!is_taken) RespondError(context, call, ShuttingDown());
}

// 500 where the query has none.
std::variant<size_t, ApiError> ReadLimit(const HttpRequest& request) {
  size_t limit = 500;
  for (const auto& [name, value] : ParseQuery(request.query)) {
    if (name != "limit") continue;
    const char* const end = value.data() + value.size();
    const auto parsed = std::from_chars(value.data(), end, limit);
    if (parsed.ec != std::errc() || parsed.ptr != end || limit < 1 || limit > kMostTreeNodes) {
      return BadField("limit", fmt::format("a number of nodes from 1 to {}", kMostTreeNodes),
                      value);
    }
  }
  return limit;
}

void AnswerTree(ServerContext& context, RouteCall call) {
  const auto limit = ReadLimit(call.request);
  if (const auto* error = std::get_if<ApiError>(&limit)) return RespondError(context, call, *error);
  const bool is_taken =
      context.engine.Post([&context, call, limit = std::get<size_t>(limit)](Engine& engine) {
        // Tiers live as long as the engine, and are for any thread.
        context.text.Post([&context, call, limit, entries = ListPrefixes(engine.cache()),
                           tiers = engine.tiers()] {
          call.exchange->Respond(
              {.body = TreeBody(entries, limit, context.engine.model().tokenizer(), tiers)});
        });
      });
  if (!is_taken) RespondError(context, call, ShuttingDown());
}

using Answer = void (*)(ServerContext& context, RouteCall call);

void AddAdminRoute(Router& router, ServerContext& context, std::string path, Answer answer) {
  router.Add({.method = "GET",
              .path = std::move(path),
              .handler = [&context, answer](RouteCall call) { answer(context, std::move(call)); },
              .needs_admin = true});
}

}  // namespace

void AddLiveRoutes(Router& router, ServerContext& context) {
  router.Add({.method = "GET",
              .path = "/",
              .handler = [](RouteCall call) { AnswerPage(call); },
              .needs_key = false});
  AddAdminRoute(router, context, "/quire/events", [](ServerContext& context, RouteCall call) {
    context.text.Post(
        [&context, call = std::move(call)]() mutable { Join(context, std::move(call)); });
  });
  AddAdminRoute(router, context, "/quire/blocks", AnswerBlocks);
  AddAdminRoute(router, context, "/quire/tree", AnswerTree);
}

}  // namespace quire
