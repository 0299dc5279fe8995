// What the engine tells of a run, beside what it says of itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "engine/trace_fixture.h"
#include "trace/event_json.h"
#include "trace/trace_analysis.h"

namespace quire {
namespace {

using testing::Repeated;
using testing::RunOne;
using testing::TraceKeeper;

using EngineTraceTest = testing::TraceFixture;

TEST_F(EngineTraceTest, TellsARunInOrder) {
  TraceKeeper trace;
  const auto engine = Traced(trace);
  RunOne(*engine, Sampled(Ascending(20), 3));
  std::string order;
  for (const TraceEvent& event : trace.events) {
    order += EventAsJson(event).substr(10, 3) + " ";
  }
  EXPECT_EQ(order, "run req ste tok ste tok ste tok end ");
  const auto run = trace.All<RunEvent>()[0];
  EXPECT_EQ(run.num_layers, engine->model().config().num_layers());
  EXPECT_EQ(run.layers.size(), static_cast<size_t>(run.num_layers));
  uint64_t bytes = 0;
  for (const TraceLayer& layer : run.layers) bytes += layer.kv_bytes_per_token;
  EXPECT_EQ(bytes, engine->cache().layout().bytes_per_token);
  EXPECT_EQ(run.int8_ops_per_second, 0) << "ceilings are not measured where nobody asks";
  const auto steps = trace.All<StepEvent>();
  EXPECT_EQ(steps[0].step, 1);
  EXPECT_EQ(steps[0].lines[0].action, "prefill");
  EXPECT_TRUE(steps[0].lines[0].is_admission);
  EXPECT_EQ(steps[0].num_tokens, 20);
  EXPECT_EQ(steps[0].num_running, 1);
  EXPECT_TRUE(steps[0].operators.empty());
  EXPECT_EQ(steps[2].num_running, 0) << "after the step";
  EXPECT_LE(steps[0].forward_ms, steps[0].total_ms);
  EXPECT_TRUE(trace.All<BlockEvent>().empty());
}

TEST_F(EngineTraceTest, TokensAreThoseOfTheAnswer) {
  TraceKeeper trace({.candidates = 3});
  const auto engine = Traced(trace);
  Request request = testing::GreedyRequest(Ascending(20), 6);
  request.ignore_end_of_text = true;
  const RequestResult result = RunOne(*engine, request);
  const auto tokens = trace.All<TokenEvent>();
  ASSERT_EQ(tokens.size(), 6u);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(tokens[i].token, result.choices[0].tokens[i]);
    EXPECT_EQ(tokens[i].position, 20 + i);
    ASSERT_EQ(tokens[i].candidates.size(), 3u);
    EXPECT_EQ(tokens[i].candidates[0].token, tokens[i].token) << "greedy";
    EXPECT_GE(tokens[i].candidates[0].log_prob, tokens[i].candidates[1].log_prob);
  }
}

TEST_F(EngineTraceTest, OperatorsTakeTheForwardPass) {
  TraceKeeper trace({.operators = true});
  const auto engine = Traced(trace);
  RunOne(*engine, Sampled(Ascending(60), 4));
  EXPECT_GT(trace.All<RunEvent>()[0].int8_ops_per_second, 0);
  for (const StepEvent& step : trace.All<StepEvent>()) {
    ASSERT_EQ(step.operators.size(), size_t{kNumDecoderOperators});
    double ms = 0;
    for (const OperatorTime& time : step.operators) ms += time.ms;
    EXPECT_GT(ms, 0);
    EXPECT_LE(ms, step.forward_ms);
    EXPECT_GT(step.operators[static_cast<size_t>(DecoderOperator::kAttend)].ops, 0);
    EXPECT_GT(step.operators[static_cast<size_t>(DecoderOperator::kOutput)].bytes, 0);
  }
}

TEST_F(EngineTraceTest, AnEndTellsWhyMoreWasNotCached) {
  TraceKeeper trace;
  const auto engine = Traced(trace);
  RunOne(*engine, Sampled(Ascending(64), 2));
  std::vector<int32_t> other = Ascending(64);
  other[40] = 5;
  RunOne(*engine, Sampled(other, 2));
  const auto ends = trace.All<EndEvent>();
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends[0].miss, "never_seen");
  EXPECT_EQ(ends[0].reason, "length");
  EXPECT_EQ(ends[1].miss, "differs");
  EXPECT_EQ(ends[1].miss_position, 40);
  EXPECT_EQ(ends[1].cached_memory, 40);
  EXPECT_THAT(ends[1].miss_text, ::testing::HasSubstr("where the prompt has"));
}

