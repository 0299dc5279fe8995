// Load a prefix from a tier, compute it, or both: which is sooner.
//
//   load       everything that was found, then the rest of the prompt is computed
//   recompute  nothing
//   split      the beginning is computed while the end is loaded, until they meet. Not the other
//              way round: a position is computed from all entries before it, and loaded from none.
//
// With C(a, b) the time to compute positions a..b-1 and L(n) = latency + n bytes / bandwidth, a
// split at s takes max(C(a, s), L(bytes of s..b)). It costs computing that a load spares, so it is
// taken only where it is sooner than both by kSplitGain. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "kv/tiers/tier_speed.h"

namespace quire {

// What prefill costs: a token at position p takes token_ms + p * depth_ms. 0 = not known.
struct PrefillCost {
  double token_ms = 0;
  double depth_ms = 0;

  bool is_known() const { return token_ms > 0; }
  // Of positions first..end - 1.
  double Ms(int first, int end) const;
};

struct LoadQuestion {
  int first_token = 0;         // the first that is not in memory
  int end_token = 0;           // the first that no tier has either
  double bytes_per_token = 0;  // to be loaded
  TierSpeed speed{};           // of the tier that has them; of several the slowest
  double queued_ms = 0;        // until it begins with these
  PrefillCost prefill{};
};

enum class LoadChoice : uint8_t { kLoad, kRecompute, kSplit };
// "load", "recompute", "split"
std::string_view NameOf(LoadChoice choice);

struct LoadDecision {
  LoadChoice choice = LoadChoice::kLoad;
  int first_loaded = 0;   // token, a multiple of kBlockSlots; kRecompute: end_token
  double load_ms = 0;     // of loading everything; 0 = not known
  double compute_ms = 0;  // of computing everything; 0 = not known
  double split_ms = 0;    // of the best split; where there is no place for one, of the sooner
};

inline constexpr double kSplitGain = .25;

// While either speed is not known it loads: on a CPU that is nearly always right, and tells them.
// Blocks are loaded whole, also one whose beginning is in memory. Where nothing was found
// (end_token <= first_token) it is kRecompute, and no time.
LoadDecision DecideLoad(const LoadQuestion& question);

// The bandwidth below which computing tokens 0..num_tokens - 1 is sooner than loading their
// num_bytes, in bytes a ms; infinite where the latency alone takes longer. Around it, from a
// third to three times (1 / kSplitGain - 1; depth and latency shift both), a split is sooner still.
double BreakEvenBytesPerMs(const PrefillCost& prefill, int num_tokens, double num_bytes,
                           double latency_ms);

}  // namespace quire
