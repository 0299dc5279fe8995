// Listeners of what the engine does: what they are told, when, and what it takes.
#include "server/live/live_hub.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <set>
#include <thread>

#include "server/support/fake_exchange.h"
#include "server/text_pool.h"

namespace quire {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;

// A stream's events of one kind, in order; the test has failed where it is not made of events and
// comments.
std::vector<json::value> EventsOf(const std::string& body, std::string_view kind) {
  std::vector<json::value> events;
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find("\n\n", at);
    EXPECT_NE(end, std::string::npos) << body.substr(at, 200);
    if (end == std::string::npos) break;
    const std::string message = body.substr(at, end - at);
    at = end + 2;
    if (message.starts_with(": ")) continue;
    const size_t line = message.find('\n');
    EXPECT_TRUE(message.starts_with("event: ") && message.substr(line + 1).starts_with("data: "))
        << message.substr(0, 200);
    if (message.substr(7, line - 7) == kind)
      events.push_back(json::parse(message.substr(line + 7)));
  }
  return events;
}

// All that a listener was told after the snapshot, batch by batch joined.
json::array ToldTo(const FakeClient& client) {
  json::array all;
  for (const json::value& batch : EventsOf(client.body(), "events")) {
    all.insert(all.end(), batch.as_array().begin(), batch.as_array().end());
  }
  return all;
}

class LiveHubTest : public ::testing::Test {
 protected:
  struct Timer {
    std::chrono::milliseconds delay;
    std::function<void()> task;
  };

  LiveHubTest() {
    hub_.Open({.text = &text_,
               .post_after = [this](std::chrono::milliseconds delay, std::function<void()> task) {
                 timers_.push_back({delay, std::move(task)});
               }});
  }

  std::shared_ptr<FakeClient> Join(const LiveDetail& detail = {}, const LiveStatus& status = {}) {
    auto [exchange, client] = MakeFakeExchange();
    EXPECT_EQ(hub_.Join(exchange, detail, status), LiveHub::Joined::kYes);
    return client;
  }
  // Those with this delay.
  void RunTimers(std::chrono::milliseconds delay) {
    std::vector<Timer> timers;
    timers.swap(timers_);
    for (Timer& timer : timers) {
      if (timer.delay == delay) {
        timer.task();
      } else {
        timers_.push_back(std::move(timer));
      }
    }
  }
  void Flush() { RunTimers(LiveHub::kFlushInterval); }
  size_t NumTimers(std::chrono::milliseconds delay) const {
    return static_cast<size_t>(std::ranges::count(timers_, delay, &Timer::delay));
  }

  InlineTaskQueue text_;
  std::vector<Timer> timers_;
  LiveHub hub_;
};

TEST_F(LiveHubTest, WithoutListenersItAsksForNothingAndSetsNoTimer) {
  for (int i = 0; i < 1000; ++i) hub_.Add(TokenEvent{.ms = i * 1., .request = 1});
  EXPECT_TRUE(timers_.empty());
  EXPECT_FALSE(hub_.detail().blocks || hub_.detail().operators || hub_.detail().candidates > 0);
  // What came before is told by the snapshot alone.
  const auto client = Join();
  hub_.Add(StepEvent{.step = 5});
  Flush();
  EXPECT_EQ(ToldTo(*client).size(), 1u);
}

TEST_F(LiveHubTest, TheFirstEventTellsWhereThingsStand) {
  hub_.Add(RunEvent{.model = "rig", .block_slots = 16, .num_blocks = 64});
  hub_.Add(RequestEvent{.ms = 5, .request = 3, .name = "cmpl-3", .prompt_tokens = 40});
  hub_.Add(EndEvent{.ms = 9, .request = 3, .reason = "length", .cached_memory = 32});
  hub_.Add(RequestEvent{.ms = 8, .request = 4, .name = "a\"b", .max_tokens = 7});
  const auto client = Join({}, {.num_running = 1, .used_blocks = 2, .free_blocks = 62});
  EXPECT_EQ(client->response().content_type, "text/event-stream; charset=utf-8");
  const auto snapshots = EventsOf(client->body(), "snapshot");
  ASSERT_EQ(snapshots.size(), 1u);
  const json::object& snapshot = snapshots[0].as_object();
  EXPECT_EQ(snapshot.at("run").at("event"), "run");
  EXPECT_EQ(snapshot.at("run").at("num_blocks"), 64);
  EXPECT_GE(snapshot.at("now_ms").as_double(), 0);
  const json::array& requests = snapshot.at("requests").as_array();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].at("request"), 3);
  EXPECT_EQ(requests[0].at("state"), "ended");
  EXPECT_EQ(requests[0].at("cached"), 32);
  EXPECT_EQ(requests[0].at("end").at("reason"), "length");
  EXPECT_EQ(requests[1].at("name"), "a\"b");
  EXPECT_EQ(requests[1].at("state"), "waiting");
  EXPECT_EQ(requests[1].at("max_tokens"), 7);
  EXPECT_FALSE(requests[1].as_object().contains("end"));
  EXPECT_EQ(snapshot.at("status"), json::parse(R"({"running":1,"waiting":0,"used_blocks":2,
      "cached_blocks":0,"free_blocks":62,"tokens_per_second":0.0})"));
}

