// What a thousand requests take of the engine's thread for a page that nobody, or somebody, looks
// at.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "engine/engine.h"
#include "server/live/live_hub.h"
#include "server/support/fake_exchange.h"
#include "support/scratch_directory.h"
#include "support/tiny_llama.h"

namespace quire::testing {
namespace {

constexpr int kRequests = 1000;

double ThreadMs() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

// Keeps everything.
class Recorder : public TraceSink {
 public:
  TraceDetail detail() const override { return {}; }
  void Add(const TraceEvent& event) override { events.push_back(event); }

  std::vector<TraceEvent> events{};
};

// A thousand requests of a small model, eight at a time; what they take of the thread.
double RunRequests(const std::filesystem::path& model, TraceSink& sink) {
  auto engine = Engine::Create(
      model, {.runner = {.num_threads = 1}, .scheduler = {.max_sequences = 8}, .trace = &sink});
  QUIRE_CHECK(engine.ok(), "{}", engine.error().message);
  for (int i = 0; i < kRequests; ++i) {
    Request request{.prompt = {1 + i % 50, 2 + i / 50, 3, 4}, .max_tokens = 8};
    request.sampling.temperature = 0;
    request.ignore_end_of_text = true;
    QUIRE_CHECK((*engine)->Submit(std::move(request)).ok());
  }
  const double start = ThreadMs();
  (*engine)->RunUntilIdle();
  return ThreadMs() - start;
}

struct Noting {
  double ms = 1e9;  // the least of several, as others run on the same processor
  bool asks_for_timer = false;
};

Noting NoteAll(const std::vector<TraceEvent>& events, bool has_listener) {
  Noting noting;
  for (int round = 0; round < 5; ++round) {
    InlineTaskQueue text;
    std::function<void()> flush;
    LiveHub hub;
    hub.Open({.text = &text,
              .post_after = [&](auto, std::function<void()> task) { flush = std::move(task); }});
    auto [exchange, client] = MakeFakeExchange();
    if (has_listener) hub.Join(exchange, {.blocks = true}, {});
    const double start = ThreadMs();
    for (const TraceEvent& event : events) hub.Add(event);
    noting.ms = std::min(noting.ms, ThreadMs() - start);
    noting.asks_for_timer |= static_cast<bool>(flush);
    client->Go();
  }
  return noting;
}

// The times are printed, to be read beside a hundredth of the run's: they decide nothing.
TEST(LiveCost, AThousandRequestsThatNobodyLooksAtAskForNoTimer) {
  const ScratchDirectory directory;
  const auto path = directory.path() / "tiny.gguf";
  ASSERT_TRUE(TinyLlama({.layers = {2, {.num_heads = 8, .num_kv_heads = 4, .ffn_dim = 1024}},
                         .d_model = 256,
                         .key_dim = 32,
                         .value_dim = 32})
                  .Write(path));
  Recorder recorder;
  const double run_ms = RunRequests(path, recorder);
  const auto num_ends = std::ranges::count_if(recorder.events, [](const TraceEvent& event) {
    return std::holds_alternative<EndEvent>(event);
  });
  ASSERT_EQ(num_ends, kRequests);
  const Noting unseen = NoteAll(recorder.events, false);
  const Noting seen = NoteAll(recorder.events, true);
  fmt::print("{} events of {:.0f} ms: {:.2f} ms unseen, {:.2f} ms with a listener\n",
             recorder.events.size(), run_ms, unseen.ms, seen.ms);
  EXPECT_FALSE(unseen.asks_for_timer);
  EXPECT_TRUE(seen.asks_for_timer);
}

}  // namespace
}  // namespace quire::testing
