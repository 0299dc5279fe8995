// Prefixes that are kept on purpose: what they hold, for whom, how long, and what they cost others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <thread>

#include "engine/requests_fixture.h"

namespace quire::testing {
namespace {

using ::testing::HasSubstr;

constexpr double kHour = 3600'000;

class PinsTest : public RequestsFixture {
 protected:
  static PinSpec Spec(std::vector<int32_t> tokens, const std::string& tenant = "a") {
    return {.tokens = std::move(tokens), .tenant = tenant, .label = "l", .lifetime_ms = kHour};
  }

  static Result<PinInfo> Pin(Engine& engine, PinSpec spec) {
    std::optional<Result<PinInfo>> told;
    engine.Pin(std::move(spec), [&](Result<PinInfo> result) { told = std::move(result); });
    engine.CheckInvariants();
    while (engine.Step()) engine.CheckInvariants();
    engine.CheckInvariants();
    if (!told) return MakeError(ErrorCode::kCorrupt, "nothing was told");
    return *told;
  }

  static RequestResult Run(Engine& engine, Request request) {
    RequestResult told;
    const auto id = engine.Submit(std::move(request),
                                  {.on_finish = [&](RequestResult r) { told = std::move(r); }});
    if (!id.ok()) ADD_FAILURE() << id.error().message;
    while (engine.Step()) engine.CheckInvariants();
    return told;
  }

