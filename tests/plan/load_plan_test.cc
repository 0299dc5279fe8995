#include "plan/load_plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "plan/break_even.h"
#include "plan_fixture.h"

namespace quire {
namespace {

// 1,000 tokens of 1,000 bytes, at 1 ms a token: computing takes as long as a load at 1 MB/s.
LoadQuestion Question() {
  return {.first_token = 0,
          .end_token = 1600,
          .bytes_per_token = 1000,
          .speed = {.latency_ms = 0, .bytes_per_ms = 1000},
          .prefill = {.token_ms = 1}};
}

// Every split, one after another.
double NaiveSplitMs(const LoadQuestion& question) {
  double best = std::numeric_limits<double>::infinity();
  for (int s = question.first_token / 16 * 16 + 16; s < question.end_token; s += 16) {
    double compute = 0;
    for (int p = question.first_token; p < s; ++p) {
      compute += question.prefill.token_ms + p * question.prefill.depth_ms;
    }
    const double load =
        question.queued_ms + question.speed.latency_ms +
        (question.end_token - s) * question.bytes_per_token / question.speed.bytes_per_ms;
    best = std::min(best, std::max(compute, load));
  }
  return best;
}

TEST(PrefillCost, SumsWhatEachPositionCosts) {
  const PrefillCost cost{.token_ms = 2, .depth_ms = .5};
  EXPECT_EQ(cost.Ms(0, 1), 2);
  EXPECT_EQ(cost.Ms(3, 4), 3.5);
  EXPECT_EQ(cost.Ms(0, 4), 2 + 2.5 + 3 + 3.5);
  EXPECT_EQ(cost.Ms(2, 4), 3 + 3.5);
  EXPECT_EQ(cost.Ms(4, 4), 0);
  EXPECT_EQ(cost.Ms(5, 4), 0);
  EXPECT_EQ((PrefillCost{.token_ms = 1}).Ms(0, 1 << 30), 1 << 30);
}

TEST(LoadPlan, LoadsWhatComesSoonerThanItIsComputed) {
  LoadQuestion question = Question();
  question.speed.bytes_per_ms = 100'000;
  const LoadDecision decision = DecideLoad(question);
  EXPECT_EQ(decision.choice, LoadChoice::kLoad);
  EXPECT_EQ(decision.first_loaded, 0);
  EXPECT_EQ(decision.load_ms, 16);
  EXPECT_EQ(decision.compute_ms, 1600);
}

TEST(LoadPlan, ComputesWhatComesLater) {
  LoadQuestion question = Question();
  question.speed.bytes_per_ms = 100;
  const LoadDecision decision = DecideLoad(question);
  EXPECT_EQ(decision.choice, LoadChoice::kRecompute);
  EXPECT_EQ(decision.first_loaded, 1600);
  EXPECT_EQ(decision.load_ms, 16'000);
  EXPECT_EQ(decision.compute_ms, 1600);
}

TEST(LoadPlan, MeetsInTheMiddleWhereBothAreAsFast) {
  const LoadDecision decision = DecideLoad(Question());
  EXPECT_EQ(decision.choice, LoadChoice::kSplit);
  EXPECT_EQ(decision.first_loaded, 800);
  EXPECT_EQ(decision.split_ms, 800);
}

TEST(LoadPlan, ASplitIsAtTheBlockNextToWhereBothWaysMeet) {
  LoadQuestion question = Question();
  question.end_token = 1616;  // they meet at 808: 800 computes 800 and loads 816, 816 the reverse
  EXPECT_EQ(DecideLoad(question).first_loaded, 800);
  question.queued_ms = 1;
  EXPECT_EQ(DecideLoad(question).first_loaded, 816);
  EXPECT_EQ(DecideLoad(question).split_ms, 816);
}

TEST(LoadPlan, WhatComputesDeeperMeetsEarlier) {
  LoadQuestion question = Question();
  // A position p costs 1 + p ms: at s tokens s + s (s - 1) / 2, against (1600 - s) of the load.
  question.prefill.depth_ms = 1;
  question.speed.bytes_per_ms = .1;
  const LoadDecision decision = DecideLoad(question);
  EXPECT_EQ(decision.compute_ms, 1600 + 1600. * 1599 / 2);
  EXPECT_EQ(decision.load_ms, 16'000'000);
  // s (s + 1) / 2 = 10,000 (1,600 - s) at s = 1,489, so 1,488 and 1,504 are next to it.
  EXPECT_EQ(decision.split_ms, 1'120'000);
}

TEST(LoadPlan, ASplitThatSparesLittleIsNotTaken) {
  LoadQuestion question = Question();
  question.speed.bytes_per_ms = 3100;  // a split at 1/4 spares less than a quarter
  EXPECT_EQ(DecideLoad(question).choice, LoadChoice::kLoad);
  EXPECT_LT(DecideLoad(question).split_ms, DecideLoad(question).load_ms);
  question.speed.bytes_per_ms = 2900;
  EXPECT_EQ(DecideLoad(question).choice, LoadChoice::kSplit);
}

TEST(LoadPlan, NothingFoundIsNothingLoaded) {
  LoadQuestion question = Question();
  for (const int end : {0, 160, 320}) {
    question.first_token = 320;
    question.end_token = end;
    const LoadDecision decision = DecideLoad(question);
    EXPECT_EQ(decision.choice, LoadChoice::kRecompute);
    EXPECT_EQ(decision.first_loaded, end);
    EXPECT_EQ(decision.load_ms, 0);
    EXPECT_EQ(decision.compute_ms, 0);
  }
}

TEST(LoadPlan, WhileAnythingIsNotKnownItLoads) {
  LoadQuestion question = Question();
  question.first_token = 40;
  question.speed.bytes_per_ms = 0;
  LoadDecision decision = DecideLoad(question);
  EXPECT_EQ(decision.choice, LoadChoice::kLoad);
  EXPECT_EQ(decision.first_loaded, 32);  // the block that memory has in part
  EXPECT_EQ(decision.load_ms, 0);
  EXPECT_EQ(decision.compute_ms, 1560);

  question = Question();
  question.prefill = {};
  question.speed.bytes_per_ms = 1;
  decision = DecideLoad(question);
  EXPECT_EQ(decision.choice, LoadChoice::kLoad);
  EXPECT_EQ(decision.load_ms, 1'600'000);
  EXPECT_EQ(decision.compute_ms, 0);
}

TEST(LoadPlan, ALatencyAboveEverythingIsNotWaitedFor) {
  LoadQuestion question = Question();
  question.speed = {.latency_ms = 2000, .bytes_per_ms = 1e9};
  EXPECT_EQ(DecideLoad(question).choice, LoadChoice::kRecompute);
  question.speed.latency_ms = 0;
  question.queued_ms = 2000;
  EXPECT_EQ(DecideLoad(question).choice, LoadChoice::kRecompute);
}

TEST(LoadPlan, OneBlockIsNotSplit) {
  LoadQuestion question = Question();
  question.first_token = 1584;
  EXPECT_EQ(DecideLoad(question).choice, LoadChoice::kLoad);
  EXPECT_EQ(DecideLoad(question).first_loaded, 1584);
  question.speed.bytes_per_ms = 999;
  EXPECT_EQ(DecideLoad(question).choice, LoadChoice::kRecompute);
}

TEST(LoadPlan, DeepInAPromptTheDepthDecides) {
  LoadQuestion question = Question();
  question.prefill.depth_ms = .001;
  question.speed.bytes_per_ms = 100;  // 10 ms a token: computing costs that at depth 9,000
  question.end_token = 160;
  EXPECT_EQ(DecideLoad(question).choice, LoadChoice::kRecompute);
  question.first_token = 60'000;
  question.end_token = 60'160;
  EXPECT_EQ(DecideLoad(question).choice, LoadChoice::kLoad);
}

TEST(LoadPlan, AgreesWithATrialOfEverySplit) {
  std::mt19937 random(7);
  const auto draw = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution(std::log(low), std::log(high))(random));
  };
  int counts[3] = {};
  for (int i = 0; i < 2000; ++i) {
    const int first = static_cast<int>(draw(1, 3000)) - 1;
    const LoadQuestion question{
        .first_token = first,
        .end_token = (first + static_cast<int>(draw(1, 3000))) / 16 * 16,
        .bytes_per_token = draw(100, 1e5),
        .speed = {.latency_ms = draw(.01, 100), .bytes_per_ms = draw(10, 1e7)},
        .queued_ms = draw(.01, 100),
        .prefill = {.token_ms = draw(.1, 50), .depth_ms = draw(1e-6, 1e-2)}};
    if (question.end_token <= first) continue;
    const LoadDecision decision = DecideLoad(question);
    const double naive = NaiveSplitMs(question);
    const double sooner = std::min(decision.load_ms, decision.compute_ms);
    SCOPED_TRACE(i);
    if (std::isfinite(naive)) {
      ASSERT_NEAR(decision.split_ms, naive, 1e-9 * naive);
    } else {
      ASSERT_EQ(decision.split_ms, sooner);
    }
    ASSERT_EQ(decision.choice == LoadChoice::kSplit, decision.split_ms < .75 * sooner);
    if (decision.choice != LoadChoice::kSplit) {
      ASSERT_EQ(decision.choice == LoadChoice::kLoad, decision.load_ms <= decision.compute_ms);
    }
    ++counts[static_cast<int>(decision.choice)];
  }
  for (const int count : counts) EXPECT_GT(count, 50);
}

// The bandwidth falls by a hundredth each step.
TEST(LoadPlan, TurnsToComputingWithinAStepOfTheBreakEven) {
  struct Case {
    double latency_ms;
    double depth_ms;
  };
  for (const Case& c : {Case{0, 0}, Case{0, .0001}, Case{1, 0}, Case{2000, .0001}}) {
    LoadQuestion question = Question();
    question.end_token = 16'000;
    question.prefill.depth_ms = c.depth_ms;
    question.speed = {.latency_ms = c.latency_ms, .bytes_per_ms = 1e6};
    const double break_even = BreakEvenBytesPerMs(question.prefill, 16'000,
                                                  16'000 * question.bytes_per_token, c.latency_ms);
    std::vector<LoadChoice> choices;
    while (DecideLoad(question).load_ms <= DecideLoad(question).compute_ms) {
      choices.push_back(DecideLoad(question).choice);
      question.speed.bytes_per_ms /= 1.01;
    }
    EXPECT_LT(question.speed.bytes_per_ms, break_even);
    EXPECT_GE(question.speed.bytes_per_ms * 1.01 * (1 + 1e-12), break_even);
    while (DecideLoad(question).choice != LoadChoice::kRecompute) {
      choices.push_back(DecideLoad(question).choice);
      question.speed.bytes_per_ms /= 1.01;
    }
    // From loads by way of splits, and never back.
    EXPECT_EQ(choices.front(), LoadChoice::kLoad);
    EXPECT_EQ(choices.back(), LoadChoice::kSplit);
    EXPECT_TRUE(std::is_sorted(choices.begin(), choices.end(), [](LoadChoice a, LoadChoice b) {
      return a == LoadChoice::kLoad && b == LoadChoice::kSplit;
    }));
    if (c.latency_ms + c.depth_ms == 0) {
      EXPECT_LT(question.speed.bytes_per_ms, break_even / 3);
      EXPECT_GT(question.speed.bytes_per_ms * 1.011, break_even / 3);
    }
  }
}

TEST(LoadPlan, NoBandwidthBeatsALatencyThatIsTooLong) {
  const PrefillCost prefill{.token_ms = 1};
  EXPECT_EQ(BreakEvenBytesPerMs(prefill, 100, 1000, 90), 100);
  EXPECT_TRUE(std::isinf(BreakEvenBytesPerMs(prefill, 100, 1000, 100)));
  EXPECT_TRUE(std::isinf(BreakEvenBytesPerMs(prefill, 100, 1000, 101)));
}

TEST(LoadPlan, ItsChoicesHaveNames) {
  EXPECT_EQ(NameOf(LoadChoice::kLoad), "load");
  EXPECT_EQ(NameOf(LoadChoice::kRecompute), "recompute");
  EXPECT_EQ(NameOf(LoadChoice::kSplit), "split");
}

// 131,072 bytes a token.
KvCost Llama8b() { return testing::Cost(testing::Preset("llama-3-8b")); }

TEST(BreakEven, HasTheLengthsThatTheContextHas) {
  const std::vector<PrefillCost> prefills = {{.token_ms = 10}};
  const std::vector<TierSpeed> tiers = {{.latency_ms = 1, .bytes_per_ms = 100'000}};
  const auto lengths = [&](int context) {
    return MakeBreakEven(Llama8b(), context, prefills, tiers).lengths;
  };
  EXPECT_EQ(lengths(100'000), (std::vector{256, 1024, 4096, 16384}));
  EXPECT_EQ(lengths(4096), (std::vector{256, 1024, 4096}));
  EXPECT_EQ(lengths(4095), (std::vector{256, 1024}));
  EXPECT_EQ(lengths(100), (std::vector{100}));
  EXPECT_EQ(lengths(1), (std::vector{1}));
}

TEST(BreakEven, ItsFiguresAreThoseOfTheLoadPlan) {
  const std::vector<PrefillCost> prefills = {{.token_ms = 10}, {.token_ms = 1, .depth_ms = .01}};
  const std::vector<TierSpeed> tiers = {{.latency_ms = 1, .bytes_per_ms = 100'000},
                                        {.latency_ms = 50, .bytes_per_ms = 1000}};
  const BreakEven table = MakeBreakEven(Llama8b(), 4096, prefills, tiers);
  EXPECT_EQ(table.bytes[0], 256u * 131'072);
  EXPECT_EQ(table.loading[0].ms[0], 1 + 256 * 131'072. / 100'000);
  EXPECT_EQ(table.computing[0].ms[2], 40'960);
  EXPECT_EQ(table.computing[0].pairs[0].bytes_per_ms[0], 256 * 131'072. / 2559);
  for (const BreakEven::Computing& computing : table.computing) {
    for (size_t t = 0; t < tiers.size(); ++t) {
      for (size_t i = 0; i < table.lengths.size(); ++i) {
        LoadQuestion question{.end_token = table.lengths[i],
                              .bytes_per_token = 131'072,
                              .speed = tiers[t],
                              .prefill = computing.cost};
        EXPECT_EQ(DecideLoad(question).load_ms, table.loading[t].ms[i]);
        EXPECT_EQ(DecideLoad(question).compute_ms, computing.ms[i]);
        question.speed.bytes_per_ms = computing.pairs[t].bytes_per_ms[i] * 1.0001;
        EXPECT_LT(DecideLoad(question).load_ms, computing.ms[i]);
        question.speed.bytes_per_ms = computing.pairs[t].bytes_per_ms[i] / 1.0001;
        EXPECT_GT(DecideLoad(question).load_ms, computing.ms[i]);
      }
    }
  }
}

TEST(BreakEven, TheShortestPrefixThatIsWorthALoadIsThatOfATrialOfAll) {
  const KvCost llama = Llama8b();
  const KvCost gemma = testing::Cost(testing::Preset("gemma-3-1b"));  // windows of 512
  std::mt19937 random(3);
  const auto draw = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution(std::log(low), std::log(high))(random));
  };
  int num_never = 0;
  int num_later = 0;
  for (int i = 0; i < 500; ++i) {
    const KvCost& cost = i % 2 ? llama : gemma;
    const PrefillCost prefill{.token_ms = draw(.1, 50), .depth_ms = draw(1e-6, 1e-2)};
    const TierSpeed speed{.latency_ms = draw(.01, 3000), .bytes_per_ms = draw(1e2, 1e6)};
    int naive = -1;
    for (int n = 2048; n > 0 && prefill.Ms(0, n) > speed.Ms(PrefixBytes(cost, n)); n -= 16) {
      naive = n;
    }
    ASSERT_EQ(BreakEvenTokens(prefill, speed, cost, 2050), naive) << i;
    num_never += naive == -1;
    num_later += naive > 16;
  }
  EXPECT_GT(num_never, 50);
  EXPECT_GT(num_later, 50);
}

TEST(BreakEven, AContextWithoutAWholeBlockLoadsNothing) {
  EXPECT_EQ(
      BreakEvenTokens({.token_ms = 100}, {.latency_ms = 0, .bytes_per_ms = 1e9}, Llama8b(), 15),
      -1);
}

}  // namespace
}  // namespace quire
