#include "engine/step_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace quire {
namespace {

std::string Counted(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// What held a chunk back, as it stands behind the chunk's size.
std::string_view LimitOf(PlanReason reason) {
  switch (reason) {
    case PlanReason::kTokenBudget:
      return "token budget";
    case PlanReason::kTimeBudget:
      return "time budget";
    case PlanReason::kRowLimit:
      return "row limit";
    case PlanReason::kNoBlocks:
      return "blocks";
    case PlanReason::kTenantQuota:
      return "tenant's quota";
    case PlanReason::kTierLoad:
      return "beside its load";
    default:
      return "";
  }
}

std::string Computing(const PlanLine& line) {
  std::string text =
      line.is_admission ? fmt::format("admitted, {} cached, ", line.cached_tokens) : std::string();
  if (line.action == PlanAction::kDecode) {
    text += fmt::format("decode {}", line.first_position);
    if (!line.drafts.empty()) text += fmt::format(" + {}", Counted(line.drafts.size(), "draft"));
  } else {
    text += fmt::format("prefill {}..{} ({} of {}", line.first_position,
                        line.first_position + line.num_tokens - 1, line.num_tokens,
                        Counted(line.sequence_tokens, "token"));
    const std::string_view limit = LimitOf(line.reason);
    text += limit.empty() ? ")" : fmt::format(", {})", limit);
  }
  if (line.blocks_needed > 0) {
    text += fmt::format(", {} of {} available", Counted(line.blocks_needed, "block"),
                        line.blocks_available);
  }
  return text;
}

std::string BlocksLacked(const PlanLine& line, std::string_view for_whom) {
  return fmt::format(
      "{} needed{}, {} {}", Counted(line.blocks_needed, "block"), for_whom, line.blocks_available,
      line.reason == PlanReason::kTenantQuota ? "left of the tenant's quota" : "available");
}

std::string Preempted(const PlanLine& line) {
  if (line.reason == PlanReason::kPriority) {
    return fmt::format("preempted: s{} is more urgent", line.other);
  }
  if (line.reason == PlanReason::kNoSlot) {
    return fmt::format("preempted: s{} needs its place", line.other);
  }
  return "preempted: " + BlocksLacked(line, line.other == 0 || line.other == line.sequence
                                                ? std::string()
                                                : fmt::format(" for s{}", line.other));
}

std::string Waiting(const PlanLine& line) {
  switch (line.reason) {
    case PlanReason::kSharedPrefix:
      return fmt::format("waits for s{}: {} in common", line.other,
                         Counted(line.common_tokens, "token"));
    case PlanReason::kTierLoad:
      return "waits: its prefix is being loaded";
    case PlanReason::kBehind:
      return fmt::format("waits behind s{}", line.other);
    case PlanReason::kNoSlot:
      return "waits: all places are taken";
    case PlanReason::kNoBlocks:
    case PlanReason::kTenantQuota:
      return "waits: " + BlocksLacked(line, "");
    default:
      return fmt::format("waits: {} used up", LimitOf(line.reason));
  }
}

}  // namespace

std::string_view NameOf(PlanAction action) {
  static constexpr std::array<std::string_view, 5> kNames = {"decode", "prefill", "preempt", "wait",
                                                             "expire"};
  return kNames[static_cast<size_t>(action)];
}

std::string_view NameOf(PlanReason reason) {
  static constexpr std::array<std::string_view, 13> kNames = {
      "none",      "whole_gap",    "token_budget", "time_budget",   "row_limit",
      "no_blocks", "tenant_quota", "no_slot",      "shared_prefix", "tier_load",
      "priority",  "behind",       "deadline"};
  return kNames[static_cast<size_t>(reason)];
}

bool StepPlan::only_decodes() const {
  return computes() && std::ranges::all_of(lines, [](const PlanLine& line) {
           switch (line.action) {
             case PlanAction::kDecode:
               return !line.is_admission;
             case PlanAction::kWait:
             case PlanAction::kExpire:
               return true;
             default:
               return false;
           }
         });
}

std::string ToString(const PlanLine& line) {
  std::string text;
  switch (line.action) {
    case PlanAction::kDecode:
    case PlanAction::kPrefill:
      text = Computing(line);
      break;
    case PlanAction::kPreempt:
      text = Preempted(line);
      break;
    case PlanAction::kWait:
      text = Waiting(line);
      break;
    case PlanAction::kExpire:
      text = "expires: its deadline has passed";
      break;
  }
  return fmt::format("s{} {}", line.sequence, text);
}

std::string ToString(const StepPlan& plan) {
  std::string text;
  for (const PlanLine& line : plan.lines) {
    if (!text.empty()) text += '\n';
    text += ToString(line);
  }
  return text;
}

}  // namespace quire
