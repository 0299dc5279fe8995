// That --verify compares what it says, and that a plan that is off is caught by the item.
//
// This program is not `quire`, so its own code and stacks are not those that a plan speaks of: the
// items "process" and "total" are checked from outside (plan_verify_test.py).
#include "cli/plan_verify.h"

#include <algorithm>
#include <set>

#include "formats/gguf.h"
#include "plan/plan_fixture.h"

namespace quire {
namespace {

using namespace testing;
using ::testing::HasSubstr;

const std::set<std::string_view> kOfTheProcess = {"process", "total"};

class PlanVerify : public ::testing::Test {
 protected:
  // `change` is done to the plan before it is verified.
  Result<VerifyReport> Verify(const std::string& model, PlanOptions options,
                              const std::function<void(MemoryPlan&)>& change = {}) {
    const std::string path = QUIRE_TESTS_DIR "/golden/models/" + model;
    QUIRE_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
    QUIRE_ASSIGN_OR_RETURN(const ModelShape shape, ShapeOfFile(file));
    options.num_threads = 2;
    MemoryPlan plan = Plan(shape, options);
    if (change) change(plan);
    EngineFlags engine;
    engine.model = path;
    engine.threads = 2;
    engine.max_batched_tokens = options.prefill_chunk;
    engine.kv_type = std::string(options.kv_element.name);
    engine.no_pack_cache = true;
    return VerifyPlan({.engine = engine,
                       .plan = plan,
                       .with_floors = false,
                       .go_on = [this] { return --steps_left_ != 0; },
                       .show = [](std::string_view) {}});
  }

  static std::set<std::string_view> Faults(const VerifyReport& report) {
    std::set<std::string_view> names;
    for (const VerifyItem& item : report.items) {
      if (!item.holds() && !kOfTheProcess.contains(item.name)) names.insert(item.name);
    }
    return names;
  }

  static const VerifyItem& Item(const VerifyReport& report, std::string_view name) {
    const auto found = std::ranges::find(report.items, name, &VerifyItem::name);
    QUIRE_CHECK(found != report.items.end(), "no item {}", name);
    return *found;
  }

