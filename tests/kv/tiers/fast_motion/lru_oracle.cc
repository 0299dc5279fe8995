#include "kv/tiers/fast_motion/lru_oracle.h"

#include <algorithm>
#include <list>
#include <ranges>
#include <unordered_map>

namespace quire::testing {
namespace {

class Lru {
 public:
  explicit Lru(int64_t num_blocks) : num_blocks_(static_cast<size_t>(num_blocks)) {}

  bool Holds(int block) const { return places_.contains(block); }

  void Use(int block) {
    if (const auto it = places_.find(block); it != places_.end()) {
      order_.splice(order_.end(), order_, it->second);
      return;
    }
    if (places_.size() >= num_blocks_) {
      places_.erase(order_.front());
      order_.pop_front();
    }
    places_[block] = order_.insert(order_.end(), block);
  }

 private:
  size_t num_blocks_;
  std::list<int> order_;  // the next to go first
  std::unordered_map<int, std::list<int>::iterator> places_;
};

}  // namespace

double LruHitRate(const Trace& trace, int64_t num_blocks, UseOrder order) {
  Lru lru(num_blocks);
  int64_t hits = 0;
  for (const TracePrompt& prompt : trace.prompts) {
    hits += std::ranges::find_if_not(prompt.blocks, [&](int b) { return lru.Holds(b); }) -
            prompt.blocks.begin();
    if (order == UseOrder::kHeadsFirst) {
      for (const int block : prompt.blocks) lru.Use(block);
    } else {
      for (const int block : prompt.blocks | std::views::reverse) lru.Use(block);
    }
  }
  return static_cast<double>(hits) / static_cast<double>(trace.num_uses);
}

double BestLruHitRate(const Trace& trace, int64_t num_blocks) {
  return std::max(LruHitRate(trace, num_blocks, UseOrder::kHeadsFirst),
                  LruHitRate(trace, num_blocks, UseOrder::kTailsFirst));
}

}  // namespace quire::testing
