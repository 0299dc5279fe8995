// Which tokens may be drawn: selection of the best ones without sorting a vocabulary.
//
// A token's rank key is one integer: greater keys are better tokens (higher logit, then lower id),
// and no two tokens of a row share one. So every selection has exactly one right answer, whatever
// algorithm finds it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace quire {

// Logit not NaN.
uint64_t RankKey(float logit, int32_t token);
int32_t TokenOf(uint64_t rank_key);

// The keys of the `count` best tokens (fewer if fewer are above -infinity), best first.
// O(vocab_size + count log count).
void SelectBest(std::span<const float> logits, size_t count, std::vector<uint64_t>* keys);

// The weight that a nucleus has to reach: the smallest integer >= top_p * total, at least 1.
uint64_t NucleusTarget(float top_p, uint64_t total);

// The lowest key among the fewest best tokens whose weights reach `target`
// (1 <= target <= sum of the weights).
// Tokens are first counted in classes of similar weight, and only the class that the boundary falls
// into is searched, by halving. O(vocab_size) expected.
uint64_t SelectNucleus(std::span<const float> logits, std::span<const uint64_t> weights,
                       uint64_t target, std::vector<uint64_t>* scratch);

}  // namespace quire
