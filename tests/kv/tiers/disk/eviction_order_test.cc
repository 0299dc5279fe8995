// How well the order of eviction does on days of synthetic use, beside the policies that it was
// chosen from. QUIRE_EVICTION_REQUESTS=6000 gives the figures of docs/kv-directory.md.
#include "kv/tiers/disk/eviction_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <queue>
#include <random>
#include <set>
#include <unordered_map>
#include <vector>

namespace quire {
namespace {

// A request as the blocks of its prompt.
using Prompt = std::vector<uint64_t>;

// Chats that share system prompts and come back turn by turn, and documents that are read once.
std::vector<Prompt> Conversations(uint32_t seed, int num_requests) {
  struct Turn {
    double at_s = 0;
    Prompt prompt{};
    int turns_left = 0;
    bool operator<(const Turn& other) const { return at_s > other.at_s; }
  };
  std::mt19937 random(seed);
  const auto uniform = [&] { return std::uniform_real_distribution<double>(0, 1)(random); };
  uint64_t next_block = 1;
  std::vector<Prompt> systems(20);
  for (Prompt& system : systems) {
    system.resize(4 + random() % 60);
    for (uint64_t& block : system) block = next_block++;
  }
  const auto grow = [&](Prompt& prompt, int num_blocks) {
    for (int i = 0; i < num_blocks; ++i) prompt.push_back(next_block++);
  };
  std::vector<Prompt> requests;
  std::priority_queue<Turn> turns;
  double now_s = 0;
  while (static_cast<int>(requests.size()) < num_requests) {
    now_s += -std::log(1 - uniform()) * 6;
    while (!turns.empty() && turns.top().at_s <= now_s) {
      Turn turn = turns.top();
      turns.pop();
      requests.push_back(turn.prompt);
      if (--turn.turns_left <= 0) continue;
      grow(turn.prompt, 3 + static_cast<int>(random() % 30));
      turn.at_s += 20 * std::exp(1.5 * std::normal_distribution<double>()(random));
      turns.push(std::move(turn));
    }
    if (uniform() < 0.2) {  // a document
      Prompt prompt;
      grow(prompt, 50 + static_cast<int>(random() % 300));
      requests.push_back(std::move(prompt));
    } else {
      // The most popular of the system prompts takes a third of the chats.
      const auto which = static_cast<size_t>(20 * std::pow(uniform(), 3));
      Turn turn = {.at_s = now_s, .prompt = systems[which]};
      while (uniform() < 0.75) ++turn.turns_left;
      grow(turn.prompt, 3 + static_cast<int>(random() % 60));
      turns.push(std::move(turn));
    }
  }
  return requests;
}

struct Policy {
  const char* name = "";
  bool tails_first = true;
  // of a block: (clock, uses, cost, slots, worth of the last evicted)
  std::function<double(double, uint32_t, double, double, double)> worth{};
};

struct Outcome {
  double hit_rate = 0;    // of blocks
  double saved_rate = 0;  // of what they cost to compute
  double written = 0;     // blocks
};

double CostAt(size_t entry) { return 1 + static_cast<double>(entry) / 200; }

class Simulation {
 public:
  Simulation(const Policy& policy, size_t num_slots) : policy_(policy), num_slots_(num_slots) {}

  Outcome Run(const std::vector<Prompt>& requests) {
    double asked = 0;
    double found = 0;
    double cost_asked = 0;
    double cost_found = 0;
    for (const Prompt& prompt : requests) {
      bool is_hit = true;
      for (size_t i = 0; i < prompt.size(); ++i) {
        is_hit = is_hit && blocks_.contains(prompt[i]);
        asked += 1;
        cost_asked += CostAt(i);
        found += is_hit ? 1 : 0;
        cost_found += is_hit ? CostAt(i) : 0;
        Touch(prompt[i], i, i == 0 ? 0 : prompt[i - 1]);
      }
    }
    return {.hit_rate = found / asked, .saved_rate = cost_found / cost_asked, .written = written_};
  }

