#include "server/routes/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/routes_rig.h"

namespace quire {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::RigAnswer;
using testing::RoutesRig;

Tenants UserAndAdmin() {
  return Tenants::FromJson(R"({"keys": [{"key": "sk-user-key", "name": "user"},
                                        {"key": "sk-admin-key", "name": "admin", "admin": true}]})")
      .value();
}

TEST(Router, AnswersAnUnknownPathWithA404InOpenAisForm) {
  RoutesRig rig;
  const RigAnswer answer = rig.Ask("GET", "/nowhere");
  EXPECT_EQ(answer.status, 404);
  EXPECT_THAT(answer.body,
              AllOf(HasSubstr(R"("type":"invalid_request_error")"), HasSubstr(R"("param":null)"),
                    HasSubstr("unknown_url"), HasSubstr("/nowhere"), HasSubstr("/openapi.json")));
}

struct Hint {
  const char* path;
  const char* hint;
};

TEST(Router, TellsWhatANeighboursPathMeant) {
  RoutesRig rig;
  for (const auto& [path, hint] : {Hint{"/api/chat", "POST /v1/chat/completions"},
                                   {"/api/generate", "POST /v1/completions"},
                                   {"/api/tags", "GET /v1/models"},
                                   {"/api/blobs/1", "Ollama"},
                                   {"/completion", "POST /v1/completions"},
                                   {"/props", "/quire/plan"},
                                   {"/slots", "/quire/cache"},
                                   {"/slots/3", "/quire/cache"},
                                   {"/infill", "suffix"},
                                   {"/apply-template", "/v1/chat/completions/render"},
                                   {"/v1/messages", "Anthropic"},
                                   {"/v1/messages/count_tokens", "Anthropic"},
                                   {"/v1/responses", "POST /v1/chat/completions"},
                                   {"/v1/responses/resp_1", "POST /v1/chat/completions"},
                                   {"/v1/audio/speech", "text alone"},
                                   {"/v1/images/generations", "text alone"},
                                   {"/generate", "POST /v1/completions"},
                                   {"/chat/completions", "must end in /v1"},
                                   {"/models", "must end in /v1"},
                                   {"/v1/v1/chat/completions", "once too often"},
                                   {"/v1/tokenize", "use /tokenize"},
                                   {"/v1/health", "use /health"},
                                   {"/v1", "base URL"},
                                   {"/v1/", "base URL"}}) {
    const RigAnswer answer = rig.Ask("POST", path);
    EXPECT_EQ(answer.status, 404) << path;
    EXPECT_THAT(answer.body, HasSubstr(hint)) << path;
  }
}

