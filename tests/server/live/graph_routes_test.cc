// What the page shows of the model and the machine: of the model that runs, and measured once.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <future>

#include "plan/kv_cost.h"
#include "server/live/measured_roofline.h"
#include "server/routes_rig.h"

namespace quire {
namespace {

namespace json = boost::json;
using testing::RigAnswer;
using testing::RoutesRig;

json::object Body(RoutesRig& rig, const char* path) {
  const RigAnswer answer = rig.Ask("GET", path);
  EXPECT_EQ(answer.status, 200) << answer.body;
  return json::parse(answer.body).as_object();
}

TEST(GraphRoutes, ShowTheModelThatRuns) {
  RoutesRig rig;
  const json::object body = Body(rig, "/quire/model");
  EXPECT_EQ(body.at("num_layers"), 1);
  EXPECT_EQ(body.at("vocab_size"), rig.context().engine.vocab_size());
  EXPECT_EQ(body.at("parts").as_array().size(), 3u);
}

// Members that pages and programs may rely on.
TEST(GraphRoutes, BodiesSayTheirVersion) {
  RoutesRig rig;
  for (const char* path : {"/quire/model", "/quire/growth", "/quire/roofline", "/quire/blocks",
                           "/quire/tree", "/quire/cache", "/quire/plan", "/quire/pins"}) {
    const json::object body = Body(rig, path);
    ASSERT_TRUE(body.contains("version")) << path;
    EXPECT_EQ(body.at("version"), 1) << path;
  }
}

TEST(GraphRoutes, GrowthGoesUpToTheContextByTheFormulaThatPlansUse) {
  RoutesRig rig;
  const json::object body = Body(rig, "/quire/growth");
  EXPECT_EQ(body.at("model"), "rig");
  EXPECT_EQ(body.at("tokens").as_array().back(), rig.context().engine.context_length());
  const auto cost =
      KvCost::Make(rig.context().engine.model().config(), KvElementOf(KvType::kF16)).value();
  const json::object& formula = body.at("series").at(0).as_object();
  EXPECT_EQ(formula.at("name"), "formula");
  EXPECT_EQ(formula.at("bytes").as_array().back(),
            cost.FormulaBytes(rig.context().engine.context_length()));
  EXPECT_TRUE(body.at("measured").as_array().empty());
}

TEST(GraphRoutes, TheRooflineIsMeasuredOnce) {
  RoutesRig rig;
  const RigAnswer first = rig.Ask("GET", "/quire/roofline");
  ASSERT_EQ(first.status, 200) << first.body;
  const json::object body = json::parse(first.body).as_object();
  EXPECT_EQ(body.at("model"), "rig");
  EXPECT_FALSE(body.at("ceilings").at("memory").as_array().empty());
  EXPECT_EQ(rig.Ask("GET", "/quire/roofline").body, first.body);
  // What was computed for it has left nothing behind.
  EXPECT_EQ(rig.context().engine.status().kv.used_blocks, 0);
}

TEST(GraphRoutes, RequestsAdvanceWhileTheRooflineIsMeasured) {
  RoutesRig rig;
  EngineThread& thread = rig.context().engine;
  std::promise<bool> was_first;
  thread.Post([&](Engine& engine) {
    bool is_finished = false;
    ASSERT_TRUE(engine
                    .Submit({.prompt = {3}, .sampling = {.temperature = 0}, .max_tokens = 4},
                            {.on_finish = [&](const RequestResult&) { is_finished = true; }})
                    .ok());
    EXPECT_TRUE(MeasureRooflineBody(engine, "rig", [&] { return thread.Yield(); }).ok());
    was_first.set_value(is_finished);
  });
  EXPECT_TRUE(was_first.get_future().get());
}

TEST(GraphRoutes, WhoAsksForTheRooflineMeanwhileGetsTheSame) {
  RoutesRig rig;
  const auto ask = [&] { return rig.Ask("GET", "/quire/roofline").body; };
  std::future<std::string> first = std::async(std::launch::async, ask);
  std::future<std::string> second = std::async(std::launch::async, ask);
  EXPECT_EQ(first.get(), second.get());
}

TEST(GraphRoutes, AreForAdminsAndForAsLongAsTheEngineRuns) {
  RoutesRig rig(
      {.tenants =
           Tenants::FromJson(R"({"keys": [{"key": "sk-of-a-tenant", "name": "team"}]})").value()});
  for (const char* path : {"/quire/model", "/quire/growth", "/quire/roofline"}) {
    EXPECT_EQ(rig.Ask("GET", path).status, 401) << path;
    EXPECT_EQ(rig.Ask("GET", path, "", "sk-of-a-tenant").status, 403) << path;
  }
  RoutesRig ended;
  ended.StopEngine();
  EXPECT_EQ(ended.Ask("GET", "/quire/growth").status, 503);
  EXPECT_EQ(ended.Ask("GET", "/quire/roofline").status, 503);
  EXPECT_EQ(ended.Ask("GET", "/quire/blocks").status, 503);
  EXPECT_EQ(ended.Ask("GET", "/quire/tree").status, 503);
}

}  // namespace
}  // namespace quire
