// The page and what it asks for, of an engine at work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <thread>

#include "server/page/page.h"
#include "server/support/serving_rig.h"
#include "support/memory_tier.h"

namespace quire::testing {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr const char* kKeys = R"({"keys": [{"key": "sk-admin-of-all", "name": "ops", "admin": true},
                                           {"key": "sk-of-a-tenant", "name": "team"}]})";

class LiveRoutesTest : public ::testing::Test {
 protected:
  // Says a, b, a, b, ...
  void Serve(RigOptions options = {}) {
    rig_.reset();
    WriteScriptModel(directory_.path() / "rig.gguf", {"a", "b"}, /*repeats=*/true);
    rig_ = std::make_unique<ServingRig>(directory_.path() / "rig.gguf", std::move(options));
  }
  std::shared_ptr<FakeClient> Get(const std::string& path, const std::string& query = "",
                                  const std::string& key = "", const std::string& method = "GET") {
    HttpRequest request{.method = method, .path = path, .query = query};
    if (!key.empty()) request.headers = {{"Authorization", "Bearer " + key}};
    return rig_->Send(std::move(request));
  }
  json::object Body(const std::string& path, const std::string& query = "") {
    const auto client = Get(path, query);
    EXPECT_TRUE(client->WaitForEnd());
    EXPECT_EQ(client->status(), 200) << client->body();
    return json::parse(client->body()).as_object();
  }
  // Computes an answer to the end.
  void Complete(const std::string& prompt, int max_tokens) {
    const auto client = rig_->Ask(
        "/v1/completions",
        fmt::format(R"({{"prompt":"{}","temperature":0,"max_tokens":{}}})", prompt, max_tokens));
    EXPECT_EQ(client->status(), 200) << client->body();
    EXPECT_TRUE(rig_->WaitUntilIdle());
  }
  std::shared_ptr<FakeClient> Listen(const std::string& detail = "") {
    auto client = Get("/quire/events", detail.empty() ? "" : "detail=" + detail);
    for (int i = 0; i < 4000 && !client->has_begun(); ++i) std::this_thread::sleep_for(5ms);
    EXPECT_EQ(client->status(), 200) << client->body();
    return client;
  }
  // All events that a listener is told until it has this many ends.
  json::array ToldUntilEnds(const FakeClient& client, size_t num_ends) {
    for (int i = 0; i < 4000; ++i) {
      rig_->RunTimers();
      const json::array told = Told(client);
      const auto is_end = [](const json::value& event) { return event.at("event") == "end"; };
      if (static_cast<size_t>(std::ranges::count_if(told, is_end)) >= num_ends) return told;
      std::this_thread::sleep_for(5ms);
    }
    ADD_FAILURE() << "no end is told";
    return {};
  }
  static json::array Told(const FakeClient& client) {
    constexpr std::string_view kHead = "event: events\ndata: ";
    json::array all;
    for (const std::string& chunk : client.chunks()) {
      if (!chunk.starts_with(kHead)) continue;
      const json::value batch = json::parse(chunk.substr(kHead.size()));
      all.insert(all.end(), batch.as_array().begin(), batch.as_array().end());
    }
    return all;
  }

  ScratchDirectory directory_;
  std::unique_ptr<ServingRig> rig_;
};

TEST_F(LiveRoutesTest, ThePageNeedsNoKeyAndIsNamedByItsContent) {
  Serve({.tenants = Tenants::FromJson(kKeys).value()});
  const auto page = Get("/");
  ASSERT_TRUE(page->WaitForEnd());
  EXPECT_EQ(page->status(), 200);
  EXPECT_EQ(page->body(), PageHtml());
  const HttpResponse response = page->response();
  EXPECT_EQ(response.content_type, "text/html; charset=utf-8");
  EXPECT_THAT(*FindHeader(response.headers, "Content-Security-Policy"),
              HasSubstr("default-src 'none'"));
  const std::string tag = *FindHeader(response.headers, "ETag");
  const auto again = rig_->Send(
      {.method = "GET", .path = "/", .headers = {{"If-None-Match", "W/" + tag + ", \"x\""}}});
  ASSERT_TRUE(again->WaitForEnd());
  EXPECT_EQ(again->status(), 304);
  EXPECT_TRUE(again->body().empty());
}

