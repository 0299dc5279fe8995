#include "plan/memory_plan.h"

#include "plan/plan_fixture.h"

namespace quire {
namespace {

using namespace testing;
using ::testing::HasSubstr;

TEST(MemoryPlan, Qwen7bAt2048Tokens) {
  const ModelShape shape = Preset("qwen-7b");
  const KvCost cost = Cost(shape);
  EXPECT_EQ(cost.LayerBytes(0, 2048), 33'554'432u);
  const MemoryPlan plan = Plan(shape, {.context_tokens = 2048});
  EXPECT_EQ(plan.kv_sequence_formula_bytes, 1'073'741'824u);
  EXPECT_EQ(plan.kv_sequence_bytes, 1'073'741'824u);
  EXPECT_EQ(plan.weight_bytes, 15'442'649'088u);
}

TEST(MemoryPlan, Llama13bATokenCosts800KiB) {
  EXPECT_EQ(Cost(Preset("llama-13b")).BytesPerToken(), 819'200u);
}

TEST(MemoryPlan, ACardThatHoldsTheWeightsTooCarriesFewer) {
  const ModelShape shape = Preset("qwen-7b");
  const std::pair<int, int> expected[] = {{512, 34}, {2048, 8}, {4096, 4}, {8192, 2}};
  for (const auto& [context, sequences] : expected) {
    const PlanOptions options{.context_tokens = context, .overhead_bytes = kGiB};
    EXPECT_EQ(*SequencesThatFit(shape, options, 24 * kGiB), sequences) << context;
  }
}

TEST(MemoryPlan, TheLinesAreTheTotal) {
  for (const char* name : {"gemma-3-1b", "qwen2.5-7b"}) {
    for (const std::optional<uint64_t> overhead : {std::optional<uint64_t>(), {kGiB}}) {
      const MemoryPlan plan = Plan(Preset(name), {.context_tokens = 4096,
                                                  .num_sequences = 4,
                                                  .num_threads = 2,
                                                  .overhead_bytes = overhead});
      uint64_t sum = 0;
      for (const MemoryLine& line : plan.Lines()) {
        EXPECT_GT(line.bytes, 0u) << line.name;
        sum += line.bytes;
      }
      EXPECT_EQ(plan.total_bytes(), sum);
      EXPECT_EQ(plan.total_formula_bytes(), sum - plan.kv_bytes + plan.kv_formula_bytes);
      EXPECT_EQ(plan.bytes_without_kv(), sum - plan.kv_bytes);
    }
  }
}

// Every option that makes the engine hold more makes the plan larger.
TEST(MemoryPlan, MoreOfAnythingNeverTakesLess) {
  const ModelShape shape = Preset("gemma-3-270m");
  const PlanOptions base{.context_tokens = 1000, .num_sequences = 2, .num_threads = 2};
  const uint64_t total = Plan(shape, base).total_bytes();
  const auto larger = [&](auto change) {
    PlanOptions options = base;
    change(options);
    return Plan(shape, options).total_bytes() > total;
  };
  EXPECT_TRUE(larger([](PlanOptions& o) { o.context_tokens = 2000; }));
  EXPECT_TRUE(larger([](PlanOptions& o) { o.num_sequences = 3; }));
  EXPECT_TRUE(larger([](PlanOptions& o) { o.prefill_chunk = 900; }));
  EXPECT_TRUE(larger([](PlanOptions& o) { o.num_threads = 8; }));
  EXPECT_TRUE(larger([](PlanOptions& o) { o.logits_rows = 64; }));
  EXPECT_TRUE(larger([](PlanOptions& o) { o.kv_element = *FindKvElement("f32"); }));
}

TEST(MemoryPlan, TheInversesAgreeWithTheForwardAnswer) {
  for (const char* name : {"gemma-3-1b", "smollm2-135m", "qwen2.5-7b"}) {
    const ModelShape shape = Preset(name);
    for (const uint64_t budget : {3 * kGiB, 20 * kGiB}) {
      PlanOptions options{.context_tokens = 1500, .num_sequences = 3};
      const int context = *LargestContext(shape, options, budget);
      if (context > 0) {
        options.context_tokens = context;
        EXPECT_LE(Plan(shape, options).total_bytes(), budget);
        options.context_tokens = context + 1;
        EXPECT_GT(Plan(shape, options).total_bytes(), budget);
      } else {
        options.context_tokens = 1;
        EXPECT_GT(Plan(shape, options).total_bytes(), budget);
      }
      options.context_tokens = 1500;
      const int sequences = *SequencesThatFit(shape, options, budget);
      options.num_sequences = sequences + 1;
      EXPECT_GT(Plan(shape, options).total_bytes(), budget);
      if (sequences == 0) continue;
      options.num_sequences = sequences;
      EXPECT_LE(Plan(shape, options).total_bytes(), budget);
    }
  }
}

// What each sequence takes beside its keys and values counts as well: the whole sequences in what
// is left for the cache are those that the plan accepts, whatever the options were asked with.
TEST(MemoryPlan, TheCacheOfABudgetHoldsTheSequencesThatFitAndNotOneMore) {
  for (const char* name : {"smollm2-135m", "gemma-3-270m", "llama-3-8b"}) {
    const ModelShape shape = Preset(name);
    const KvCost cost = Cost(shape);
    for (const int context : {1, 16, 100, 1024, 4096}) {
      for (const uint64_t budget : {100 * kMiB, 700 * kMiB, 3 * kGiB, 16 * kGiB, 24 * kGiB + 7}) {
        for (const int asked : {1, 8}) {
          SCOPED_TRACE(fmt::format("{} {} {} {}", name, context, budget, asked));
          const PlanOptions options{.context_tokens = context, .num_sequences = asked};
          const int sequences = *SequencesThatFit(shape, options, budget);
          const auto kv = KvBytesThatFit(shape, options, budget);
          ASSERT_TRUE(kv.ok());
          const auto there = PlanConcurrency(cost, *kv, {.context_tokens = context});
          ASSERT_TRUE(there.ok());
          EXPECT_EQ(there->worst_case, sequences);
          EXPECT_EQ(static_cast<int>(there->worst_case_ratio), sequences);
        }
      }
    }
  }
}

// "How many users at 4k", "the largest context for 8 users", "which type": every answer, put back
// into the question, agrees.
TEST(MemoryPlan, WhatFitsByTypeAgreesWithTheForwardAnswerOfEach) {
  const uint64_t budget = 16 * kGiB;
  for (const char* name : {"gemma-3-4b", "llama-3-8b", "qwen2.5-1.5b"}) {
    ModelShape shape = Preset(name);
    PlanOptions options{.context_tokens = 4096, .num_sequences = 8};
    SetWeightBits(shape, 8);
    const auto fits = FitByKvType(shape, options, budget);
    ASSERT_TRUE(fits.ok());
    ASSERT_EQ(fits->size(), kKvElements.size());
    for (const KvTypeFit& fit : *fits) {
      SCOPED_TRACE(std::string(name) + " " + std::string(fit.element.name));
      options.kv_element = fit.element;
      const auto total = [&](int context, int sequences) {
        PlanOptions asked = options;
        asked.context_tokens = context;
        asked.num_sequences = sequences;
        return Plan(shape, asked).total_bytes();
      };
      ASSERT_GT(fit.largest_context, 0);
      EXPECT_LE(total(fit.largest_context, 8), budget);
      EXPECT_GT(total(fit.largest_context + 1, 8), budget);
      ASSERT_GT(fit.sequences, 0);
      EXPECT_LE(total(4096, fit.sequences), budget);
      EXPECT_GT(total(4096, fit.sequences + 1), budget);
      EXPECT_EQ(fit.kv_bytes_per_token, Plan(shape, options).kv_bytes_per_token);
    }
  }
}

TEST(MemoryPlan, TypesThatCannotStoreTheHeadsFitNothing) {
  ModelShape shape = Preset("llama-3-8b");
  shape.config.layers[2].key_dim = 80;
  const auto fits = FitByKvType(shape, {.context_tokens = 4096}, 64 * kGiB);
  ASSERT_TRUE(fits.ok());
  for (const KvTypeFit& fit : *fits) EXPECT_FALSE(fit.element.needs_whole_groups);
  EXPECT_EQ(fits->size(), 4u);
}

// Prompts that are shorter than a step share it.
TEST(MemoryPlan, AStepHoldsTheRowsOfSeveralShortPrompts) {
  const ModelShape shape = Preset("smollm2-135m");
  const auto activations = [&](int context, int sequences, int chunk) {
    return Plan(shape,
                {.context_tokens = context, .num_sequences = sequences, .prefill_chunk = chunk})
        .activation_bytes;
  };
  EXPECT_GT(activations(64, 4, 512), 3 * activations(64, 1, 512));
  // A step that one prompt fills has its rows, whoever else waits; decodes take a little scratch.
  EXPECT_LT(activations(64, 4, 32), 1.01 * static_cast<double>(activations(64, 2, 32)));
}

TEST(MemoryPlan, EveryThreadThatSamplesHasItsScratch) {
  const ModelShape shape = Preset("gemma-3-270m");
  const auto logits = [&](int sequences, int threads) {
    return Plan(shape, {.context_tokens = 1024, .num_sequences = sequences, .num_threads = threads})
        .logits_bytes;
  };
  EXPECT_EQ(logits(1, 8), logits(1, 1));
  EXPECT_EQ(logits(4, 2) - logits(4, 1), 20u * 262'144);
  EXPECT_EQ(logits(4, 8), logits(4, 4));
}

TEST(MemoryPlan, WhatDoesNotFitIsToldWithWhatWould) {
  const ModelShape shape = Preset("llama-3-8b");
  const PlanOptions options{.context_tokens = 8192, .num_sequences = 16};
  EXPECT_TRUE(CheckFits(shape, options, 64 * kGiB).ok());
  const Status status = CheckFits(shape, options, 24 * kGiB);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kResourceExhausted);
  const std::string& message = status.error().message;
  EXPECT_THAT(message, HasSubstr("16 sequences of 8192 tokens need"));
  EXPECT_THAT(message, HasSubstr("there are 25,769,803,776 bytes"));
  EXPECT_THAT(message, HasSubstr(fmt::format("at most {} tokens",
                                             *LargestContext(shape, options, 24 * kGiB))));
  EXPECT_THAT(message, HasSubstr(fmt::format("{} sequences of 8192",
                                             *SequencesThatFit(shape, options, 24 * kGiB))));
  EXPECT_THAT(CheckFits(shape, options, kGiB).error().message,
              HasSubstr("are needed without any keys and values"));
}

TEST(MemoryPlan, OptionsOutOfRangeAreRefused) {
  const ModelShape shape = Preset("llama-3-8b");
  const auto code = [&](const PlanOptions& options) {
    const auto plan = PlanMemory(shape, options);
    return plan.ok() ? "accepted" : plan.error().message;
  };
  EXPECT_THAT(code({.context_tokens = -1}), HasSubstr("-1 tokens of context"));
  EXPECT_THAT(code({.num_sequences = 0}), HasSubstr("0 sequences; expected 1 to"));
  EXPECT_THAT(code({.prefill_chunk = 0}), HasSubstr("0 tokens a step"));
  EXPECT_THAT(code({.num_threads = 0}), HasSubstr("0 threads"));
  EXPECT_THAT(code({.logits_rows = -1}), HasSubstr("rows of logits"));
}

TEST(MemoryPlan, AbsurdSizesFitNowhereInsteadOfWrappingAround) {
  ModelShape shape = Preset("llama-3.1-405b");
  shape.weight_bytes = ~uint64_t{0} - 5;
  const PlanOptions options{.context_tokens = std::numeric_limits<int>::max(),
                            .num_sequences = kMaxPlannedSequences,
                            .prefill_chunk = kMaxPlannedChunk};
  EXPECT_EQ(Plan(shape, options).total_bytes(), ~uint64_t{0});
  shape.config.layers[3].num_kv_heads = std::numeric_limits<int>::max();
  const auto plan = PlanMemory(shape, options);
  ASSERT_FALSE(plan.ok());
  EXPECT_THAT(plan.error().message, HasSubstr("up to layer 3"));
}

TEST(MemoryPlan, AHeadThatATypeCannotStoreIsNamed) {
  ModelShape shape = Preset("llama-3-8b");
  shape.config.layers[2].key_dim = 80;
  for (const char* element : {"q8_0", "q4_0"}) {
    const auto plan = PlanMemory(shape, {.kv_element = *FindKvElement(element)});
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(plan.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(plan.error().message, HasSubstr("layer 2"));
    EXPECT_THAT(plan.error().message, HasSubstr(element));
  }
  EXPECT_TRUE(PlanMemory(shape, {.kv_element = *FindKvElement("fp8")}).ok());
}

}  // namespace
}  // namespace quire
