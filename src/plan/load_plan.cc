#include "plan/load_plan.h"

#include <algorithm>
#include <limits>

#include "tensor/paged_kv_view.h"

namespace quire {
namespace {

// Both ways of one question, where both speeds are known.
class Race {
 public:
  explicit Race(const LoadQuestion& question)
      : question_(question), first_block_(question.first_token / kBlockSlots) {}

  int64_t first_block() const { return first_block_; }
  // Those that begin before end_token.
  int64_t end_block() const {
    return (int64_t{question_.end_token} + kBlockSlots - 1) / kBlockSlots;
  }
  static int TokenOf(int64_t block) { return static_cast<int>(block * kBlockSlots); }

  // Of blocks `block` and later. A block is loaded whole, also where memory has its beginning.
  double LoadMs(int64_t block) const {
    const double num_bytes = question_.bytes_per_token * (question_.end_token - TokenOf(block));
    return question_.queued_ms + question_.speed.latency_ms +
           num_bytes / question_.speed.bytes_per_ms;
  }
  // Of what comes before it.
  double ComputeMs(int64_t block) const {
    return question_.prefill.Ms(question_.first_token, TokenOf(block));
  }
  double SplitMs(int64_t block) const { return std::max(ComputeMs(block), LoadMs(block)); }

  // The block at which a split is soonest; end_block() where there is no place for one. Computing
  // takes longer with every block before the split and loading less, so it is the last block where
  // computing is not the longer, or the next.
  int64_t BestSplit() const {
    int64_t low = first_block();  // computes nothing before it
    int64_t high = end_block() - 1;
    if (low >= high) return end_block();
    while (low < high) {
      const int64_t middle = high - (high - low) / 2;
      if (ComputeMs(middle) <= LoadMs(middle)) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    if (low == first_block()) return low + 1;
    if (low + 1 == end_block()) return low;
    return SplitMs(low) <= SplitMs(low + 1) ? low : low + 1;
  }

 private:
  const LoadQuestion& question_;
  int64_t first_block_;
};

}  // namespace

double PrefillCost::Ms(int first, int end) const {
  if (end <= first) return 0;
  const double num_tokens = static_cast<double>(end) - first;
  const double mean_position = (static_cast<double>(first) + end - 1) / 2;
  return num_tokens * (token_ms + mean_position * depth_ms);
}

std::string_view NameOf(LoadChoice choice) {
  switch (choice) {
    case LoadChoice::kLoad:
      return "load";
    case LoadChoice::kRecompute:
      return "recompute";
    case LoadChoice::kSplit:
      return "split";
  }
  return "";
}

LoadDecision DecideLoad(const LoadQuestion& question) {
  if (question.end_token <= question.first_token) {
    return {.choice = LoadChoice::kRecompute, .first_loaded = question.end_token};
  }
  const Race race(question);
  LoadDecision decision{
      .choice = LoadChoice::kLoad,
      .first_loaded = Race::TokenOf(race.first_block()),
      .compute_ms = question.prefill.Ms(question.first_token, question.end_token)};
  if (question.speed.bytes_per_ms > 0) decision.load_ms = race.LoadMs(race.first_block());
  if (question.speed.bytes_per_ms <= 0 || !question.prefill.is_known()) return decision;

  if (decision.compute_ms < decision.load_ms) {
    decision.choice = LoadChoice::kRecompute;
    decision.first_loaded = question.end_token;
  }
  const double sooner_ms = std::min(decision.load_ms, decision.compute_ms);
  decision.split_ms = sooner_ms;
  const int64_t split = race.BestSplit();
  if (split == race.end_block()) return decision;
  decision.split_ms = race.SplitMs(split);
  if (decision.split_ms < (1 - kSplitGain) * sooner_ms) {
    decision.choice = LoadChoice::kSplit;
    decision.first_loaded = Race::TokenOf(split);
  }
  return decision;
}

double BreakEvenBytesPerMs(const PrefillCost& prefill, int num_tokens, double num_bytes,
                           double latency_ms) {
  const double spared_ms = prefill.Ms(0, num_tokens) - latency_ms;
  return spared_ms > 0 ? num_bytes / spared_ms : std::numeric_limits<double>::infinity();
}

}  // namespace quire
