// The part of `quire plan` about time: this machine's measured ceilings, the TTFT and TPOT that
// they allow at several depths (plan/time_floor.h), and, where an engine is there to run them, what
// they really are.
//
// Ceilings change within seconds on a shared machine, some of them to half and back. So every run
// has a floor of its own, of the best ceilings that were met right before and right after it; told
// is the run that came closest to its own. A prediction is wrong where that run took less than the
// floor of the best ceilings that were met at all.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "plan/time_floor.h"

namespace quire {

inline constexpr int kFloorPrefills = 3;
inline constexpr int kFloorDecodes = 3;  // beside each of them
inline constexpr int kFloorPromptTokens =
    512;  // of the prompt whose TTFT is told, or as many as fit
inline constexpr int kFloorDecodeTokens = 16;  // over which TPOT is the mean

struct FloorRow {
  int depth = 0;  // entries in the cache before the prompt, or before the tokens that are decoded
  int prompt_tokens = 0;
  TimeFloor ttft{};
  TimeFloor tpot{};
  ComputeBoundBatch batch{};
  MachineLimits ttft_limits{};  // that the floors are of
  MachineLimits tpot_limits{};
  double ttft_ms = 0;  // measured; 0 = not
  double tpot_ms = 0;
  double least_ttft_ms = 0;  // floors of the best ceilings met at all
  double least_tpot_ms = 0;

  bool is_measured() const { return ttft_ms > 0; }
  bool ttft_holds() const { return !is_measured() || least_ttft_ms <= ttft_ms; }
  bool tpot_holds() const { return !is_measured() || least_tpot_ms <= tpot_ms; }
};

struct FloorReport {
  int num_threads = 0;
  std::string kernels{};         // whose instructions the peaks are of
  MachineLimits limits{};        // the best met at all
  std::vector<FloorRow> rows{};  // by depth

  // Of all rows.
  bool holds() const;
};

// Depths 0, 2,048 and 8,192, as far as a context of so many tokens goes.
std::vector<int> FloorDepths(int context_tokens);

struct FloorQuestion {
  std::filesystem::path path{};
  KvType kv_type = KvType::kF16;
  int context_tokens = 0;
  int prefill_chunk = 512;
  int num_threads = 1;
};

// From a file's header; no weights are read. The bandwidth is that of memory of the weights' size,
// or of half of the free memory. kInterrupted when `go_on` returns false.
Result<FloorReport> PredictFloors(const FloorQuestion& question,
                                  const std::function<bool()>& go_on);

// Beside what the engine takes, alone. `tokens` are the prompt's: one a position of the context, of
// which the engine may hold a part. Told of in `show`, a line at a time.
Result<FloorReport> MeasureFloors(Engine& engine, std::span<const int32_t> tokens,
                                  const std::function<bool()>& go_on,
                                  const std::function<void(std::string_view)>& show);

std::string FloorsAsText(const FloorReport& report);
// An object.
std::string FloorsAsJson(const FloorReport& report);

}  // namespace quire
