// What `quire plan` found, as text for people and as JSON for programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/plan_break_even.h"
#include "cli/plan_verify.h"
#include "plan/concurrency.h"
#include "plan/memory_plan.h"

namespace quire {

struct PlanReport {
  std::string source;  // what the shape was read from
  ModelShape shape;
  PlanOptions options;
  MemoryPlan plan;
  KvCost cost;
  std::optional<uint64_t> memory;     // in all
  std::optional<uint64_t> kv_memory;  // for keys and values
  // With a memory in all: the longest context of so many sequences, and so many of this context.
  int largest_context = 0;
  int sequences = 0;
  std::vector<KvTypeFit> by_kv_type;  // the same by each type
  // With either: tokens of so many sequences by the formula and in blocks.
  int formula_context = 0;
  int block_context = 0;
  std::optional<Concurrency> concurrency;
  LengthDistribution lengths;
  int shared_prefix = 0;
  BreakEvenReport break_even;
  std::optional<FloorReport> floors;   // by this machine's ceilings, where asked for
  std::optional<VerifyReport> verify;  // beside a real engine, where asked for
};

// Several lines; every size in bytes, MiB and MB, labelled.
std::string PlanAsText(const PlanReport& report);
std::string PlanAsJson(const PlanReport& report);

}  // namespace quire
