#include "sampling/candidates.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>

#include "base/check.h"
#include "sampling/weights.h"

namespace quire {

uint64_t RankKey(float logit, int32_t token) {
  const uint32_t bits = std::bit_cast<uint32_t>(logit + 0.0f);  // -0 and 0 are equals
  const uint32_t ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return uint64_t{ordered} << 32 | (0xffffffffu - static_cast<uint32_t>(token));
}

int32_t TokenOf(uint64_t rank_key) {
  return static_cast<int32_t>(0xffffffffu - static_cast<uint32_t>(rank_key));
}

void SelectBest(std::span<const float> logits, size_t count, std::vector<uint64_t>* keys) {
  keys->clear();
  count = std::min(count, logits.size());
  if (count == 0) return;
  // Up to twice as many as asked for are held; then the lower half goes, and the floor rises.
  float floor = -std::numeric_limits<float>::infinity();
  const auto keep_best = [&] {
    std::nth_element(keys->begin(), keys->begin() + static_cast<ptrdiff_t>(count) - 1, keys->end(),
                     std::greater<>());
    keys->resize(count);
    floor = logits[static_cast<size_t>(TokenOf(keys->back()))];
  };
  for (size_t i = 0; i < logits.size(); ++i) {
    // A later token with the floor's logit has a higher id than the holders of that logit.
    if (!(logits[i] > floor)) continue;
    keys->push_back(RankKey(logits[i], static_cast<int32_t>(i)));
    if (keys->size() >= 2 * count) keep_best();
  }
  if (keys->size() > count) keep_best();
  std::sort(keys->begin(), keys->end(), std::greater<>());
}

uint64_t NucleusTarget(float top_p, uint64_t total) {
  // top_p is a 24-bit mantissa times a power of two, so the product is exact in 128 bits.
  constexpr int kShift = 62;
  const auto scaled = static_cast<uint64_t>(static_cast<double>(top_p) * 0x1p62);
  const auto product = static_cast<unsigned __int128>(scaled) * total;
  const auto rounded_up = static_cast<uint64_t>(
      (product + ((static_cast<unsigned __int128>(1) << kShift) - 1)) >> kShift);
  return std::clamp<uint64_t>(rounded_up, 1, total);
}

namespace {

// Weights that share the power of two and the three bits below it share a class; class 0 weighs
// nothing.
constexpr size_t kNumClasses = (kWeightBits + 1) * 8;
size_t ClassOf(uint64_t weight) {
  const uint64_t bits = std::bit_cast<uint64_t>(static_cast<double>(weight + 1));
  return static_cast<size_t>((bits >> 49) - (uint64_t{1023} << 3));
}

// The lowest of the fewest best `keys` whose weights reach `target`, which their sum does reach.
uint64_t SearchByHalving(std::span<uint64_t> keys, std::span<const uint64_t> weights,
                         uint64_t target) {
  uint64_t before = 0;
  while (keys.size() > 1) {
    const size_t half = keys.size() / 2;
    std::nth_element(keys.begin(), keys.begin() + static_cast<ptrdiff_t>(half) - 1, keys.end(),
                     std::greater<>());
    uint64_t sum = 0;
    for (const uint64_t key : keys.first(half)) sum += weights[static_cast<size_t>(TokenOf(key))];
    if (before + sum >= target) {
      keys = keys.first(half);
    } else {
      before += sum;
      keys = keys.subspan(half);
    }
  }
  return keys[0];
}

}  // namespace

uint64_t SelectNucleus(std::span<const float> logits, std::span<const uint64_t> weights,
                       uint64_t target, std::vector<uint64_t>* scratch) {
  // A higher class belongs to better tokens.
  std::array<uint64_t, kNumClasses> class_sums{};
  for (const uint64_t weight : weights) class_sums[ClassOf(weight)] += weight;
  size_t boundary = kNumClasses - 1;
  uint64_t before = 0;
  while (boundary > 0 && before + class_sums[boundary] < target) before += class_sums[boundary--];
  QUIRE_CHECK(boundary > 0, "target {} above the sum {} of the weights", target, before);
  scratch->clear();
  for (size_t i = 0; i < weights.size(); ++i) {
    if (ClassOf(weights[i]) == boundary) {
      scratch->push_back(RankKey(logits[i], static_cast<int32_t>(i)));
    }
  }
  return SearchByHalving(*scratch, weights, target - before);
}

}  // namespace quire