TEST_F(LiveRoutesTest, WhatIsEverybodysIsForAdminsAlone) {
  Serve({.tenants = Tenants::FromJson(kKeys).value()});
  for (const char* path : {"/quire/events", "/quire/blocks", "/quire/tree"}) {
    const auto stranger = Get(path);
    ASSERT_TRUE(stranger->WaitForEnd());
    EXPECT_EQ(stranger->status(), 401) << path;
    const auto tenant = Get(path, "", "sk-of-a-tenant");
    ASSERT_TRUE(tenant->WaitForEnd());
    EXPECT_EQ(tenant->status(), 403) << path;
    EXPECT_THAT(tenant->body(), HasSubstr("admin"));
  }
  EXPECT_EQ(rig_->live().num_listeners(), 0u);
  const auto blocks = Get("/quire/blocks", "", "sk-admin-of-all");
  ASSERT_TRUE(blocks->WaitForEnd());
  EXPECT_EQ(blocks->status(), 200);
}

TEST_F(LiveRoutesTest, EventsTellARequestFromItsArrivalToItsEnd) {
  Serve();
  const auto client = Listen();
  Complete("?", 6);
  const json::array told = ToldUntilEnds(*client, 1);
  std::vector<std::string> kinds;
  std::string text;
  for (const json::value& event : told) {
    kinds.emplace_back(event.at("event").as_string());
    if (kinds.back() == "token") text += std::string(event.at("text").as_string());
  }
  EXPECT_EQ(kinds.front(), "request");
  EXPECT_EQ(kinds.back(), "end");
  EXPECT_EQ(text, "ababab");
  EXPECT_FALSE(std::ranges::count(kinds, "block")) << "nobody has asked for them";
  EXPECT_TRUE(std::string(told.front().at("name").as_string()).starts_with("cmpl-"));
  EXPECT_EQ(told.back().at("reason"), "length");
  EXPECT_EQ(told.back().at("completion_tokens"), 6);
  client->Go();
}

TEST_F(LiveRoutesTest, DetailsComeWhereTheyAreAskedFor) {
  Serve();
  const auto client = Listen("blocks,operators,candidates");
  Complete("?", 20);
  int num_blocks = 0;
  int num_operators = 0;
  int num_candidates = 0;
  for (const json::value& event : ToldUntilEnds(*client, 1)) {
    const json::object& object = event.as_object();
    num_blocks += object.at("event") == "block" ? 1 : 0;
    num_operators += object.contains("operators") ? 1 : 0;
    num_candidates += object.contains("candidates") ? 1 : 0;
  }
  EXPECT_GE(num_blocks, 3) << "two taken, one filled, and given back at the end";
  EXPECT_GE(num_operators, 20);
  EXPECT_EQ(num_candidates, 20);
  client->Go();
  EXPECT_FALSE(rig_->live().detail().blocks);
}

TEST_F(LiveRoutesTest, AnIdlePageAsksForNothing) {
  Serve();
  Complete("?", 5);
  const size_t num_timers = rig_->num_timers();
  const auto client = Listen();
  Complete("?", 5);
  ToldUntilEnds(*client, 1);
  client->Go();
  EXPECT_EQ(rig_->live().num_listeners(), 0u);
  // The comments' timer finds nobody, and sets no other.
  rig_->RunTimers();
  std::this_thread::sleep_for(20ms);
  Complete("?", 5);
  EXPECT_EQ(rig_->num_timers(), num_timers);
}

TEST_F(LiveRoutesTest, AnUnknownDetailIsRefusedWithTheList) {
  Serve();
  const auto client = Get("/quire/events", "detail=blocks,everything");
  ASSERT_TRUE(client->WaitForEnd());
  EXPECT_EQ(client->status(), 400);
  EXPECT_THAT(client->body(), HasSubstr("blocks, operators, candidates"));
  const auto head = Get("/quire/events", "", "", "HEAD");
  ASSERT_TRUE(head->WaitForEnd());
  EXPECT_EQ(head->status(), 200);
  EXPECT_EQ(rig_->live().num_listeners(), 0u);
}

TEST_F(LiveRoutesTest, TheSeventeenthListenerIsToldToWait) {
  Serve();
  std::vector<std::shared_ptr<FakeClient>> clients;
  for (size_t i = 0; i < LiveHub::kMaxListeners; ++i) clients.push_back(Listen());
  const auto refused = Get("/quire/events");
  ASSERT_TRUE(refused->WaitForEnd());
  EXPECT_EQ(refused->status(), 429);
  EXPECT_NE(FindHeader(refused->response().headers, "Retry-After"), nullptr);
  for (const auto& client : clients) client->Go();
  Listen()->Go();
}

