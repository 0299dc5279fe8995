// Where loading a prefix from a tier and computing it take as long: the figures by which a tier is
// chosen, or left out.
//
//   bytes of a prefix   the blocks that a hit of that length needs: all of the layers without a
//                       window, of the others those that the window touches
//   computing           plan/load_plan.h: the tokens of the prefix, each at its depth
//   loading             latency + bytes / bandwidth
//
// Pure functions, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/kv_cost.h"
#include "plan/load_plan.h"

namespace quire {

struct BreakEven {
  // One way to compute, against every tier.
  struct Pair {
    int loads_from_tokens = -1;          // BreakEvenTokens
    std::vector<double> bytes_per_ms{};  // [lengths] BreakEvenBytesPerMs at its latency
  };
  struct Computing {
    PrefillCost cost{};
    std::vector<double> ms{};   // [lengths]
    std::vector<Pair> pairs{};  // [tiers]
  };
  struct Loading {
    TierSpeed speed{};
    std::vector<double> ms{};  // [lengths]
  };

  std::vector<int> lengths{};     // of prefixes, in tokens
  std::vector<uint64_t> bytes{};  // [lengths]
  std::vector<Computing> computing{};
  std::vector<Loading> loading{};  // [tiers]
};

// Of prefixes of 256, 1,024, 4,096 and 16,384 tokens, as far as the context goes; of the whole
// context where it is shorter than all of them. Costs and speeds that are not known are not for
// here. 1 <= context_tokens.
BreakEven MakeBreakEven(const KvCost& cost, int context_tokens,
                        std::span<const PrefillCost> prefills, std::span<const TierSpeed> tiers);

// The blocks that a hit of so many tokens needs.
uint64_t PrefixBytes(const KvCost& cost, int num_tokens);

// The length of a prefix, a multiple of kBlockSlots, from which on a load is sooner than computing;
// -1 = at none up to max_tokens.
int BreakEvenTokens(const PrefillCost& prefill, const TierSpeed& speed, const KvCost& cost,
                    int max_tokens);

}  // namespace quire
