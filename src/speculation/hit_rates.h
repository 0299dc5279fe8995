// How often predictions come true, by what they rest on.
//
// Whether or not anything is drafted, each sampled token tells whether it was predicted, so that a
// rate costs nothing to learn and text that does not repeat costs nothing at all. A class is a
// range of match lengths (speculation/prompt_lookup.h), or the cache as the source. Old outcomes
// count half as much every time a class is full, so that a rate follows the text.
// Thread-compatible.
#pragma once

#include <array>

namespace quire {

class HitRates {
 public:
  static constexpr int kNumClasses = 12;
  static constexpr int kCachedClass = kNumClasses - 1;  // what other sequences said next
  static int ClassOf(int match_length);

  // The first rates, and how many outcomes they weigh as much as.
  HitRates();
  // Of one sequence, whose rates begin with those of all.
  explicit HitRates(const HitRates& of_all, double weight, double most);

  void Add(int hit_class, bool was_right);
  double Rate(int hit_class) const {
    return classes_[hit_class].right / classes_[hit_class].outcomes;
  }

 private:
  struct Class {
    double right = 0;
    double outcomes = 0;
  };
  std::array<Class, kNumClasses> classes_{};
  double most_outcomes_;
};

}  // namespace quire