TEST_F(EngineTraceTest, AnAbortedRequestEndsToo) {
  TraceKeeper trace;
  const auto engine = Traced(trace);
  Request request = Sampled(Ascending(20), 5);
  request.name = "mine";
  const auto id = engine->Submit(request);
  engine->Abort(*id);
  const auto ends = trace.All<EndEvent>();
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].reason, "abort");
  EXPECT_FALSE(ends[0].prompt_computed);
  EXPECT_GT(ends[0].total_ms, 0);
  EXPECT_EQ(ends[0].queue_ms, ends[0].total_ms) << "it never ran";
  EXPECT_EQ(ends[0].first_token_ms, 0);
  EXPECT_EQ(trace.All<RequestEvent>()[0].name, "mine");
}

TEST_F(EngineTraceTest, APinIsMarkedAsOne) {
  TraceKeeper trace;
  const auto engine = Traced(trace);
  bool is_done = false;
  engine->Pin({.tokens = Ascending(32), .lifetime_ms = 1e6},
              [&](const Result<PinInfo>& info) { is_done = info.ok(); });
  engine->RunUntilIdle();
  ASSERT_TRUE(is_done);
  EXPECT_TRUE(trace.All<RequestEvent>()[0].is_pin);
  EXPECT_TRUE(trace.All<EndEvent>()[0].is_pin);
  EXPECT_FALSE(trace.All<EndEvent>()[0].prompt_computed);
}

// Follows blocks by their events alone.
class BlockBook {
 public:
  void Add(const BlockEvent& event) {
    Block& block = blocks_[event.block];
    switch (event.change) {
      case BlockChange::kAllocate:
      case BlockChange::kCopyOnWrite:
        EXPECT_EQ(block.references, 0) << event.block;
        EXPECT_FALSE(block.findable) << event.block << " was not evicted";
        ++block.references;
        break;
      case BlockChange::kShare:
        EXPECT_TRUE(block.references > 0 || block.findable) << event.block;
        ++block.references;
        break;
      case BlockChange::kRelease:
        --block.references;
        break;
      case BlockChange::kEvict:
        EXPECT_EQ(block.references, 0);
        EXPECT_TRUE(block.findable);
        break;
      default:
        break;
    }
    EXPECT_EQ(block.references, event.references) << EventAsJson(event);
    block.findable = event.findable;
    reasons_.insert(event.reason);
  }
  int64_t used() const {
    return Count([](const Block& b) { return b.references > 0; });
  }
  int64_t cached() const {
    return Count([](const Block& b) { return b.references == 0 && b.findable; });
  }
  const std::set<std::string>& reasons() const { return reasons_; }

 private:
  struct Block {
    int references = 0;
    bool findable = false;
  };
  int64_t Count(bool (*holds)(const Block&)) const {
    int64_t count = 0;
    for (const auto& [id, block] : blocks_) count += holds(block) ? 1 : 0;
    return count;
  }
  std::map<int32_t, Block> blocks_;
  std::set<std::string> reasons_;
};

// A thousand requests of all kinds on a small pool: shared prefixes, several answers, beams,
// drafts, deadlines, aborts, priorities, what does not read the cache, pins.
class Crowd {
 public:
  Crowd(Engine& engine, int count) : engine_(engine), count_(count) {}

  void Run() {
    int next = 0;
    while (next < count_ || engine_.num_running() + engine_.num_waiting() > 0) {
      while (next < count_ && engine_.num_waiting() < 12) Submit(next++);
      engine_.Step();
      if (next % 97 == 50 && last_ > 0) engine_.Abort(last_);
      if (after_step) after_step();
    }
    engine_.CheckInvariants();
  }

  std::function<void()> after_step;