  int steps_left_ = -1;  // until it is interrupted; negative: never
};

using Names = std::set<std::string_view>;
constexpr PlanOptions kShape{.context_tokens = 128, .num_sequences = 3, .prefill_chunk = 32};

TEST_F(PlanVerify, EveryItemOfATinyModelHolds) {
  for (const char* model :
       {"tiny-llama.gguf", "tiny-gemma3.gguf", "tiny-qwen2.gguf", "tiny-classic.gguf"}) {
    const auto report = Verify(model, kShape);
    ASSERT_TRUE(report.ok()) << model << ": " << report.error().message;
    EXPECT_EQ(Faults(*report), Names{}) << model << VerifyAsText(*report);
    for (const char* name : {"weights", "kv", "tables", "activations", "logits", "text"}) {
      EXPECT_GT(Item(*report, name).measured, 0u) << model << " " << name;
    }
    EXPECT_EQ(Item(*report, "sequences").measured, 3u) << model;
  }
}

TEST_F(PlanVerify, HoldsForEveryTypeOfKeysAndValues) {
  for (const char* type : {"f32", "bf16", "q8_0"}) {
    PlanOptions options = kShape;
    options.kv_element = *FindKvElement(type);
    const auto report = Verify("tiny-llama-wide-heads.gguf", options);
    ASSERT_TRUE(report.ok()) << type << ": " << report.error().message;
    EXPECT_EQ(Faults(*report), Names{}) << type << VerifyAsText(*report);
  }
}

TEST_F(PlanVerify, APlanThatIsOffIsCaughtByTheItem) {
  constexpr uint64_t kTwoMiB = 2 * kMiB;
  const auto faults = [&](const std::function<void(MemoryPlan&)>& change) {
    const auto report = Verify("tiny-llama.gguf", kShape, change);
    QUIRE_CHECK(report.ok(), "{}", report.error().message);
    EXPECT_FALSE(report->holds());
    return Faults(*report);
  };
  EXPECT_EQ(faults([](MemoryPlan& p) { p.weight_bytes += kTwoMiB; }), Names{"weights"});
  EXPECT_EQ(faults([](MemoryPlan& p) { p.table_bytes += kTwoMiB; }), Names{"tables"});
  EXPECT_EQ(faults([](MemoryPlan& p) { p.activation_bytes += kTwoMiB; }), Names{"activations"});
  EXPECT_EQ(faults([](MemoryPlan& p) { p.logits_bytes += kTwoMiB; }), Names{"logits"});
  EXPECT_EQ(faults([](MemoryPlan& p) { p.text_bytes += kTwoMiB; }), Names{"text"});
  EXPECT_EQ(faults([](MemoryPlan& p) { p.kv_bytes_per_token *= 2; }), Names{"kv_bytes_per_token"});
  EXPECT_EQ(faults([](MemoryPlan& p) { p.kv_bytes_per_block *= 2; }), Names{"kv_bytes_per_block"});
  EXPECT_EQ(faults([](MemoryPlan& p) { p.kv_blocks += 4; }), Names{"kv_blocks"});
}

// A cache of two thirds of what three sequences need.
TEST_F(PlanVerify, ACacheThatIsTooSmallShowsInTheSequencesThatRunAtOnce) {
  const auto report =
      Verify("tiny-llama.gguf", kShape, [](MemoryPlan& p) { p.kv_bytes = p.kv_bytes * 2 / 3; });
  ASSERT_TRUE(report.ok()) << report.error().message;
  const Names names = Faults(*report);
  EXPECT_TRUE(names.contains("kv_blocks"));
  EXPECT_TRUE(names.contains("sequences"));
  EXPECT_THAT(report->Faults(), HasSubstr("blocks (predicted 24, measured 16)"));
}

TEST_F(PlanVerify, EndsWhereItIsInterrupted) {
  steps_left_ = 3;
  const auto report = Verify("tiny-llama.gguf", kShape);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, ErrorCode::kInterrupted);
}

TEST_F(PlanVerify, WhatIsNoLoadIsRefused) {
  const auto refusal = [&](const PlanOptions& options) {
    const auto report = Verify("tiny-llama.gguf", options);
    return report.ok() ? "accepted" : report.error().message;
  };
  EXPECT_THAT(refusal({.context_tokens = 31}), HasSubstr("takes 32 or more"));
  EXPECT_THAT(refusal({.context_tokens = 128, .overhead_bytes = kMiB}), HasSubstr("--overhead"));
}

TEST(VerifyItem, MayBeOffByTheLargerOfFivePerCentAndAMiB) {
  const auto holds = [](VerifyUnit unit, uint64_t predicted, uint64_t measured) {
    return VerifyItem{.unit = unit, .predicted = predicted, .measured = measured}.holds();
  };
  EXPECT_TRUE(holds(VerifyUnit::kBytes, 0, kMiB));
  EXPECT_FALSE(holds(VerifyUnit::kBytes, 0, kMiB + 1));
  EXPECT_TRUE(holds(VerifyUnit::kBytes, 95 * kMiB, 100 * kMiB));
  EXPECT_FALSE(holds(VerifyUnit::kBytes, 94 * kMiB, 100 * kMiB));
  EXPECT_FALSE(holds(VerifyUnit::kBytes, 100 * kMiB, 94 * kMiB));
  // A MiB more a token is no small matter.
  EXPECT_FALSE(holds(VerifyUnit::kBytesEach, 1000, 1060));
  EXPECT_TRUE(holds(VerifyUnit::kCount, 100, 96));
  EXPECT_FALSE(holds(VerifyUnit::kCount, 10, 9));
}

}  // namespace
}  // namespace quire