TEST_F(LiveRoutesTest, BlocksAreThoseThatTheCacheCounts) {
  Serve();
  Complete("?", 40);
  // Another is at work: its blocks are its own.
  rig_->steps().ShutAfter(20);
  const auto running =
      rig_->Post("/v1/completions", R"({"prompt":"?","temperature":0,"max_tokens":60,"n":2})");
  json::object body;
  json::object blocks;
  std::string states;
  for (int i = 0; i < 4000 && states.find('u') == std::string::npos; ++i) {
    // The engine answers between two steps.
    const auto client = Get("/quire/blocks");
    rig_->steps().ShutAfter(1);
    ASSERT_TRUE(client->WaitForEnd());
    body = json::parse(client->body()).as_object();
    blocks = body.at("blocks").as_object();
    states = std::string(blocks.at("state").as_string());
  }
  EXPECT_EQ(body.at("block_slots"), 16);
  EXPECT_EQ(body.at("groups"), json::array{0});
  int64_t num_owned = 0;
  for (size_t i = 0; i < states.size(); ++i) {
    const bool is_used = states[i] == 'u';
    EXPECT_EQ(blocks.at("references").at(i).as_int64() > 0, is_used);
    EXPECT_EQ(blocks.at("request").at(i).as_int64() > 0, is_used) << i;
    EXPECT_EQ(blocks.at("group").at(i).as_int64(), states[i] == 'f' ? -1 : 0);
    EXPECT_GE(blocks.at("age_ms").at(i).as_int64(), 0);
    num_owned += is_used ? 1 : 0;
  }
  EXPECT_GT(num_owned, 0);
  for (const char* name : {"filled", "references", "group", "request", "age_ms", "tiers"}) {
    EXPECT_EQ(blocks.at(name).as_array().size(), states.size()) << name;
  }
  rig_->steps().Open();
  ASSERT_TRUE(running->WaitForEnd());
  ASSERT_TRUE(rig_->WaitUntilIdle());
  const json::object after = Body("/quire/blocks");
  const auto letters = std::string(after.at("blocks").at("state").as_string());
  EXPECT_EQ(std::ranges::count(letters, 'u'), 0);
  EXPECT_EQ(std::ranges::count(letters, 'c'), rig_->engine().status().kv.cached_blocks);
}

TEST_F(LiveRoutesTest, TheTreeHoldsTheTextsOfWhatIsCached) {
  Serve();
  Complete("?", 200);
  const json::object body = Body("/quire/tree");
  const json::array& nodes = body.at("nodes").as_array();
  ASSERT_EQ(nodes.size(), 1u) << "what has no branches is one node";
  EXPECT_EQ(nodes[0].at("parent"), -1);
  EXPECT_EQ(nodes[0].at("id"), 0);
  // The last token was drawn, and never fed.
  EXPECT_EQ(nodes[0].at("tokens"), 200);
  EXPECT_EQ(nodes[0].at("blocks"), 13);
  EXPECT_EQ(nodes[0].at("used"), false);
  EXPECT_EQ(nodes[0].at("tiers"), json::array{"memory"});
  const auto text = std::string(nodes[0].at("text").as_string());
  EXPECT_EQ(text.size(), 80u);
  EXPECT_TRUE(text.starts_with("?abab")) << text;
  EXPECT_EQ(body.at("truncated"), false);
  EXPECT_EQ(Body("/quire/tree", "limit=1").at("truncated"), false);
  for (const char* limit : {"0", "x", "-1", "10001", "99999999999999999999"}) {
    const auto client = Get("/quire/tree", std::string("limit=") + limit);
    ASSERT_TRUE(client->WaitForEnd());
    EXPECT_EQ(client->status(), 400) << limit;
    EXPECT_EQ(json::parse(client->body()).at("error").at("param"), "limit");
  }
}

TEST_F(LiveRoutesTest, ATextIsCutAtACharacter) {
  WriteScriptModel(directory_.path() / "rig.gguf", {"\xC3\xA9", "\xF0\x9F\x91\xA8"},
                   /*repeats=*/true);
  rig_ = std::make_unique<ServingRig>(directory_.path() / "rig.gguf");
  Complete("?", 200);
  const json::object body = Body("/quire/tree");
  const auto text = std::string(body.at("nodes").at(0).at("text").as_string());
  const auto is_first = [](char c) { return (c & 0xC0) != 0x80; };
  EXPECT_EQ(std::ranges::count_if(text, is_first), 80);
  EXPECT_EQ(text.find("\xEF\xBF\xBD"), std::string::npos) << text;
}