 private:
  void Submit(int i) {
    std::vector<int32_t> prompt = Repeated(i % 5, 16 + i % 3 * 16);
    for (int j = 0; j < i % 23; ++j) prompt.push_back((i * 31 + j * 7) % 296);
    Request request{.prompt = prompt, .max_tokens = i % 4 == 0 ? 50 : 1 + i % 9};
    request.sampling.seed = static_cast<uint64_t>(i);
    if (i % 11 == 0) request.num_choices = 3;
    if (i % 13 == 1) request.beams.width = 2;
    if (i % 17 == 2) request.prompt_logprobs = 1;
    if (i % 19 == 3) request.embedding = Pooling::kMean;
    if (i % 23 == 4) request.timeout_ms = 0.05;
    if (i % 29 == 5) request.use_kv_cache = false;
    // Takes the blocks of others, who seldom run out of them by themselves.
    if (i % 31 == 6) request.priority = -1;
    request.ignore_end_of_text = i % 2 == 0;
    if (request.beams.width > 0) request.num_choices = 1;
    if (request.embedding) request.num_choices = 1;
    const auto id = engine_.Submit(request);
    if (id.ok()) last_ = *id;
    if (i % 211 == 7) {
      engine_.Pin({.tokens = Repeated(i % 5, 16), .lifetime_ms = 1e9}, [](Result<PinInfo>) {});
    }
  }

  Engine& engine_;
  int count_;
  RequestId last_ = 0;
};

void ExpectSameCounts(const TraceCounters& counters, const Engine& engine) {
  const EngineCounters told = engine.counters();
  EXPECT_EQ(counters.requests_finished, told.requests_finished);
  EXPECT_EQ(counters.requests, told.requests_finished) << "all that came have ended";
  EXPECT_EQ(counters.steps, told.steps);
  EXPECT_EQ(counters.prompt_tokens, told.prompt_tokens);
  EXPECT_EQ(counters.cached_tokens, told.cached_tokens);
  EXPECT_EQ(counters.computed_tokens, told.computed_tokens);
  EXPECT_EQ(counters.generated_tokens, told.generated_tokens);
  EXPECT_EQ(counters.prefix_cache_queries, told.prefix_cache_queries);
  EXPECT_EQ(counters.prefix_cache_hits, told.prefix_cache_hits);
  EXPECT_EQ(counters.draft_tokens, told.drafts.draft_tokens);
  EXPECT_EQ(counters.accepted_draft_tokens, told.drafts.accepted);
  EXPECT_EQ(counters.preemptions, engine.batch().counters().preemptions);
  for (int i = 0; i < kNumMissReasons; ++i) {
    const std::string name(NameOf(static_cast<MissReason>(i)));
    const auto found = counters.misses.find(name);
    EXPECT_EQ(found == counters.misses.end() ? 0 : found->second, told.misses[i]) << name;
  }
  const KvCounters& kv = engine.cache().counters();
  const auto changes = [&](const char* name) {
    const auto found = counters.block_changes.find(name);
    return found == counters.block_changes.end() ? 0 : found->second;
  };
  EXPECT_EQ(changes("copy_on_write"), kv.blocks_copied);
  EXPECT_EQ(changes("fill"), kv.blocks_committed);
  EXPECT_EQ(changes("evict"), kv.blocks_evicted + kv.blocks_taken_over + kv.blocks_dropped);
}

TEST_F(EngineTraceTest, AThousandRequestsReplayedGiveTheEnginesCounts) {
  TraceKeeper trace({.blocks = true});
  EngineOptions options{.speculation = {.type = SpeculationType::kNgram, .drafts_always = true}};
  const auto engine = Traced(trace, /*num_blocks=*/24, options);
  BlockBook book;
  TraceAnalysis analysis;
  size_t next = 0;
  int num_lives = 0;
  Crowd crowd(*engine, 1000);
  crowd.after_step = [&] {
    for (; next < trace.events.size(); ++next) {
      // What is read from a file is what is analysed.
      const auto event = EventFromJson(EventAsJson(trace.events[next]));
      ASSERT_TRUE(event.ok()) << event.error().message;
      analysis.Add(*event);
      if (const auto* block = std::get_if<BlockEvent>(&*event)) book.Add(*block);
      if (const auto* step = std::get_if<StepEvent>(&*event)) {
        EXPECT_EQ(step->used_blocks, book.used());
        EXPECT_EQ(step->cached_blocks, book.cached());
      }
    }
    EXPECT_EQ(engine->cache().usage().used_blocks, book.used());
    for (const RequestLife& life : analysis.TakeEnded()) {
      ++num_lives;
      EXPECT_NEAR(life.sum_ms(), life.end->total_ms, 0.01 * life.end->total_ms + 0.01)
          << life.request.request;
    }
  };
  crowd.Run();
  ExpectSameCounts(analysis.counters(), *engine);
  EXPECT_GT(analysis.counters().preemptions, 0);
  EXPECT_GT(analysis.counters().draft_tokens, 0);
  EXPECT_GT(analysis.counters().cached_tokens, 0);
  EXPECT_GT(num_lives, 990);
  for (const char* reason :
       {"admission", "growth", "computed", "preempt", "end", "allocation", "pin"}) {
    EXPECT_TRUE(book.reasons().contains(reason)) << reason;
  }
}

