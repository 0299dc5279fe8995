// What a trace comes to, on short traces written by hand.
#include "trace/trace_analysis.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace quire {
namespace {

StepLine Line(const std::string& action, int64_t request, int num_tokens,
              const std::string& reason = "whole_gap") {
  return {.sequence = request + 100,
          .request = request,
          .action = action,
          .reason = reason,
          .num_tokens = num_tokens};
}

StepEvent Step(int64_t step, double ms, double total_ms, std::vector<StepLine> lines) {
  StepEvent event{.ms = ms, .step = step, .total_ms = total_ms, .lines = std::move(lines)};
  for (const StepLine& line : event.lines) event.num_tokens += line.num_tokens;
  return event;
}

std::string Kinds(const RequestLife& life) {
  std::string kinds;
  for (const LifeSpan& span : life.spans) {
    kinds += (kinds.empty() ? "" : " ") + std::string(NameOf(span.kind));
  }
  return kinds;
}

void ExpectConsecutive(const RequestLife& life) {
  double at = life.request.ms;
  for (const LifeSpan& span : life.spans) {
    EXPECT_EQ(span.begin_ms, at);
    EXPECT_GE(span.end_ms, span.begin_ms);
    at = span.end_ms;
  }
  ASSERT_TRUE(life.end.has_value());
  EXPECT_EQ(at, life.end->ms);
  EXPECT_NEAR(life.sum_ms(), life.end->ms - life.request.ms, 1e-9);
}

RequestLife LifeOf(const std::vector<TraceEvent>& events) {
  TraceAnalysis analysis;
  for (const TraceEvent& event : events) analysis.Add(event);
  std::vector<RequestLife> lives = analysis.TakeEnded();
  EXPECT_EQ(lives.size(), 1u);
  return lives.empty() ? RequestLife{} : lives[0];
}

TEST(TraceAnalysis, ALifeIsQueuedPrefillDecode) {
  const RequestLife life =
      LifeOf({RequestEvent{.ms = 0, .request = 1}, Step(1, 10, 20, {Line("wait", 1, 0, "no_slot")}),
              Step(2, 30.5, 10, {Line("prefill", 1, 32, "token_budget")}),
              Step(3, 41, 10, {Line("prefill", 1, 8)}), Step(4, 51.5, 5, {Line("decode", 1, 1)}),
              Step(5, 57, 5, {Line("decode", 1, 1)}), EndEvent{.ms = 61, .request = 1}});
  EXPECT_EQ(Kinds(life), "queued queued prefill prefill decode");
  ExpectConsecutive(life);
  EXPECT_EQ(life.spans[0].reason, "step_under_way");
  EXPECT_EQ(life.spans[1].reason, "no_slot");
  EXPECT_EQ(life.spans[2].reason, "token_budget");
  EXPECT_EQ(life.spans[2].num_tokens, 32);
  EXPECT_EQ(life.spans[4].num_steps, 2);
  EXPECT_EQ(life.spans[4].first_step, 4);
  EXPECT_EQ(life.spans[4].last_step, 5);
  EXPECT_DOUBLE_EQ(life.total_ms[static_cast<size_t>(LifeKind::kQueued)], 30.5);
  EXPECT_DOUBLE_EQ(life.total_ms[static_cast<size_t>(LifeKind::kPrefill)], 20);
  EXPECT_DOUBLE_EQ(life.total_ms[static_cast<size_t>(LifeKind::kDecode)], 9)
      << "the last step is cut where the request ended";
  EXPECT_DOUBLE_EQ(life.total_ms[static_cast<size_t>(LifeKind::kBetween)], 1.5);
}

TEST(TraceAnalysis, APreemptedRequestWaitsUntilItRunsAgain) {
  const RequestLife life =
      LifeOf({RequestEvent{.ms = 0, .request = 1}, Step(1, 0, 10, {Line("prefill", 1, 32)}),
              Step(2, 11, 10, {Line("decode", 2, 1), Line("preempt", 1, 0, "no_blocks")}),
              Step(3, 22, 10, {Line("decode", 2, 1), Line("wait", 1, 0, "behind")}),
              Step(4, 33, 10, {Line("prefill", 1, 33)}), EndEvent{.ms = 43, .request = 1}});
  EXPECT_EQ(Kinds(life), "prefill between preempted preempted prefill");
  ExpectConsecutive(life);
  EXPECT_EQ(life.spans[2].reason, "no_blocks");
  EXPECT_EQ(life.spans[3].reason, "behind");
  EXPECT_DOUBLE_EQ(life.total_ms[static_cast<size_t>(LifeKind::kPreempted)], 22);
}

TEST(TraceAnalysis, ALoadFromATierIsAWaitOfItsOwn) {
  const RequestLife life =
      LifeOf({RequestEvent{.ms = 1, .request = 1}, Step(0, 2, 1, {Line("wait", 1, 0, "tier_load")}),
              Step(1, 20, 10, {Line("prefill", 1, 32)}), EndEvent{.ms = 29, .request = 1}});
  EXPECT_EQ(Kinds(life), "queued waits_for_tier prefill");
  ExpectConsecutive(life);
  EXPECT_DOUBLE_EQ(life.spans[1].ms(), 18);
}

TEST(TraceAnalysis, ALongPauseBetweenStepsIsToldAndAShortOneGoesWithTheStep) {
  const RequestLife life =
      LifeOf({RequestEvent{.ms = 0, .request = 1}, Step(1, 0, 10, {Line("decode", 1, 1)}),
              Step(2, 10.5, 10, {Line("decode", 1, 1)}),
              Step(3, 30, 10, {Line("decode", 1, 1), Line("decode", 2, 1)}),
              Step(4, 40, 10, {Line("decode", 2, 1), Line("wait", 1, 0, "token_budget")}),
              Step(5, 50, 10, {Line("decode", 1, 1)}), EndEvent{.ms = 60, .request = 1}});
  EXPECT_EQ(Kinds(life), "decode between decode between decode");
  ExpectConsecutive(life);
  EXPECT_DOUBLE_EQ(life.spans[0].between_steps, 0.5);
  EXPECT_EQ(life.spans[0].num_steps, 2);
  EXPECT_EQ(life.spans[3].reason, "token_budget");
}

TEST(TraceAnalysis, WhoIsNotNamedStandsFarBackInTheQueue) {
  const RequestLife life =
      LifeOf({RequestEvent{.ms = 0, .request = 1}, Step(1, 1, 10, {Line("decode", 2, 1)}),
              Step(2, 12, 10, {Line("decode", 2, 1)}), Step(3, 23, 10, {Line("prefill", 1, 4)}),
              EndEvent{.ms = 33, .request = 1}});
  EXPECT_EQ(life.spans[0].reason, "behind");
  ExpectConsecutive(life);
}

TEST(TraceAnalysis, AQueueThatMovesOnIsOneWait) {
  StepLine first = Line("wait", 1, 0, "behind");
  first.other = 7;
  StepLine second = first;
  second.other = 8;
  const RequestLife life = LifeOf(
      {RequestEvent{.ms = 0, .request = 1}, Step(1, 0, 10, {first}), Step(2, 10, 10, {second}),
       Step(3, 20, 10, {Line("prefill", 1, 4)}), EndEvent{.ms = 30, .request = 1}});
  EXPECT_EQ(Kinds(life), "queued prefill");
  EXPECT_EQ(life.spans[0].reason, "behind");
  EXPECT_EQ(life.spans[0].other, 0);
  ExpectConsecutive(life);
}

TEST(TraceAnalysis, SequencesOfOneRequestAreToldTogether) {
  const RequestLife life =
      LifeOf({RequestEvent{.ms = 0, .request = 1, .num_choices = 2},
              Step(1, 0, 10, {Line("prefill", 1, 16)}),
              Step(2, 10, 10, {Line("decode", 1, 1), Line("decode", 1, 1)}),
              Step(3, 20, 10, {Line("decode", 1, 1), Line("preempt", 1, 0, "no_blocks")}),
              EndEvent{.ms = 30, .request = 1}});
  EXPECT_EQ(Kinds(life), "prefill decode") << "one of them ran on";
  EXPECT_EQ(life.spans[1].num_tokens, 3);
  ExpectConsecutive(life);
}

TEST(TraceAnalysis, ASequenceThatIsOutIsPreemptedOnceItsSiblingsHaveEnded) {
  StepLine preempted = Line("preempt", 1, 0, "no_blocks");
  preempted.sequence = 102;
  StepLine waiting = Line("wait", 1, 0, "no_blocks");
  waiting.sequence = 102;
  StepLine back = Line("prefill", 1, 17);
  back.sequence = 102;
  StepLine pauses = Line("wait", 1, 0, "token_budget");
  pauses.sequence = 102;
  const RequestLife life = LifeOf({RequestEvent{.ms = 0, .request = 1, .num_choices = 2},
                                   Step(1, 0, 10, {Line("decode", 1, 1), preempted}),
                                   Step(2, 10, 10, {Line("decode", 1, 1)}),
                                   Step(3, 20, 10, {waiting}), Step(4, 30, 10, {back}),
                                   Step(5, 40, 10, {pauses}), EndEvent{.ms = 55, .request = 1}});
  EXPECT_EQ(Kinds(life), "decode preempted prefill between");
  EXPECT_DOUBLE_EQ(life.total_ms[static_cast<size_t>(LifeKind::kPreempted)], 10);
  EXPECT_DOUBLE_EQ(life.total_ms[static_cast<size_t>(LifeKind::kBetween)], 15)
      << "it has its blocks again";
  ExpectConsecutive(life);
}

TEST(TraceAnalysis, AForkThatHasHadNoStepIsQueuedHoweverLongItsSiblingsRan) {
  StepLine fork = Line("wait", 1, 0, "no_blocks");
  fork.sequence = 102;
  const RequestLife life =
      LifeOf({RequestEvent{.ms = 0, .request = 1, .num_choices = 2},
              Step(1, 0, 10, {Line("prefill", 1, 16)}), Step(2, 10, 10, {fork}),
              Step(3, 20, 10, {fork, Line("wait", 1, 0, "token_budget")}),
              EndEvent{.ms = 30, .request = 1}});
  EXPECT_EQ(Kinds(life), "prefill queued");
  EXPECT_EQ(life.spans.back().reason, "no_blocks");
  EXPECT_DOUBLE_EQ(life.total_ms[static_cast<size_t>(LifeKind::kQueued)], 20);
  ExpectConsecutive(life);
}

TEST(TraceAnalysis, AForkOfAPreemptedSequenceIsQueuedOnceThatOneRunsAgain) {
  StepLine fork = Line("wait", 1, 0, "no_slot");
  fork.sequence = 102;
  const RequestLife life = LifeOf({RequestEvent{.ms = 0, .request = 1, .num_choices = 2},
                                   Step(1, 0, 10, {Line("prefill", 1, 16)}),
                                   Step(2, 10, 10, {Line("preempt", 1, 0, "no_blocks")}),
                                   Step(3, 20, 10, {Line("wait", 1, 0, "no_blocks"), fork}),
                                   Step(4, 30, 10, {Line("prefill", 1, 17), fork}),
                                   Step(5, 40, 10, {fork}), EndEvent{.ms = 60, .request = 1}});
  EXPECT_EQ(Kinds(life), "prefill preempted prefill queued");
  EXPECT_EQ(life.spans.back().reason, "no_slot");
  EXPECT_DOUBLE_EQ(life.total_ms[static_cast<size_t>(LifeKind::kPreempted)], 20);
  EXPECT_DOUBLE_EQ(life.total_ms[static_cast<size_t>(LifeKind::kQueued)], 20);
  ExpectConsecutive(life);
}

TEST(TraceAnalysis, AForkWhosePrefixATierHadIsQueuedWhenThatHasCome) {
  StepLine loads = Line("wait", 1, 0, "tier_load");
  loads.sequence = 102;
  StepLine waits = Line("wait", 1, 0, "no_slot");
  waits.sequence = 102;
  const RequestLife life =
      LifeOf({RequestEvent{.ms = 0, .request = 1, .num_choices = 2},
              Step(1, 0, 10, {Line("prefill", 1, 16)}), Step(0, 10, 1, {loads}),
              Step(0, 20, 1, {waits}), EndEvent{.ms = 30, .request = 1}});
  EXPECT_EQ(Kinds(life), "prefill waits_for_tier queued");
  ExpectConsecutive(life);
}

TEST(TraceAnalysis, APositionGoesWithTheTokensOfItsOwnSequence) {
  StepLine first = Line("prefill", 1, 16);
  first.first_position = 32;
  StepLine second = Line("prefill", 1, 8);
  second.sequence = 102;
  const RequestLife life =
      LifeOf({RequestEvent{.ms = 0, .request = 1, .num_choices = 2},
              Step(1, 0, 10, {first, second}), EndEvent{.ms = 10, .request = 1}});
  EXPECT_EQ(life.spans[0].first_position, 32);
  EXPECT_EQ(life.spans[0].line_tokens, 16);
  EXPECT_EQ(life.spans[0].num_tokens, 24);
}

TEST(TraceAnalysis, ReasonsOfAHostileTraceAreBounded) {
  TraceAnalysis analysis;
  analysis.Add(EndEvent{.reason = "stop"});
  analysis.Add(EndEvent{.reason = std::string(65, 'x')});
  for (int i = 0; i < 1000; ++i) {
    const std::string reason = "made-up-" + std::to_string(i);
    analysis.Add(EndEvent{.reason = reason, .prompt_computed = true, .miss = reason});
  }
  analysis.Add(EndEvent{.reason = "stop"});
  const TraceCounters& counters = analysis.counters();
  EXPECT_LE(counters.ends.size(), 65u);
  EXPECT_LE(counters.misses.size(), 65u);
  EXPECT_EQ(counters.ends.at("stop"), 2);
  EXPECT_FALSE(counters.ends.contains(std::string(65, 'x')));
  int64_t sum = 0;
  for (const auto& [reason, count] : counters.ends) sum += count;
  EXPECT_EQ(sum, 1003);
}

TEST(TraceAnalysis, WithoutSpansALifeIsItsRequestAndItsEnd) {
  TraceAnalysis analysis({.keeps_spans = false});
  analysis.Add(RequestEvent{.ms = 0, .request = 1, .name = "a"});
  analysis.Add(Step(1, 2, 10, {Line("decode", 1, 1), Line("preempt", 1, 0, "no_blocks")}));
  analysis.Add(EndEvent{.ms = 20, .request = 1, .total_ms = 20});
  const std::vector<RequestLife> lives = analysis.TakeEnded();
  ASSERT_EQ(lives.size(), 1u);
  EXPECT_EQ(lives[0].request.name, "a");
  EXPECT_EQ(lives[0].end->total_ms, 20);
  EXPECT_TRUE(lives[0].spans.empty());
  EXPECT_EQ(analysis.counters().preemptions, 1);
}

TEST(TraceAnalysis, ARequestThatNeverRanHasWaitedAllItsLife) {
  const RequestLife life =
      LifeOf({RequestEvent{.ms = 5, .request = 1}, EndEvent{.ms = 9, .request = 1}});
  EXPECT_EQ(Kinds(life), "queued");
  ExpectConsecutive(life);
}

TEST(TraceAnalysis, OneRequestIsFoundByNumberOrName) {
  const std::vector<TraceEvent> events = {RequestEvent{.ms = 0, .request = 1, .name = "a"},
                                          RequestEvent{.ms = 0, .request = 2, .name = "b"},
                                          EndEvent{.ms = 1, .request = 1},
                                          EndEvent{.ms = 1, .request = 2}};
  for (const auto& [only, count] :
       {std::pair<std::string, size_t>{"1", 1}, {"b", 1}, {"c", 0}, {"", 2}}) {
    TraceAnalysis analysis({.only_request = only});
    for (const TraceEvent& event : events) analysis.Add(event);
    EXPECT_EQ(analysis.TakeEnded().size(), count) << only;
    EXPECT_EQ(analysis.counters().requests_finished, 2);
  }
}

TEST(TraceAnalysis, ARequestUnderWayIsToldAsFarAsItCame) {
  TraceAnalysis analysis;
  analysis.Add(RequestEvent{.ms = 0, .request = 1});
  analysis.Add(Step(1, 2, 10, {Line("prefill", 1, 16)}));
  EXPECT_TRUE(analysis.TakeEnded().empty());
  const std::vector<RequestLife> rest = analysis.TakeRest();
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_FALSE(rest[0].end.has_value());
  EXPECT_DOUBLE_EQ(rest[0].sum_ms(), 12);
}

TEST(TraceAnalysis, PinsAndUncomputedPromptsCountForNoStatistics) {
  TraceAnalysis analysis;
  analysis.Add(RequestEvent{.request = 1});
  analysis.Add(RequestEvent{.request = 2, .is_pin = true});
  analysis.Add(EndEvent{.request = 1, .reason = "abort", .prompt_tokens = 10, .miss = "none"});
  analysis.Add(EndEvent{.request = 2, .is_pin = true, .reason = "stop", .prompt_tokens = 20});
  EXPECT_EQ(analysis.counters().requests, 1);
  EXPECT_EQ(analysis.counters().requests_finished, 1);
  EXPECT_EQ(analysis.counters().prompt_tokens, 0);
  EXPECT_TRUE(analysis.counters().misses.empty());
}

}  // namespace
}  // namespace quire
