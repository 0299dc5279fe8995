#include "kv/tiers/fast_motion/trace.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <random>

namespace quire::testing {
namespace {

constexpr double kBlockTokens = 512;
constexpr int kNumSystemPrompts = 6;

// Draws that are the same with every standard library.
class Draws {
 public:
  explicit Draws(uint64_t seed) : bits_(seed) {}

  double Uniform() { return (static_cast<double>(bits_() >> 11) + .5) * 0x1p-53; }
  double Exponential(double mean) { return -mean * std::log(Uniform()); }
  double LogNormal(double median, double sigma) {
    const double radius = std::sqrt(-2 * std::log(Uniform()));
    return median * std::exp(sigma * radius * std::cos(2 * std::numbers::pi * Uniform()));
  }

 private:
  std::mt19937_64 bits_;
};

// One conversation: the blocks of its history, which its turns extend.
class Conversation {
 public:
  Conversation(Trace& trace, std::vector<int> system) : trace_(trace), chain_(std::move(system)) {}

  // The prompt of num_tokens tokens. Its last block ends within, so no other prompt has it.
  std::vector<int> Prompt(double num_tokens) {
    const auto num_whole = static_cast<size_t>(num_tokens / kBlockTokens);
    while (chain_.size() < num_whole) chain_.push_back(Append(chain_));
    std::vector<int> prompt(chain_.begin(), chain_.begin() + static_cast<ptrdiff_t>(num_whole));
    prompt.push_back(Append(prompt));
    return prompt;
  }

 private:
  int Append(const std::vector<int>& chain) {
    trace_.blocks.push_back(
        {.parent = chain.empty() ? -1 : chain.back(), .entry = static_cast<int>(chain.size())});
    return static_cast<int>(trace_.blocks.size()) - 1;
  }

  Trace& trace_;
  std::vector<int> chain_;
};

std::vector<std::vector<int>> MakeSystemPrompts(Trace& trace) {
  std::vector<std::vector<int>> prompts;
  for (int i = 0; i < kNumSystemPrompts; ++i) {
    // 512 to 3,072 tokens, and the unfinished block at the end belongs to nobody.
    std::vector<int> prompt = Conversation(trace, {}).Prompt((i + 1.5) * kBlockTokens);
    prompt.pop_back();
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

}  // namespace

Trace MakeTrace(const TraceOptions& options) {
  Trace trace;
  Draws draws(options.seed);
  const std::vector<std::vector<int>> systems = MakeSystemPrompts(trace);
  const double end_s = options.hours * 3600;
  for (double start_s = 0; start_s < end_s;
       start_s += draws.Exponential(1 / options.conversations_per_s)) {
    // A quarter of the conversations begin with a system prompt that others have too.
    const double which = draws.Uniform() * 4 * kNumSystemPrompts;
    const std::vector<int> system =
        which < kNumSystemPrompts ? systems[static_cast<size_t>(which)] : std::vector<int>();
    double tokens = static_cast<double>(system.size()) * kBlockTokens + draws.LogNormal(5500, 1.1);
    Conversation conversation(trace, system);
    double at_s = start_s;
    do {
      if (tokens >= options.max_blocks * kBlockTokens) break;
      trace.prompts.push_back({.at_s = at_s, .blocks = conversation.Prompt(tokens)});
      // The answer, and what is asked next after some thought.
      tokens += draws.LogNormal(250, .8) + draws.LogNormal(700, 1.4);
      at_s += 10 + draws.LogNormal(500, 1.1);
    } while (draws.Uniform() < .41 && at_s < end_s);
  }
  std::ranges::stable_sort(trace.prompts, {}, &TracePrompt::at_s);
  for (const TracePrompt& prompt : trace.prompts) {
    trace.num_uses += static_cast<int64_t>(prompt.blocks.size());
  }
  return trace;
}

}  // namespace quire::testing