TEST_F(LiveRoutesTest, ANodeNamesTheTiersThatHaveAllOfIt) {
  const auto store = std::make_shared<MemoryStore>();
  RigOptions options;
  options.engine.tiers = {
      .factories = {[store](std::shared_ptr<const RecordCodec> codec) {
        return Result<std::unique_ptr<Tier>>(OpenMemoryTier(std::move(codec), store));
      }},
      .idle_ms = 1};
  Serve(std::move(options));
  Complete("?", 40);
  json::array tiers;
  for (int i = 0; i < 4000 && tiers.size() < 2; ++i) {
    const json::object body = Body("/quire/tree");
    tiers = body.at("nodes").at(0).at("tiers").as_array();
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_EQ(tiers, (json::array{"memory", "disk"}));
  EXPECT_EQ(store->num_records(), 2u) << "of 40 tokens";
}

TEST_F(LiveRoutesTest, ABlockNamesTheTiersThatAreKnownToHaveACopy) {
  const auto near = std::make_shared<MemoryStore>();
  const auto far = std::make_shared<MemoryStore>();
  const auto opens = [](std::shared_ptr<MemoryStore> store, const MemoryTierOptions& options) {
    return [store, options](std::shared_ptr<const RecordCodec> codec) {
      return Result<std::unique_ptr<Tier>>(OpenMemoryTier(std::move(codec), store, options));
    };
  };
  RigOptions options;
  options.engine.tiers = {
      .factories = {opens(near, {}), opens(far, {.kind = TierKind::kRemote, .knows_all = false})},
      .idle_ms = 1};
  Serve(options);
  Complete("?", 40);
  EXPECT_EQ(Body("/quire/blocks").at("tiers"), (json::array{"disk", "remote"}));
  // Two blocks are whole, and stored before long; of 8 tokens none is.
  const auto tiers_of = [this] {
    const json::object body = Body("/quire/blocks");
    json::array tiers = body.at("blocks").at("tiers").as_array();
    std::ranges::sort(tiers, {}, [](const json::value& held) { return held.as_int64(); });
    return tiers;
  };
  json::array tiers;
  for (int i = 0; i < 4000 && tiers != json::array{0, 3, 3}; ++i) {
    tiers = tiers_of();
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_EQ(tiers, (json::array{0, 3, 3}));
  const int64_t num_finds = far->num_finds();
  tiers_of();
  EXPECT_EQ(far->num_finds(), num_finds) << "a tier that would have to be asked is not";
  near->Clear();
  EXPECT_EQ(tiers_of(), (json::array{0, 2, 2}));
}

TEST_F(LiveRoutesTest, WithoutTiersABlockNamesNone) {
  Serve();
  Complete("?", 40);
  const json::object body = Body("/quire/blocks");
  EXPECT_EQ(body.at("tiers"), json::array{});
  EXPECT_EQ(body.at("blocks").at("tiers"), (json::array{0, 0, 0}));
}

TEST_F(LiveRoutesTest, GrowthIsMeasuredOnWhatRuns) {
  Serve();
  EXPECT_TRUE(Body("/quire/growth").at("measured").as_array().empty());
  rig_->steps().ShutAfter(20);
  const auto running =
      rig_->Post("/v1/completions", R"({"prompt":"?","temperature":0,"max_tokens":60})");
  json::array points;
  for (int i = 0; i < 4000 && points.empty(); ++i) {
    const auto client = Get("/quire/growth");
    rig_->steps().ShutAfter(1);
    ASSERT_TRUE(client->WaitForEnd());
    points = json::parse(client->body()).at("measured").as_array();
  }
  ASSERT_EQ(points.size(), 1u);
  EXPECT_GT(points[0].at("tokens").as_int64(), 0);
  EXPECT_EQ(points[0].at("used_blocks"), points[0].at("expected_blocks"));
  rig_->steps().Open();
  ASSERT_TRUE(running->WaitForEnd());
}

TEST_F(LiveRoutesTest, AServerThatEndsTellsListenersSo) {
  Serve();
  const auto client = Listen();
  rig_->live().Close();
  EXPECT_TRUE(client->WaitForEnd());
  const auto late = Get("/quire/events");
  ASSERT_TRUE(late->WaitForEnd());
  EXPECT_EQ(late->status(), 503);
}

}  // namespace
}  // namespace quire::testing