// A prompt's later chunks are promised blocks, which those that decode may have taken meanwhile.
TEST_F(EngineTraceTest, EveryEventIsReadWhereMoreBlocksArePromisedThanThereAre) {
  TraceKeeper trace;
  EngineOptions options{
      .scheduler = {.max_batched_tokens = 40, .target_step_ms = 1e9, .admission_reserve = 0}};
  const auto engine = Traced(trace, /*num_blocks=*/28, options);
  int64_t least_available = 0;
  engine->SetStepObserver([&](const StepReport& report) {
    for (const PlanLine& line : report.plan->lines) {
      least_available = std::min(least_available, line.blocks_available);
    }
  });
  for (int i = 0; i < 100; ++i) {
    Request request = testing::GreedyRequest(Repeated(i, 20 + i * 37 % 90), 18);
    request.ignore_end_of_text = true;
    ASSERT_TRUE(engine->Submit(request).ok());
  }
  engine->RunUntilIdle();
  EXPECT_LT(least_available, 0);
  for (const TraceEvent& event : trace.events) {
    const auto read = EventFromJson(EventAsJson(event));
    ASSERT_TRUE(read.ok()) << read.error().message;
  }
}

TEST_F(EngineTraceTest, AnAnswerThatHasHadNoPlaceIsQueuedAndNotPreempted) {
  TraceKeeper trace({.blocks = true});
  EngineOptions options{.scheduler = {.max_sequences = 1}};
  const auto engine = Traced(trace, /*num_blocks=*/0, options);
  Request both = Sampled(Ascending(20), 4);
  both.num_choices = 2;
  const auto id = engine->Submit(both);
  ASSERT_TRUE(id.ok());
  // The first answer has the only place, and the second waits for it.
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(engine->Step());
  Request urgent = Sampled(Ascending(20, 3), 4);
  urgent.priority = -1;
  ASSERT_TRUE(engine->Submit(urgent).ok());
  engine->RunUntilIdle();

  TraceAnalysis analysis;
  for (const TraceEvent& event : trace.events) analysis.Add(event);
  EXPECT_EQ(analysis.counters().preemptions, 0);
  std::vector<RequestLife> lives = analysis.TakeEnded();
  const auto life =
      std::ranges::find(lives, *id, [](const auto& one) { return one.request.request; });
  ASSERT_NE(life, lives.end());
  EXPECT_EQ(life->end->num_preemptions, 0);
  std::string kinds;
  for (const LifeSpan& span : life->spans) {
    const std::string kind(NameOf(span.kind));
    if (span.kind != LifeKind::kBetween && !kinds.ends_with(kind + " ")) kinds += kind + " ";
  }
  EXPECT_EQ(kinds, "queued prefill decode queued prefill decode ");
  for (const BlockEvent& block : trace.All<BlockEvent>()) {
    EXPECT_NE(block.reason, "preempt");
  }
}

TEST_F(EngineTraceTest, AStepTellsHowManyRunAndWait) {
  TraceKeeper trace;
  EngineOptions options{.scheduler = {.max_sequences = 4}};
  const auto engine = Traced(trace, /*num_blocks=*/24, options);
  for (int i = 0; i < 12; ++i) {
    ASSERT_TRUE(engine->Submit(Sampled(Repeated(i, 20 + i), 5)).ok());
  }
  while (engine->Step()) {
    for (size_t i = trace.events.size(); i-- > 0;) {
      const auto* step = std::get_if<StepEvent>(&trace.events[i]);
      if (step == nullptr) continue;
      EXPECT_EQ(step->num_running, engine->num_running());
      EXPECT_EQ(step->num_waiting, engine->num_waiting());
      break;
    }
  }
}

TEST_F(EngineTraceTest, ATraceChangesNoAnswer) {
  TraceKeeper trace({.operators = true, .blocks = true, .candidates = 5});
  const auto traced = Traced(trace);
  const auto silent = Tiny();
  for (int i = 0; i < 8; ++i) {
    const Request request = Sampled(Repeated(i, 10 + 5 * i), 8, i);
    testing::ExpectSameChoices(RunOne(*traced, request), RunOne(*silent, request));
  }
}

}  // namespace
}  // namespace quire