  static std::vector<int32_t> Then(std::vector<int32_t> tokens, int count) {
    for (int i = 0; i < count; ++i) tokens.push_back(3 + i);
    return tokens;
  }
};

TEST_F(PinsTest, APinnedPrefixIsFoundWhateverCameSince) {
  for (const bool is_pinned : {true, false}) {
    auto engine = Tiny(24);
    if (is_pinned) {
      const auto pin = Pin(*engine, Spec(Ascending(40)));
      ASSERT_TRUE(pin.ok()) << pin.error().message;
      EXPECT_EQ(pin->num_tokens, 40);
      EXPECT_EQ(pin->num_blocks, 3);
      EXPECT_EQ(pin->size_bytes, 3 * engine->cache().layout().block_bytes);
      EXPECT_EQ(engine->cache().usage().used_blocks, 3);
    } else {
      Run(*engine, Sampled(Ascending(40), 1));
    }
    for (int i = 1; i <= 8; ++i) Run(*engine, Sampled(Ascending(100, 30 * i), 10));
    const RequestResult result = Run(*engine, Sampled(Then(Ascending(40), 5), 4));
    EXPECT_EQ(result.cached_tokens, is_pinned ? 40 : 0);
    EXPECT_EQ(result.miss.reason, is_pinned ? MissReason::kNeverSeen : MissReason::kEvicted);
    auto cold = Tiny(24);
    ExpectSameChoices(result, Run(*cold, Sampled(Then(Ascending(40), 5), 4)));
  }
}

TEST_F(PinsTest, APinCountsOnlyWhatItComputes) {
  auto engine = Tiny(24);
  ASSERT_TRUE(Pin(*engine, Spec(Ascending(40))).ok());
  const EngineCounters& counters = engine->counters();
  EXPECT_EQ(counters.computed_tokens, 40);
  EXPECT_EQ(counters.prompt_tokens, 0);
  EXPECT_EQ(counters.generated_tokens, 0);
  EXPECT_EQ(counters.requests_finished, 0);
  EXPECT_EQ(counters.prefix_cache_queries, 0);
}

// What is pinned is computed beside its twins, or again: the blocks that are held are those found.
TEST_F(PinsTest, APinHoldsTheBlocksThatAreFound) {
  for (const int size : {16, 40, 48}) {
    auto engine = Tiny(24);
    Run(*engine, Sampled(Ascending(size), 1));
    ASSERT_TRUE(Pin(*engine, Spec(Ascending(size))).ok());
    const int64_t cached = engine->cache().usage().cached_blocks;
    for (int i = 1; i <= 8; ++i) Run(*engine, Sampled(Ascending(100, 30 * i), 10));
    EXPECT_EQ(Run(*engine, Sampled(Then(Ascending(size), 5), 4)).cached_tokens, size) << cached;
  }
}

TEST_F(PinsTest, PinsOfOnePrefixShareItsBlocks) {
  auto engine = Tiny(24);
  const auto one = Pin(*engine, Spec(Ascending(48)));
  const auto same = Pin(*engine, Spec(Ascending(48)));
  const auto longer = Pin(*engine, Spec(Then(Ascending(48), 16)));
  ASSERT_TRUE(one.ok() && same.ok() && longer.ok());
  EXPECT_EQ(engine->num_pinned_blocks(), 4);
  EXPECT_EQ(engine->counters().computed_tokens, 48 + 1 + 16);
  EXPECT_TRUE(engine->DropPin("a", longer->id));
  EXPECT_TRUE(engine->DropPin("a", one->id));
  engine->CheckInvariants();
  EXPECT_EQ(engine->num_pinned_blocks(), 3);
  EXPECT_FALSE(engine->DropPin("a", one->id));
  EXPECT_TRUE(engine->DropPin("a", same->id));
  EXPECT_EQ(engine->cache().usage().used_blocks, 0);
  EXPECT_EQ(Run(*engine, Sampled(Ascending(48), 1)).cached_tokens, 47);  // cached as ever
}

// 24 blocks: a half is 12.
TEST_F(PinsTest, PinsBeyondTheServersQuotaAreRefusedWithTheNumbers) {
  auto engine = Tiny(24);
  ASSERT_TRUE(Pin(*engine, Spec(Ascending(100))).ok());  // 7 blocks
  const auto refused = Pin(*engine, Spec(Ascending(96, 9), "b"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("takes 6 blocks"));
  EXPECT_THAT(refused.error().message, HasSubstr("pins hold 7 of the 12 blocks"));
  EXPECT_TRUE(Pin(*engine, Spec(Ascending(80, 9), "b")).ok());
  EXPECT_EQ(engine->num_pinned_blocks(), 12);
}

// 12 blocks: a whole context takes 8 of them.
TEST_F(PinsTest, APinThatNoRoomCouldEverHoldIsNotAskedToComeAgain) {
  auto engine = Tiny(12);
  const auto refused = Pin(*engine, Spec(Ascending(100)));  // 7 blocks
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kContextLength);
  EXPECT_THAT(refused.error().message, HasSubstr("takes 7 blocks"));
  EXPECT_THAT(refused.error().message, HasSubstr("may hold 4 blocks"));
}

// Two at once: the room of the one that is being computed is taken.
TEST_F(PinsTest, PinsInTheMakingCount) {
  auto engine = Tiny(24);
  std::vector<bool> are_held;
  for (int i = 0; i < 3; ++i) {
    engine->Pin(Spec(Ascending(70, 50 * i + 1)),
                [&](const Result<PinInfo>& pin) { are_held.push_back(pin.ok()); });
  }
  EXPECT_EQ(are_held, std::vector<bool>{false});
  engine->RunUntilIdle();
  EXPECT_EQ(are_held, (std::vector<bool>{false, true, true}));
}

TEST_F(PinsTest, AWholeContextAlwaysFitsBesideThePins) {
  auto engine = Tiny(10);  // a context of 128 takes 8
  ASSERT_FALSE(Pin(*engine, Spec(Ascending(33))).ok());
  ASSERT_TRUE(Pin(*engine, Spec(Ascending(32))).ok());
  const RequestResult result = Run(*engine, Sampled(Ascending(100, 5), -1));
  EXPECT_EQ(result.completion_tokens(), 28);
  auto smallest = Tiny(8);
  EXPECT_FALSE(Pin(*smallest, Spec({1})).ok());
}

TEST_F(PinsTest, ATenantsPinsStayWithinItsQuota) {
  auto engine = Tiny(40);
  PinSpec spec = Spec(Ascending(40));
  spec.max_blocks = 4;
  ASSERT_TRUE(Pin(*engine, spec).ok());
  spec.tokens = Then(Ascending(32), 32);
  EXPECT_TRUE(Pin(*engine, spec).error().message.find("of the 4 blocks") != std::string::npos);
  spec.tokens = Then(Ascending(32), 8);  // two shared blocks and a copied one
  EXPECT_TRUE(Pin(*engine, spec).ok());
  spec.tenant = "b";
  spec.tokens = Ascending(64, 5);
  EXPECT_TRUE(Pin(*engine, spec).ok());
}

TEST_F(PinsTest, NobodySeesOrDropsAnothersPins) {
  auto engine = Tiny(40);
  const auto pin = Pin(*engine, Spec(Ascending(40)));
  ASSERT_TRUE(pin.ok());
  EXPECT_TRUE(engine->Pins("b").empty());
  EXPECT_FALSE(engine->DropPin("b", pin->id));
  const std::vector<PinInfo> pins = engine->Pins("a");
  ASSERT_EQ(pins.size(), 1u);
  EXPECT_EQ(pins[0].id, pin->id);
  EXPECT_EQ(pins[0].label, "l");
  EXPECT_LE(pins[0].expires_in_ms, kHour);
  EXPECT_GT(pins[0].expires_in_ms, kHour / 2);
}

TEST_F(PinsTest, APinEndsAtItsTime) {
  auto engine = Tiny(40);
  PinSpec spec = Spec(Ascending(40));
  spec.lifetime_ms = 5;
  ASSERT_TRUE(Pin(*engine, spec).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(engine->Pins("a").empty());
  EXPECT_FALSE(engine->Step());
  EXPECT_EQ(engine->cache().usage().used_blocks, 0);
}

TEST_F(PinsTest, APinThatIsGivenUpLeavesItsRoom) {
  auto engine = Tiny(24);
  for (int i = 0; i < 3; ++i) {
    std::optional<Result<PinInfo>> told;
    engine->Pin(Spec(Ascending(128 - 1)), [&](Result<PinInfo> pin) { told = std::move(pin); });
    EXPECT_FALSE(told.has_value());
    engine->AbortAll();
    ASSERT_TRUE(told.has_value());
    EXPECT_EQ(told->error().code, ErrorCode::kInterrupted);
  }
  EXPECT_TRUE(Pin(*engine, Spec(Ascending(127))).ok());
}

TEST_F(PinsTest, WhatCannotBePinnedIsRefused) {
  auto engine = Tiny(40);
  const auto code_of = [&](const PinSpec& spec) {
    const auto pin = Pin(*engine, spec);
    return pin.ok() ? ErrorCode::kCorrupt : pin.error().code;
  };
  EXPECT_EQ(code_of(Spec({})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(Spec({-1})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(Spec({1 << 30})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(Spec(Ascending(128))), ErrorCode::kContextLength);
  for (const double lifetime : {0., -1., std::nan(""), std::numeric_limits<double>::infinity()}) {
    PinSpec spec = Spec({1});
    spec.lifetime_ms = lifetime;
    EXPECT_EQ(code_of(spec), ErrorCode::kInvalidArgument) << lifetime;
  }
  PinSpec spec = Spec({1});
  spec.label = std::string(300, 'x');
  EXPECT_EQ(code_of(spec), ErrorCode::kInvalidArgument);
  EXPECT_EQ(engine->num_pinned_blocks(), 0);
}

TEST_F(PinsTest, NobodyHasPinsWithoutEnd) {
  auto engine = Tiny(24);
  int num_held = 0;
  while (num_held < 1000 && Pin(*engine, Spec(Ascending(16))).ok()) ++num_held;
  EXPECT_EQ(num_held, 256);
  EXPECT_TRUE(Pin(*engine, Spec(Ascending(16), "b")).ok());
  EXPECT_EQ(engine->num_pinned_blocks(), 1);
}

TEST_F(PinsTest, ALayerWithAWindowIsPinnedWhereItIsReadNext) {
  const std::filesystem::path path = TinyModel("tiny-gemma3");
  auto engine = MakeTestEngine(
      path, {.runner = {.num_threads = 1, .context_length = 128, .num_sequences = 8}});
  const auto pin = Pin(*engine, Spec(Ascending(100)));
  ASSERT_TRUE(pin.ok()) << pin.error().message;
  EXPECT_EQ(pin->num_blocks, engine->cache().layout().BlocksHeld(100, 100));
  EXPECT_EQ(Run(*engine, Sampled(Then(Ascending(100), 3), 4)).cached_tokens, 100);
}

}  // namespace
}  // namespace quire::testing