 private:
  struct Block {
    double worth = 0;
    size_t entry = 0;
    uint64_t parent = 0;
    uint32_t uses = 0;
    int num_children = 0;
    bool is_listed = false;
  };
  using Place = std::tuple<double, int64_t, uint64_t>;
  Place PlaceOf(uint64_t id, const Block& block) const {
    return {block.worth, -static_cast<int64_t>(block.entry), id};
  }
  void Rank(uint64_t id, Block& block) {
    const bool should = block.num_children == 0 || !policy_.tails_first;
    if (should == block.is_listed) return;
    block.is_listed = should;
    if (should) {
      order_.insert(PlaceOf(id, block));
    } else {
      order_.erase(PlaceOf(id, block));
    }
  }
  void Touch(uint64_t id, size_t entry, uint64_t parent) {
    clock_ += 1;
    const double slots = static_cast<double>(num_slots_);
    auto found = blocks_.find(id);
    if (found == blocks_.end()) {
      const double worth = policy_.worth(clock_, 1, CostAt(entry), slots, evicted_worth_);
      if (blocks_.size() >= num_slots_ && !Evict(worth, parent)) return;
      written_ += 1;
      found = blocks_.emplace(id, Block{.entry = entry, .parent = parent}).first;
      const auto above = blocks_.find(parent);
      if (above != blocks_.end()) {
        ++above->second.num_children;
        Rank(parent, above->second);
      }
    }
    Block& block = found->second;
    if (block.is_listed) order_.erase(PlaceOf(id, block));
    block.is_listed = false;
    block.worth = policy_.worth(clock_, ++block.uses, CostAt(entry), slots, evicted_worth_);
    Rank(id, block);
  }
  bool Evict(double worth, uint64_t parent) {
    auto place = order_.begin();
    if (place != order_.end() && std::get<2>(*place) == parent) ++place;
    if (place == order_.end() || std::get<0>(*place) > worth) return false;
    const uint64_t id = std::get<2>(*place);
    evicted_worth_ = std::get<0>(*place);
    order_.erase(place);
    const uint64_t above_id = blocks_.at(id).parent;
    blocks_.erase(id);
    const auto above = blocks_.find(above_id);
    if (above != blocks_.end()) {
      --above->second.num_children;
      Rank(above_id, above->second);
    }
    return true;
  }

  const Policy& policy_;
  size_t num_slots_;
  std::unordered_map<uint64_t, Block> blocks_;
  std::set<Place> order_;
  double clock_ = 0;
  double evicted_worth_ = 0;
  double written_ = 0;
};

TEST(EvictionOrder, LosesNothingAgainstTheOldPoliciesOnConversations) {
  using Worth = std::function<double(double, uint32_t, double, double, double)>;
  const Worth lru = [](double clock, uint32_t, double, double, double) { return clock; };
  const Worth slru = [](double clock, uint32_t uses, double, double slots, double) {
    return uses > 1 ? clock + slots : clock;
  };
  const Worth gdsf = [](double, uint32_t uses, double cost, double, double evicted) {
    return evicted + uses * cost;
  };
  const Worth ours = [](double clock, uint32_t uses, double cost, double slots, double) {
    return WorthOf(static_cast<uint64_t>(clock), uses, cost, static_cast<int64_t>(slots));
  };
  const std::vector<Policy> policies = {
      {.name = "LRU, blocks alone", .tails_first = false, .worth = lru},
      {.name = "LRU, tails first", .worth = lru},
      {.name = "SLRU, tails first", .worth = slru},
      {.name = "GDSF, tails first", .worth = gdsf},
      {.name = "ours", .worth = ours}};
  const char* text = std::getenv("QUIRE_EVICTION_REQUESTS");
  const bool is_long = text != nullptr;
  const auto requests = Conversations(1, is_long ? std::atoi(text) : 600);
  const std::vector<size_t> sizes =
      is_long ? std::vector<size_t>{1000, 4000, 16000, 64000} : std::vector<size_t>{1000, 4000};
  size_t total = 0;
  for (const Prompt& prompt : requests) total += prompt.size();
  std::printf("%zu requests, %zu blocks\n", requests.size(), total);
  for (const size_t num_slots : sizes) {
    std::vector<Outcome> outcomes;
    for (const Policy& policy : policies) {
      const Outcome outcome = Simulation(policy, num_slots).Run(requests);
      std::printf("%6zu slots  %-18s hit %.4f  saved %.4f  written %.0f\n", num_slots, policy.name,
                  outcome.hit_rate, outcome.saved_rate, outcome.written);
      outcomes.push_back(outcome);
    }
    EXPECT_GT(outcomes.back().hit_rate, outcomes.front().hit_rate - 0.02);
    EXPECT_GT(outcomes.back().saved_rate, outcomes.front().saved_rate - 0.02);
  }
}

}  // namespace
}  // namespace quire
