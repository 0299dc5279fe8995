// How many sequences share a cache, by three ways of counting. Which one is meant makes the answer
// differ tenfold, so every figure says what it assumes.
//
//   worst case  every sequence holds its whole context at once; the ratio below 2 is one request
//   expected    blocks are taken as tokens come, and lengths follow a distribution: of a sequence
//               met at a random moment, the blocks it holds on average
//   shared      either of them when sequences begin with the same tokens, whose blocks are held
//   once
//
// At a random moment a sequence is seen in proportion to the steps that it lives, and anywhere
// between its prompt and its end. So with P tokens of prompt and T of answer
//   expected bytes = E[sum of bytes(P + t) for t in 0..T - 1] / E[T].
// The time to prefill is left out. Pure functions, any thread.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "plan/kv_cost.h"

namespace quire {

// Lognormal lengths of prompt and answer, independent, with the same sigma. The defaults have the
// means of the ShareGPT conversations in "Efficient Memory Management for Large Language Model
// Serving with PagedAttention" (https://arxiv.org/abs/2309.06180), section 6.1.
struct LengthDistribution {
  double mean_input = 161;
  double mean_output = 338;
  double sigma = 1.0;    // of the logarithm; 0 = all alike
  int max_total = 2048;  // prompt and answer; the answer is cut first to one token, then the prompt
};

// A sequence met at a random moment.
struct LiveSequence {
  double mean_tokens = 0;
  double mean_bytes = 0;
  double deviation_bytes = 0;  // standard deviation
};

struct ConcurrencyOptions {
  int context_tokens = 0;  // of the worst case
  int prefill_chunk = 512;
  int shared_prefix = 0;  // tokens that every sequence begins with
  LengthDistribution lengths{};
};

struct Concurrency {
  uint64_t kv_bytes = 0;        // there are
  double worst_case_ratio = 0;  // kv_bytes over the worst case
  int worst_case = 0;           // whole sequences
  LiveSequence live{};
  int expected = 0;         // at the mean
  int expected_steady = 0;  // so that two standard deviations above the mean fit too

  // With shared_prefix > 0; the live sequence's own bytes, without the prefix.
  uint64_t prefix_bytes = 0;
  int worst_case_shared = 0;
  LiveSequence live_shared{};
  int expected_shared = 0;
  int expected_steady_shared = 0;
};

// kInvalidArgument for lengths that make no sense, and for a prefix that is not shorter than the
// context.
Status CheckConcurrency(const ConcurrencyOptions& options);

// Refuses what CheckConcurrency does.
Result<Concurrency> PlanConcurrency(const KvCost& cost, uint64_t kv_bytes,
                                    const ConcurrencyOptions& options);

}  // namespace quire
