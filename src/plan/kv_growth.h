// How keys and values grow with the tokens of a sequence: by the formula, in blocks, and measured.
//
// The formula of a layer is
//   min(tokens, window) * kv_heads * (key_dim + value_dim) * bytes an element
// and a model is the sum of its layers (plan/kv_cost.h, the one that plans and starts go by).
// Beside the model as it is stand the same layers as if:
//   multi_head    every query head had a key head of its own
//   grouped       heads as they are, no windows
//   multi_query   one key head for all
//   window        every layer kept the last so many tokens alone
// and the model as it is with each type of stored elements.
// Plain data; pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plan/kv_cost.h"

namespace quire {

struct GrowthOptions {
  int max_tokens = 0;   // where the curves end; 0 = what the model was made for
  int num_points = 33;  // of a curve, the last included; the first is 0 tokens
  int chunk = 512;      // tokens that a step computes at most: what blocks are reserved for
  int window = 512;     // of the curve "window", for models without windows; 0 = no such curve
};

struct GrowthSeries {
  std::string name{};   // "formula", "blocks", "multi_head", ..., "type_q8_0"
  std::string label{};  // for people
  std::string kv_type{};
  bool is_as_if = false;          // not what this engine would keep
  uint64_t bytes_per_token = 0;   // as long as no window is full
  std::vector<uint64_t> bytes{};  // [tokens]
};

// Layers that keep the same for a token.
struct GrowthTerm {
  int num_layers = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int key_dim = 0;
  int value_dim = 0;
  int window = 0;                // 0 = all
  uint64_t bytes_per_token = 0;  // of all these layers, window open
};

// After a step of a real run: what its sequence keeps until the next.
struct GrowthPoint {
  int tokens = 0;  // that have an entry
  int64_t used_blocks = 0;
  int64_t expected_blocks = 0;  // KvLayout::BlocksHeld
  uint64_t used_bytes = 0;
  uint64_t formula_bytes = 0;
  uint64_t committed_bytes = 0;  // that the system has given the pool
};

struct KvGrowth {
  std::string model{};
  std::string kv_type{};
  int block_slots = kBlockSlots;
  uint64_t block_bytes = 0;
  int num_groups = 0;
  int chunk = 0;
  uint64_t bytes_per_token = 0;
  std::vector<GrowthTerm> terms{};
  std::vector<int> tokens{};  // of the curves
  std::vector<GrowthSeries> series{};
  std::vector<GrowthPoint> measured{};  // empty without a run
};

// kInvalidArgument for options out of range; otherwise as KvCost::Make. Curves of types that cannot
// store the heads are left out.
Result<KvGrowth> MakeKvGrowth(const ModelConfig& config, const KvElement& element,
                              const GrowthOptions& options);

// A point of a run of one sequence.
GrowthPoint MakeGrowthPoint(const KvLayout& layout, int num_tokens, int64_t used_blocks,
                            uint64_t committed_bytes);

}  // namespace quire
