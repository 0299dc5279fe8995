// `quire plan --verify`: a plan beside what a real engine takes, item by item.
//
// The engine is sized by the plan and brought to the heaviest shape that the plan speaks of: first
// the prompts of all sequences, in steps of as many tokens as a step may have; then all sequences
// from there to their whole context at once, with samplers that need all the memory they can. Then
//   weights, keys and values, activations, rounding   pages of their address ranges in memory
//   vocabulary, tables                                what the heap gives out for them, and the
//                                                     pages of the file that stay mapped
//   activations (attention), logits                   sizes of the engine's own buffers
//   code and stacks                                   what is in memory beside all of these, once
//                                                     the heap has given back what is free
//   total                                             the peak of the whole process
// An item holds within kMostOff of the larger of both, or kLeastOff bytes; what is counted rather
// than sized (blocks, bytes a block or a token) within kMostOff, and sequences exactly: those that
// ran beside each other, and with windows those that were not preempted.
//
// Measures the whole process: nothing else runs in it, and the process is no older than its work.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/engine_flags.h"
#include "cli/plan_floors.h"
#include "plan/memory_plan.h"

namespace quire {

inline constexpr double kMostOff = .05;
inline constexpr uint64_t kLeastOff = uint64_t{1} << 20;
// A context shorter than this is no load.
inline constexpr int kLeastVerifiedContext = 32;

enum class VerifyUnit : uint8_t { kBytes, kBytesEach, kCount };

struct VerifyItem {
  std::string_view name{};   // of the JSON field
  std::string_view label{};  // for people
  VerifyUnit unit = VerifyUnit::kBytes;
  uint64_t predicted = 0;
  uint64_t measured = 0;

  // measured - predicted
  int64_t off() const { return static_cast<int64_t>(measured) - static_cast<int64_t>(predicted); }
  uint64_t allowed() const;
  bool holds() const;
};

struct VerifyReport {
  std::vector<VerifyItem> items{};
  std::optional<FloorReport> floors{};  // where asked for

  bool holds() const;
  // "tables and index (predicted 1,000 bytes, measured 3,000,000)", separated by "; ".
  std::string Faults() const;
};

struct VerifyQuestion {
  // Of the model and its threads, chunk and types. Context, sequences and the size of the cache are
  // set from the plan.
  EngineFlags engine{};
  MemoryPlan plan{};
  bool with_floors = false;  // TTFT and TPOT too
  std::function<bool()> go_on{};
  std::function<void(std::string_view)> show{};  // what it is at, a line
};

// kInvalidArgument for a context that is too short or a plan with an overhead in place of its
// lines; kInterrupted when `go_on` returns false; the errors of making an engine.
Result<VerifyReport> VerifyPlan(const VerifyQuestion& question);

std::string VerifyAsText(const VerifyReport& report);
// An object; the floors are not in it.
std::string VerifyAsJson(const VerifyReport& report);

}  // namespace quire
