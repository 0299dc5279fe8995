#include "speculation/hit_rates.h"

#include <algorithm>

namespace quire {
namespace {

// The first match length of each class.
constexpr std::array<int, HitRates::kNumClasses - 1> kFirstLengths{0, 1, 2,  3,  4, 5,
                                                                   7, 9, 13, 20, 32};
// What predictions are worth before any was seen: lower than what is usual where text repeats, for
// drafts that are refused cost more than those that come a few tokens late.
constexpr std::array<double, HitRates::kNumClasses> kFirstRates{.15, .2, .3, .4,  .45, .5,
                                                                .6,  .7, .8, .85, .9,  .8};
constexpr double kFirstWeight = 8;
constexpr double kMostOutcomesOfAll = 256;

}  // namespace

int HitRates::ClassOf(int match_length) {
  const auto* next = std::ranges::upper_bound(kFirstLengths, match_length);
  return std::max(0, static_cast<int>(next - kFirstLengths.begin()) - 1);
}

HitRates::HitRates() : most_outcomes_(kMostOutcomesOfAll) {
  for (int i = 0; i < kNumClasses; ++i) classes_[i] = {kFirstRates[i] * kFirstWeight, kFirstWeight};
}

HitRates::HitRates(const HitRates& of_all, double weight, double most) : most_outcomes_(most) {
  for (int i = 0; i < kNumClasses; ++i) classes_[i] = {of_all.Rate(i) * weight, weight};
}

void HitRates::Add(int hit_class, bool was_right) {
  Class& counted = classes_[hit_class];
  if (counted.outcomes >= most_outcomes_) {
    counted.right /= 2;
    counted.outcomes /= 2;
  }
  counted.right += was_right ? 1 : 0;
  counted.outcomes += 1;
}

}  // namespace quire
