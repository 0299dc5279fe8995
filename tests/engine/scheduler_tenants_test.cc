// Tenants in a plan: quotas inside the pool, and whose turn it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <numeric>
#include <vector>

#include "engine/scheduler.h"

namespace quire {
namespace {

using ::testing::ElementsAre;

class SchedulerTenantsTest : public ::testing::Test {
 protected:
  SchedulerTenantsTest() {
    const std::vector<KvLayerShape> shapes = {{1, 4, 4, 0}};
    layout_ = std::move(KvLayout::Make(shapes, KvType::kF16)).value();
  }

  std::span<const int32_t> Tokens(int count) {
    tokens_.emplace_back(count);
    std::iota(tokens_.back().begin(), tokens_.back().end(), 1000 * std::ssize(tokens_));
    return tokens_.back();
  }
  TenantState& Tenant(int tenant) {
    if (std::ssize(tenants_) <= tenant) tenants_.resize(tenant + 1);
    return tenants_[tenant];
  }
  SequenceState& Running(int tenant, int num_tokens, int num_computed) {
    const int64_t held = layout_.BlocksHeld(num_computed, num_computed);
    running_.push_back({.id = next_id_++,
                        .is_running = true,
                        .tokens = Tokens(num_tokens),
                        .num_computed = num_computed,
                        .blocks_held = held,
                        .blocks_alone = held,
                        .tenant = tenant});
    Tenant(tenant).blocks_held += held;
    return running_.back();
  }
  SequenceState& Queued(int tenant, int num_tokens) {
    Tenant(tenant);
    queue_.push_back({.id = next_id_,
                      .tokens = Tokens(num_tokens),
                      .arrival_ms = static_cast<double>(next_id_),
                      .tenant = tenant});
    ++next_id_;
    return queue_.back();
  }
  std::vector<std::string> Lines() {
    const StepPlan plan = PlanStep({.blocks_available = available_,
                                    .layout = &layout_,
                                    .running = running_,
                                    .queue = queue_,
                                    .tenants = tenants_},
                                   options_);
    std::vector<std::string> lines;
    for (const PlanLine& line : plan.lines) lines.push_back(ToString(line));
    return lines;
  }

  KvLayout layout_;
  SchedulerOptions options_;
  int64_t available_ = 100;
  SequenceId next_id_ = 1;
  std::vector<TenantState> tenants_;
  std::vector<SequenceState> running_, queue_;
  std::deque<std::vector<int32_t>> tokens_;
};

TEST_F(SchedulerTenantsTest, WhoWaitsForItsQuotaHoldsBackItsOwnTenantAlone) {
  Tenant(0).max_blocks = 6;
  Running(0, 50, 49);
  Queued(0, 40);
  Queued(0, 2);
  Queued(1, 3);
  EXPECT_THAT(
      Lines(),
      ElementsAre("s1 decode 49",
                  "s4 admitted, 0 cached, prefill 0..2 (3 of 3 tokens), 1 block of 100 "
                  "available",
                  "s2 waits: 4 blocks needed, 2 left of the tenant's quota", "s3 waits behind s2"));
}

TEST_F(SchedulerTenantsTest, WhatItsTenantHoldsIsNotNeededOfTheQuotaAgain) {
  Tenant(0).max_blocks = 6;
  Running(0, 50, 49);
  SequenceState& queued = Queued(0, 40);
  queued.match = {.num_tokens = 32, .blocks_used = 2};
  queued.tenant_shares = 2;
  EXPECT_EQ(Lines()[1],
            "s2 admitted, 32 cached, prefill 32..39 (8 of 40 tokens), 1 block of 100 available");
}

TEST_F(SchedulerTenantsTest, GrowthBeyondTheQuotaTakesFromItsTenantAlone) {
  Tenant(0).max_blocks = 5;
  Running(1, 17, 16);  // the cheapest of all
  Running(0, 49, 48);
  Running(0, 33, 32);
  EXPECT_THAT(Lines(),
              ElementsAre("s1 decode 16, 1 block of 100 available",
                          "s2 decode 48, 1 block of 101 available",
                          "s3 preempted: 1 block needed for s2, 0 left of the tenant's quota"));
}

TEST_F(SchedulerTenantsTest, TheLastThatRunsIsNotHeldToIt) {
  Tenant(0).max_blocks = 3;
  Running(0, 49, 48);
  EXPECT_EQ(Lines()[0], "s1 decode 48, 1 block of 100 available");
}

TEST_F(SchedulerTenantsTest, AChunkShrinksToWhatTheQuotaLeaves) {
  Tenant(0).max_blocks = 6;
  Running(0, 17, 17);
  Running(0, 200, 16);
  EXPECT_EQ(Lines()[0],
            "s2 prefill 16..63 (48 of 200 tokens, tenant's quota), 3 blocks of 100 available");
}

TEST_F(SchedulerTenantsTest, TheMoreUrgentOfATenantTakesALessUrgentOnesQuota) {
  Tenant(0).max_blocks = 4;
  Running(0, 49, 48).priority = 1;
  Queued(0, 20);
  const auto lines = Lines();
  EXPECT_EQ(lines[0],
            "s2 admitted, 0 cached, prefill 0..19 (20 of 20 tokens), 2 blocks of 103 available");
  EXPECT_EQ(lines[1], "s1 preempted: s2 is more urgent");
}

TEST_F(SchedulerTenantsTest, AmongEqualsTheTenantWithTheFewestRunningIsNext) {
  options_.max_sequences = 5;
  Running(0, 10, 9);
  Running(0, 10, 9);
  Queued(0, 5);
  Queued(0, 5);
  Queued(1, 5);
  Queued(1, 5);
  Queued(1, 5);
  std::vector<SequenceId> order;
  for (const std::string& line : Lines()) {
    if (line.find("admitted") != std::string::npos) order.push_back(line[1] - '0');
  }
  EXPECT_THAT(order, ElementsAre(5, 6, 3));
}

TEST_F(SchedulerTenantsTest, PriorityComesBeforeTurns) {
  options_.max_sequences = 2;
  Running(0, 10, 9);
  Queued(1, 5);
  Queued(0, 5).priority = -1;
  EXPECT_EQ(Lines()[1].substr(0, 11), "s3 admitted");
}

}  // namespace
}  // namespace quire