TEST_F(LiveHubTest, EventsGatherAndGoOutTogether) {
  const auto client = Join();
  EXPECT_EQ(NumTimers(LiveHub::kFlushInterval), 0u) << "nothing has happened yet";
  for (int i = 0; i < 3; ++i) hub_.Add(StepEvent{.ms = i * 1., .step = i});
  EXPECT_EQ(NumTimers(LiveHub::kFlushInterval), 1u);
  EXPECT_TRUE(client->chunks().empty());
  Flush();
  ASSERT_EQ(client->chunks().size(), 1u);
  const json::array told = ToldTo(*client);
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[2].at("step"), 2);
  EXPECT_EQ(NumTimers(LiveHub::kFlushInterval), 0u) << "and then nothing any more";
}

TEST_F(LiveHubTest, AStreamWithNothingToSayGetsCommentsUntilItsClientGoes) {
  const auto client = Join();
  EXPECT_EQ(NumTimers(15s), 1u);
  RunTimers(15s);
  EXPECT_EQ(client->chunks().size(), 0u) << "it has been told something just now";
  EXPECT_EQ(NumTimers(15s), 1u);
  client->Go();
  RunTimers(15s);
  EXPECT_TRUE(timers_.empty());
}

TEST_F(LiveHubTest, AskedForDetailsOnlyAsLongAsSomebodyWantsThem) {
  const auto plain = Join();
  EXPECT_FALSE(hub_.detail().blocks);
  const auto blocks = Join({.blocks = true});
  const auto rest = Join({.operators = true, .candidates = true});
  EXPECT_TRUE(hub_.detail().blocks && hub_.detail().operators);
  EXPECT_EQ(hub_.detail().candidates, LiveHub::kCandidates);
  hub_.Add(BlockEvent{.block = 9});
  hub_.Add(StepEvent{.step = 1, .operators = {{.ms = 1}}});
  hub_.Add(TokenEvent{.token = 5, .candidates = {{.token = 5, .log_prob = -1}}});
  Flush();
  const auto kinds = [](const FakeClient& client) {
    std::string text;
    for (const json::value& event : ToldTo(client)) {
      text += std::string(event.at("event").as_string()) + " ";
      if (event.as_object().contains("operators")) text += "+operators ";
      if (event.as_object().contains("candidates")) text += "+candidates ";
    }
    return text;
  };
  EXPECT_EQ(kinds(*plain), "step token ");
  EXPECT_EQ(kinds(*blocks), "block step token ");
  EXPECT_EQ(kinds(*rest), "step +operators token +candidates ");
  blocks->Go();
  EXPECT_FALSE(hub_.detail().blocks);
  EXPECT_TRUE(hub_.detail().operators);
  rest->Go();
  EXPECT_FALSE(hub_.detail().operators || hub_.detail().candidates > 0);
  // What was wanted a moment ago may still come.
  hub_.Add(BlockEvent{.block = 9});
  Flush();
  EXPECT_EQ(kinds(*plain), "step token ");
}

TEST_F(LiveHubTest, ASlowListenerIsPassedOverAndToldHowMuchItMissed) {
  const auto slow = Join();
  const auto quick = Join();
  slow->SetUnsent(LiveHub::kMaxUnsentBytes + 1);
  for (int i = 0; i < 5000; ++i) {
    hub_.Add(StepEvent{.step = i});
    if (i % 500 == 499) Flush();
  }
  EXPECT_TRUE(slow->chunks().empty()) << "what it does not read does not pile up";
  EXPECT_EQ(ToldTo(*quick).size(), 5000u);
  EXPECT_EQ(NumTimers(LiveHub::kFlushInterval), 1u) << "it is tried again";
  slow->SetUnsent(0);
  Flush();
  const json::array told = ToldTo(*slow);
  ASSERT_EQ(told.size(), LiveHub::kMaxEvents + 1);
  EXPECT_EQ(told[0], json::parse(R"({"event":"dropped","count":3000})"));
  EXPECT_EQ(told[1].at("step"), 3000);
  EXPECT_EQ(told.back().at("step"), 4999);
  EXPECT_EQ(NumTimers(LiveHub::kFlushInterval), 0u);
}

