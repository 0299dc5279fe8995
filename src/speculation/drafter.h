// What one sequence is expected to say next, and how surely.
//
// Predictions come from the sequence's own text (speculation/prompt_lookup.h), or, where that has
// none worth the name, from what others said who began alike (SetContinuation). Every token that
// comes is held against them (speculation/hit_rates.h).
// Thread-compatible.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "speculation/hit_rates.h"
#include "speculation/prompt_lookup.h"

namespace quire {

class Drafter {
 public:
  // tokens: all that the sequence has.
  Drafter(std::span<const int32_t> tokens, const HitRates& of_all);

  // One more token than before. Tells the rates of all, too.
  void Push(std::span<const int32_t> tokens, HitRates& of_all);

  // Whether tokens that may follow, from elsewhere, are of use.
  bool WantsContinuation() const;
  void SetContinuation(std::vector<int32_t> tokens);

  // [at most `most`] for each draft, in order, the chance that it and all before it are right.
  std::vector<double> Chances(int most) const;
  // The next `count` tokens, as many as Chances tells of. Where nothing is predicted: the last
  // token again and again.
  std::vector<int32_t> Draft(std::span<const int32_t> tokens, int count) const;

 private:
  bool has_continuation() const { return next_ < continuation_.size(); }
  bool uses_continuation() const;

  PromptLookup lookup_;
  HitRates rates_;
  std::vector<int32_t> continuation_;
  size_t next_ = 0;  // of it
};

}  // namespace quire