TEST(Router, PrintsAPathOfAnyBytes) {
  RoutesRig rig;
  const RigAnswer answer = rig.Ask("GET", std::string("/\xff\x1b[2J\0x", 7));
  EXPECT_EQ(answer.status, 404);
  EXPECT_THAT(answer.body, AllOf(HasSubstr("\\\\xff"), Not(HasSubstr("\x1b"))));
  EXPECT_LT(rig.Ask("GET", "/" + std::string(30'000, 'x')).body.size(), 1000u);
}

TEST(Router, ToleratesASlashAtTheEnd) {
  RoutesRig rig;
  EXPECT_EQ(rig.Ask("GET", "/health/").status, 200);
  EXPECT_EQ(rig.Ask("GET", "/v1/models/").body, rig.Ask("GET", "/v1/models").body);
  EXPECT_EQ(rig.Ask("GET", "/v1/models/rig/").status, 200);
  EXPECT_EQ(rig.Ask("GET", "/health//").status, 404);
}

TEST(Router, RefusesABodyThatIsCompressed) {
  RoutesRig rig;
  const auto ask = [&](const char* coding) {
    return rig.Ask({.method = "POST",
                    .path = "/tokenize",
                    .headers = {{"Content-Encoding", coding}},
                    .body = R"({"prompt":"a"})"});
  };
  const RigAnswer answer = ask("gzip");
  EXPECT_EQ(answer.status, 415);
  EXPECT_THAT(answer.body, HasSubstr("gzip"));
  EXPECT_EQ(ask("identity").status, 200);
}

TEST(Router, AnswersAWrongMethodWithWhatIsAllowed) {
  RoutesRig rig;
  const RigAnswer get = rig.Ask("GET", "/v1/chat/completions");
  EXPECT_EQ(get.status, 405);
  EXPECT_EQ(get.Header("Allow"), "POST, OPTIONS");
  EXPECT_THAT(get.body, HasSubstr("method_not_allowed"));
  EXPECT_EQ(rig.Ask("PUT", "/quire/pins").Header("Allow"), "GET, HEAD, POST, OPTIONS");
  EXPECT_EQ(rig.Ask("DELETE", "/v1/models/rig").Header("Allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(rig.Ask("BREW\x01", "/health").status, 405);
  EXPECT_EQ(rig.Ask("get", "/health").status, 405);
}

TEST(Router, AnswersHeadAsGet) {
  RoutesRig rig;
  // The connection leaves the body away; its length is that of GET.
  EXPECT_EQ(rig.Ask("HEAD", "/v1/models").body, rig.Ask("GET", "/v1/models").body);
  EXPECT_EQ(rig.Ask("HEAD", "/tokenize").status, 405);
}

TEST(Router, AsksForAKeyWhereThereAreKeys) {
  RoutesRig rig({.tenants = UserAndAdmin()});
  const RigAnswer none = rig.Ask("GET", "/v1/models");
  EXPECT_EQ(none.status, 401);
  EXPECT_THAT(none.Header("WWW-Authenticate"), HasSubstr("Bearer"));
  EXPECT_THAT(none.body, HasSubstr("invalid_api_key"));
  const RigAnswer wrong = rig.Ask("GET", "/v1/models", "", "sk-wrong-key");
  EXPECT_EQ(wrong.status, 401);
  EXPECT_THAT(wrong.body, Not(HasSubstr("sk-wrong-key")));
  EXPECT_EQ(rig.Ask("GET", "/v1/models", "", "sk-user-key").status, 200);
  for (const char* open : {"/health", "/live", "/version", "/openapi.json"}) {
    EXPECT_EQ(rig.Ask("GET", open).status, 200) << open;
  }
  EXPECT_EQ(rig.Ask("OPTIONS", "/v1/models").status, 204);
}

TEST(Router, EveryOtherRouteRefusesWhoHasNoKey) {
  RoutesRig rig({.tenants = UserAndAdmin()});
  int num_closed = 0;
  for (const Route& route : rig.router().routes()) {
    std::string path = route.path;
    if (path.ends_with('*')) path.back() = 'x';
    if (!route.needs_key) continue;
    ++num_closed;
    EXPECT_EQ(rig.Ask(route.method, path, "{}").status, 401) << path;
  }
  EXPECT_GE(num_closed, 14);
}

TEST(Router, KeepsWhatIsEverybodysForAdmins) {
  RoutesRig rig({.tenants = UserAndAdmin()});
  for (const char* path : {"/metrics", "/quire/cache", "/quire/plan"}) {
    const RigAnswer refused = rig.Ask("GET", path, "", "sk-user-key");
    EXPECT_EQ(refused.status, 403) << path;
    EXPECT_THAT(refused.body, HasSubstr("insufficient_permissions"));
    EXPECT_EQ(rig.Ask("GET", path, "", "sk-admin-key").status, 200) << path;
  }
}

TEST(Router, GivesEveryAnswerItsRequestId) {
  RoutesRig rig;
  const auto ask = [&](std::string id, std::string path) {
    HttpRequest request{.method = "GET", .path = std::move(path)};
    if (!id.empty()) request.headers = {{"x-request-id", std::move(id)}};
    return rig.Ask(std::move(request)).Header("X-Request-Id");
  };
  EXPECT_EQ(ask("my-id-7", "/health"), "my-id-7");
  EXPECT_EQ(ask("my-id-7", "/nowhere"), "my-id-7");
  EXPECT_EQ(ask(std::string(128, 'x'), "/health"), std::string(128, 'x'));
  for (const std::string& id : {std::string(), std::string(129, 'x'), std::string("a b"),
                                std::string("a\r\nb"), std::string("\xc3\xa9")}) {
    EXPECT_THAT(ask(id, "/health"), ::testing::MatchesRegex("req_[0-9a-f]*")) << id;
  }
  EXPECT_NE(ask("", "/health"), ask("", "/health"));
}

TEST(Router, GivesAStreamItsRequestIdToo) {
  RoutesRig rig;
  HttpRequest request{.method = "POST", .path = "/v1/completions"};
  request.headers = {{"X-Request-Id", "streamed"}};
  request.body = R"({"prompt": "ab", "max_tokens": 2, "stream": true})";
  const RigAnswer answer = rig.Ask(std::move(request));
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.body, HasSubstr("data: [DONE]"));
  EXPECT_EQ(answer.Header("X-Request-Id"), "streamed");
}

class CorsTest : public ::testing::Test {
 protected:
  static RigAnswer Ask(RoutesRig& rig, std::string method, std::string origin,
                       HttpHeaders more = {}) {
    HttpRequest request{.method = std::move(method), .path = "/v1/models"};
    request.headers = std::move(more);
    if (!origin.empty()) request.headers.emplace_back("Origin", origin);
    return rig.Ask(std::move(request));
  }
};

TEST_F(CorsTest, IsOffUnlessAskedFor) {
  RoutesRig rig;
  const RigAnswer answer = Ask(rig, "GET", "https://app.example");
  EXPECT_EQ(answer.Header("Access-Control-Allow-Origin"), "");
  EXPECT_EQ(answer.Header("Vary"), "");
  const RigAnswer preflight =
      Ask(rig, "OPTIONS", "https://app.example", {{"Access-Control-Request-Method", "POST"}});
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.Header("Allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(preflight.Header("Access-Control-Allow-Methods"), "");
}

TEST_F(CorsTest, NamesAnOriginOfTheListAndNoOther) {
  RoutesRig rig({.router = {.cors_origins = {"https://a.example", "https://b.example"}}});
  const RigAnswer listed = Ask(rig, "GET", "https://b.example");
  EXPECT_EQ(listed.Header("Access-Control-Allow-Origin"), "https://b.example");
  EXPECT_EQ(listed.Header("Vary"), "Origin");
  for (const char* other : {"", "null", "https://b.example.evil", "HTTPS://B.EXAMPLE"}) {
    const RigAnswer answer = Ask(rig, "GET", other);
    EXPECT_EQ(answer.Header("Access-Control-Allow-Origin"), "") << other;
    EXPECT_EQ(answer.Header("Vary"), "Origin") << other;
  }
}

TEST_F(CorsTest, AnswersAPreflightWithWhatMayBeSent) {
  RoutesRig rig({.tenants = UserAndAdmin(), .router = {.cors_origins = {"*"}}});
  const RigAnswer answer =
      Ask(rig, "OPTIONS", "https://app.example",
          {{"Access-Control-Request-Method", "GET"},
           {"Access-Control-Request-Headers", "authorization,x-stainless-os"}});
  EXPECT_EQ(answer.status, 204);
  EXPECT_EQ(answer.Header("Access-Control-Allow-Origin"), "*");
  EXPECT_EQ(answer.Header("Access-Control-Allow-Methods"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(answer.Header("Access-Control-Allow-Headers"), "authorization,x-stainless-os");
  const RigAnswer odd = Ask(rig, "OPTIONS", "https://app.example",
                            {{"Access-Control-Request-Method", "GET"},
                             {"Access-Control-Request-Headers", "a\r\nSet-Cookie: b"}});
  EXPECT_THAT(odd.Header("Access-Control-Allow-Headers"), HasSubstr("Authorization"));
}

TEST_F(CorsTest, ErrorsAreReadableToThePageToo) {
  RoutesRig rig({.tenants = UserAndAdmin(), .router = {.cors_origins = {"https://a.example"}}});
  const RigAnswer answer = Ask(rig, "GET", "https://a.example");
  EXPECT_EQ(answer.status, 401);
  EXPECT_EQ(answer.Header("Access-Control-Allow-Origin"), "https://a.example");
  EXPECT_THAT(answer.Header("Access-Control-Expose-Headers"), HasSubstr("X-Request-Id"));
}

// A page of a site whose name resolves to this machine.
class HostTest : public ::testing::Test {
 protected:
  static RigAnswer Ask(RoutesRig& rig, std::string method, std::string path, std::string host,
                       HttpHeaders more = {}) {
    HttpRequest request{.method = std::move(method), .path = std::move(path), .body = "{}"};
    request.headers = std::move(more);
    request.headers.emplace_back("Host", std::move(host));
    return rig.Ask(std::move(request));
  }
  static bool IsRefused(const RigAnswer& answer) {
    return answer.status == 403 && answer.body.find("host_not_allowed") != std::string::npos;
  }
};

TEST_F(HostTest, WhatShowsTheCacheIsAnsweredUnderItsOwnNamesAlone) {
  RoutesRig rig;
  int num_checked = 0;
  for (const Route& route : rig.router().routes()) {
    if (route.path != "/" && !route.path.starts_with("/quire/")) continue;
    ++num_checked;
    std::string path = route.path;
    if (path.ends_with('*')) path.back() = 'x';
    EXPECT_TRUE(IsRefused(Ask(rig, route.method, path, "evil.example:8080"))) << path;
    // Events have no end.
    if (path == "/quire/events") continue;
    EXPECT_FALSE(IsRefused(Ask(rig, route.method, path, "localhost:8080"))) << path;
  }
  EXPECT_GE(num_checked, 12);
  EXPECT_TRUE(IsRefused(Ask(rig, "GET", "/quire/cache/", "evil.example")));
  EXPECT_TRUE(IsRefused(Ask(rig, "HEAD", "/quire/cache", "evil.example")));
}

TEST_F(HostTest, TheRefusalSaysWhatToDo) {
  RoutesRig rig;
  const RigAnswer answer = Ask(rig, "GET", "/quire/tree", "Evil.example:8080");
  EXPECT_EQ(answer.status, 403);
  EXPECT_THAT(answer.body, AllOf(HasSubstr("'Evil.example:8080'"), HasSubstr("--allowed-hosts"),
                                 HasSubstr("--api-key"), HasSubstr("permission_error")));
  EXPECT_THAT(Ask(rig, "GET", "/", "a\x1b" + std::string(50'000, 'b')).body,
              AllOf(Not(HasSubstr("\x1b")), ::testing::SizeIs(::testing::Lt(1000u))));
}

TEST_F(HostTest, WhatWatchesTheServerAsksUnderAnyName) {
  RoutesRig rig;
  for (const char* path : {"/health", "/live", "/version", "/openapi.json", "/metrics"}) {
    EXPECT_EQ(Ask(rig, "GET", path, "quire:8080").status, 200) << path;
    EXPECT_EQ(Ask(rig, "GET", path, "quire:8080", {{"Origin", "http://quire:8080"}}).status, 200);
  }
  EXPECT_EQ(Ask(rig, "OPTIONS", "/quire/cache", "quire").status, 204);
  EXPECT_EQ(Ask(rig, "GET", "/nowhere", "quire").status, 404);
}

TEST_F(HostTest, ProgramsMayCallTheModelByAnyNameAndPagesMayNot) {
  RoutesRig rig;
  const HttpHeaders origin = {{"Origin", "http://evil.example:8080"}};
  EXPECT_EQ(Ask(rig, "GET", "/v1/models", "quire:8080").status, 200);
  int num_posts = 0;
  for (const Route& route : rig.router().routes()) {
    if (route.method != "POST" || route.path.starts_with("/quire/")) continue;
    ++num_posts;
    EXPECT_EQ(Ask(rig, "POST", route.path, "quire:8080").status, 400) << route.path;
    EXPECT_TRUE(IsRefused(Ask(rig, "POST", route.path, "evil.example:8080", origin))) << route.path;
    EXPECT_TRUE(IsRefused(Ask(rig, "POST", route.path, "evil.example", {{"Origin", "null"}})));
    // The page of this server, and whoever else talks to it by its own name.
    EXPECT_EQ(Ask(rig, "POST", route.path, "127.0.0.1:8080", origin).status, 400) << route.path;
  }
  EXPECT_GE(num_posts, 7);
}

TEST_F(HostTest, AnOriginThatCorsLetsInMayCallTheModelByAnyName) {
  const HttpHeaders origin = {{"Origin", "https://app.example"}};
  RoutesRig one({.router = {.cors_origins = {"https://app.example"}}});
  EXPECT_EQ(Ask(one, "POST", "/v1/completions", "quire", origin).status, 400);
  EXPECT_TRUE(
      IsRefused(Ask(one, "POST", "/v1/completions", "quire", {{"Origin", "http://quire"}})));
  EXPECT_TRUE(IsRefused(Ask(one, "GET", "/quire/cache", "quire", origin)));
  RoutesRig any({.router = {.cors_origins = {"*"}}});
  EXPECT_EQ(Ask(any, "POST", "/v1/completions", "quire", origin).status, 400);
}

TEST_F(HostTest, ListedNamesAreAnswered) {
  RoutesRig rig({.router = {.allowed_hosts = {"quire", "*.lan"}}});
  for (const char* host : {"quire:8080", "box.lan", "BOX.LAN.", "localhost"}) {
    EXPECT_EQ(Ask(rig, "GET", "/quire/cache", host).status, 200) << host;
  }
  EXPECT_TRUE(IsRefused(Ask(rig, "GET", "/quire/cache", "evil.example")));
  RoutesRig any({.router = {.allowed_hosts = {"*"}}});
  EXPECT_EQ(Ask(any, "GET", "/quire/cache", "evil.example").status, 200);
}

TEST_F(HostTest, WithKeysTheNameDoesNotMatter) {
  RoutesRig rig({.tenants = UserAndAdmin()});
  EXPECT_EQ(Ask(rig, "GET", "/", "evil.example").status, 200);
  EXPECT_EQ(Ask(rig, "GET", "/quire/cache", "evil.example").status, 401);
  EXPECT_EQ(
      Ask(rig, "GET", "/quire/cache", "evil.example", {{"Authorization", "Bearer sk-admin-key"}})
          .status,
      200);
}

TEST(RouterDeathTest, ARouteTwiceIsAFaultOfOurs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  RoutesRig rig;
  const Route again{.method = "GET", .path = "/health", .handler = [](RouteCall) {}};
  EXPECT_DEATH(rig.router().Add(again), "twice");
}

}  // namespace
}  // namespace quire