TEST_F(LiveHubTest, ABurstIsCutToItsNewestEvents) {
  const auto client = Join();
  for (int i = 0; i < 100'000; ++i) hub_.Add(StepEvent{.step = i});
  Flush();
  const json::array told = ToldTo(*client);
  ASSERT_EQ(told.size(), LiveHub::kMaxEvents + 1);
  EXPECT_EQ(told[0].at("count"), 98'000);
}

TEST_F(LiveHubTest, StepsOfManySequencesAreBoundedByTheirBytes) {
  const auto client = Join();
  StepEvent step;
  step.lines.resize(1000);
  for (int i = 0; i < 200; ++i) {
    step.step = i;
    hub_.Add(step);
  }
  Flush();
  const json::array told = ToldTo(*client);
  EXPECT_LE((told.size() - 1) * 1000 * sizeof(StepLine), LiveHub::kMaxEventBytes);
  EXPECT_EQ(told.back().at("step"), 199);
  EXPECT_EQ(told[0].at("count").as_int64() + static_cast<int64_t>(told.size()) - 1, 200);
}

TEST_F(LiveHubTest, ListenersAreLimitedAndOneThatGoesMakesRoom) {
  std::vector<std::shared_ptr<FakeClient>> clients;
  for (size_t i = 0; i < LiveHub::kMaxListeners; ++i) clients.push_back(Join());
  auto [exchange, client] = MakeFakeExchange();
  EXPECT_EQ(hub_.Join(exchange, {}, {}), LiveHub::Joined::kTooMany);
  EXPECT_FALSE(client->has_begun()) << "whoever refuses answers";
  exchange->Respond({.status = 429});
  clients[3]->Go();
  EXPECT_EQ(hub_.num_listeners(), LiveHub::kMaxListeners - 1);
  Join();
}

TEST_F(LiveHubTest, CloseEndsEveryStreamAndLetsNobodyIn) {
  const auto client = Join({.blocks = true});
  hub_.Add(StepEvent{.step = 1});
  hub_.Close();
  EXPECT_EQ(ToldTo(*client).size(), 1u) << "what waits is told first";
  EXPECT_TRUE(client->has_ended());
  EXPECT_FALSE(client->was_given_up());
  EXPECT_FALSE(hub_.detail().blocks);
  hub_.Add(StepEvent{.step = 2});
  Flush();
  auto [exchange, late] = MakeFakeExchange();
  EXPECT_EQ(hub_.Join(exchange, {}, {}), LiveHub::Joined::kClosed);
  exchange->Respond({.status = 503});
}

// With real threads: whoever joins has each request either in the snapshot or in an event, once.
TEST(LiveHubThreads, NobodyMissesAnEventOrGetsOneTwice) {
  constexpr int kRequests = 900;  // with their block events fewer than are kept
  LiveHub hub;
  TextPool text(2);
  TextPool network(1);  // goes first, as it posts to the other
  hub.Open({.text = &text,
            .post_after = [&](std::chrono::milliseconds,
                              std::function<void()> task) { network.Post(std::move(task)); },
            .comment_interval = 0ms});
  std::thread engine([&] {
    for (int64_t id = 1; id <= kRequests; ++id) {
      hub.Add(RequestEvent{.request = id});
      if (hub.detail().blocks) hub.Add(BlockEvent{.block = static_cast<int32_t>(id)});
      if (id % 50 == 0) std::this_thread::sleep_for(1ms);
    }
  });
  std::vector<std::shared_ptr<FakeClient>> clients;
  for (int i = 0; i < 40; ++i) {
    auto [exchange, client] = MakeFakeExchange();
    text.Post([&hub, i, exchange = std::move(exchange)] {
      if (hub.Join(exchange, {.blocks = i % 3 == 0}, {}) != LiveHub::Joined::kYes) {
        exchange->Respond({.status = 429});
      }
    });
    if (i % 4 == 3) clients[static_cast<size_t>(i) - 2]->Go();
    clients.push_back(client);
    std::this_thread::sleep_for(200us);
  }
  engine.join();
  while (hub.num_listeners() == 0) std::this_thread::yield();
  hub.Close();
  int num_whole = 0;
  for (const auto& client : clients) {
    // Those that were refused, and those that went early, tell nothing.
    if (!client->has_ended() || client->was_given_up() || client->status() != 200) continue;
    ++num_whole;
    std::multiset<int64_t> seen;
    const auto snapshots = EventsOf(client->body(), "snapshot");
    ASSERT_EQ(snapshots.size(), 1u);
    for (const json::value& request : snapshots[0].at("requests").as_array()) {
      seen.insert(request.at("request").as_int64());
    }
    for (const json::value& event : ToldTo(*client)) {
      ASSERT_NE(event.at("event"), "dropped");
      if (event.at("event") == "request") seen.insert(event.at("request").as_int64());
    }
    EXPECT_EQ(seen.size(), static_cast<size_t>(kRequests));
    EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), static_cast<size_t>(kRequests));
  }
  EXPECT_GT(num_whole, 0);
}

}  // namespace
}  // namespace quire
