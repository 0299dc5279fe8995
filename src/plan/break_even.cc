#include "plan/break_even.h"

#include "plan/saturating.h"

namespace quire {
namespace {

constexpr int kLengths[] = {256, 1024, 4096, 16384};

double LoadMs(const KvCost& cost, const TierSpeed& speed, int num_tokens) {
  return speed.Ms(PrefixBytes(cost, num_tokens));
}

}  // namespace

uint64_t PrefixBytes(const KvCost& cost, int num_tokens) {
  const int64_t blocks = cost.layout().BlocksHeld(num_tokens, num_tokens);
  return SaturatingMul(static_cast<uint64_t>(blocks), cost.BytesPerBlock());
}

int BreakEvenTokens(const PrefillCost& prefill, const TierSpeed& speed, const KvCost& cost,
                    int max_tokens) {
  // What a token spares only grows with its position, and its bytes only shrink (where a window is
  // full, it takes none of it): once a load is sooner it stays so.
  const int last = max_tokens / kBlockSlots;
  const int last_loss = LargestThat(last, [&](int block) {
    const int num_tokens = block * kBlockSlots;
    return num_tokens == 0 || prefill.Ms(0, num_tokens) <= LoadMs(cost, speed, num_tokens);
  });
  return last_loss == last ? -1 : (last_loss + 1) * kBlockSlots;
}

BreakEven MakeBreakEven(const KvCost& cost, int context_tokens,
                        std::span<const PrefillCost> prefills, std::span<const TierSpeed> tiers) {
  BreakEven table;
  for (const int length : kLengths) {
    if (length <= context_tokens) table.lengths.push_back(length);
  }
  if (table.lengths.empty()) table.lengths.push_back(context_tokens);
  for (const int length : table.lengths) table.bytes.push_back(PrefixBytes(cost, length));
  for (const TierSpeed& speed : tiers) {
    table.loading.push_back({.speed = speed});
    for (const int length : table.lengths) {
      table.loading.back().ms.push_back(LoadMs(cost, speed, length));
    }
  }
  for (const PrefillCost& prefill : prefills) {
    BreakEven::Computing computing{.cost = prefill};
    for (const int length : table.lengths) computing.ms.push_back(prefill.Ms(0, length));
    for (const TierSpeed& speed : tiers) {
      BreakEven::Pair pair{.loads_from_tokens =
                               BreakEvenTokens(prefill, speed, cost, context_tokens)};
      for (size_t i = 0; i < table.lengths.size(); ++i) {
        pair.bytes_per_ms.push_back(BreakEvenBytesPerMs(
            prefill, table.lengths[i], static_cast<double>(table.bytes[i]), speed.latency_ms));
      }
      computing.pairs.push_back(std::move(pair));
    }
    table.computing.push_back(std::move(computing));
  }
  return table;
}

}  // namespace quire
