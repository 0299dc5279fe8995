#include "engine/step_plan.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(StepPlan, PrintsWhoComputesWhatAndWhatHeldItBack) {
  const PlanLine line{.sequence = 3,
                      .action = PlanAction::kPrefill,
                      .reason = PlanReason::kTimeBudget,
                      .first_position = 512,
                      .num_tokens = 256,
                      .sequence_tokens = 1900,
                      .blocks_needed = 16,
                      .blocks_available = 120};
  EXPECT_EQ(ToString(line),
            "s3 prefill 512..767 (256 of 1900 tokens, time budget), 16 blocks of 120 available");
}

TEST(StepPlan, PrintsWhatAnAdmissionFound) {
  const PlanLine line{.sequence = 4,
                      .action = PlanAction::kPrefill,
                      .reason = PlanReason::kWholeGap,
                      .is_admission = true,
                      .cached_tokens = 48,
                      .first_position = 48,
                      .num_tokens = 16,
                      .sequence_tokens = 64,
                      .blocks_needed = 1,
                      .blocks_available = 9};
  EXPECT_EQ(ToString(line),
            "s4 admitted, 48 cached, prefill 48..63 (16 of 64 tokens), 1 block of 9 available");
}

TEST(StepPlan, PrintsADecodeAndTheBlockItOpens) {
  PlanLine line{.sequence = 1,
                .action = PlanAction::kDecode,
                .reason = PlanReason::kWholeGap,
                .first_position = 40,
                .num_tokens = 1,
                .sequence_tokens = 41};
  EXPECT_EQ(ToString(line), "s1 decode 40");
  line.blocks_needed = 1;
  line.blocks_available = 2;
  EXPECT_EQ(ToString(line), "s1 decode 40, 1 block of 2 available");
}

TEST(StepPlan, PrintsWhyASequenceWaits) {
  PlanLine line{.sequence = 2,
                .action = PlanAction::kWait,
                .reason = PlanReason::kNoBlocks,
                .common_tokens = 512,
                .blocks_needed = 12,
                .blocks_available = 7,
                .other = 3};
  EXPECT_EQ(ToString(line), "s2 waits: 12 blocks needed, 7 available");
  line.reason = PlanReason::kSharedPrefix;
  EXPECT_EQ(ToString(line), "s2 waits for s3: 512 tokens in common");
  line.reason = PlanReason::kBehind;
  EXPECT_EQ(ToString(line), "s2 waits behind s3");
  line.reason = PlanReason::kNoSlot;
  EXPECT_EQ(ToString(line), "s2 waits: all places are taken");
  line.reason = PlanReason::kTokenBudget;
  EXPECT_EQ(ToString(line), "s2 waits: token budget used up");
}

TEST(StepPlan, PrintsForWhomASequenceIsPreempted) {
  PlanLine line{.sequence = 2,
                .action = PlanAction::kPreempt,
                .reason = PlanReason::kNoBlocks,
                .blocks_needed = 1,
                .other = 5};
  EXPECT_EQ(ToString(line), "s2 preempted: 1 block needed for s5, 0 available");
  line.other = 0;
  EXPECT_EQ(ToString(line), "s2 preempted: 1 block needed, 0 available");
  line.other = 5;
  line.reason = PlanReason::kPriority;
  EXPECT_EQ(ToString(line), "s2 preempted: s5 is more urgent");
  line.reason = PlanReason::kNoSlot;
  EXPECT_EQ(ToString(line), "s2 preempted: s5 needs its place");
}

TEST(StepPlan, IsALineASequence) {
  const StepPlan plan{
      .lines = {
          {.sequence = 1, .action = PlanAction::kDecode, .first_position = 7, .num_tokens = 1},
          {.sequence = 2, .action = PlanAction::kExpire}}};
  EXPECT_EQ(ToString(plan), "s1 decode 7\ns2 expires: its deadline has passed");
}

}  // namespace
}  // namespace quire
