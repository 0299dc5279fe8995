#include "cli/bench/speed_test.h"

#include <algorithm>
#include <chrono>

#include "cli/bench/crowd.h"
#include "cli/bench/figures.h"
#include "cli/bench/load.h"

namespace quire {
namespace {

using Clock = std::chrono::steady_clock;

double MsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

Request RequestFor(std::vector<int32_t> prompt, int output_tokens) {
  return {.prompt = std::move(prompt),
          .sampling = {.temperature = 0},
          .max_tokens = output_tokens,
          .ignore_end_of_text = true};
}

// Each sequence's first `count` tokens.
std::vector<std::vector<int32_t>> PromptsOf(const SpeedTest& test, int count, uint64_t seed,
                                            std::span<const int32_t> vocabulary) {
  std::vector<std::vector<int32_t>> prompts;
  for (int i = 0; i < test.num_parallel; ++i) {
    prompts.push_back(RandomTokens(seed, static_cast<uint32_t>(i), count, vocabulary));
  }
  return prompts;
}

// Puts `depth` entries of each prompt into the cache.
Status Warm(Engine& engine, std::span<const std::vector<int32_t>> prompts, int depth,
            const std::function<bool()>& go_on) {
  engine.runner().cache().DropCached();
  if (depth == 0) return {};
  Crowd crowd(engine, go_on);
  for (const std::vector<int32_t>& prompt : prompts) {
    QUIRE_RETURN_IF_ERROR(crowd.Add(RequestFor({prompt.begin(), prompt.begin() + depth}, 1)));
  }
  return crowd.StepToTheEnd();
}

Status CheckBatch(const Engine& engine, int num_parallel) {
  if (num_parallel <= engine.scheduler_options().max_sequences) return {};
  return MakeError(ErrorCode::kInvalidArgument, "{} sequences at once; the engine runs at most {}",
                   num_parallel, engine.scheduler_options().max_sequences);
}

}  // namespace

Result<SpeedSample> MeasureSpeed(Engine& engine, const SpeedTest& test,
                                 std::span<const int32_t> vocabulary, uint64_t seed,
                                 const std::function<bool()>& go_on) {
  QUIRE_RETURN_IF_ERROR(CheckBatch(engine, test.num_parallel));
  const bool is_prefill = test.num_prompt > 0;
  const auto prompts = PromptsOf(test, test.depth + std::max(test.num_prompt, 1), seed, vocabulary);
  QUIRE_RETURN_IF_ERROR(Warm(engine, prompts, test.depth, go_on));

  SpeedSample sample;
  Crowd crowd(engine, go_on);
  Clock::time_point step_start = Clock::now();
  const auto note_step = [&] {
    sample.longest_step_ms = std::max(sample.longest_step_ms, MsSince(step_start));
    step_start = Clock::now();
    return false;
  };
  for (const std::vector<int32_t>& prompt : prompts) {
    // One token more than is timed: decode begins when every sequence has its first.
    QUIRE_RETURN_IF_ERROR(crowd.Add(RequestFor(prompt, is_prefill ? 1 : test.num_generated + 1)));
  }
  Clock::time_point start = Clock::now();
  int64_t tokens_before = 0;
  if (!is_prefill) {
    QUIRE_RETURN_IF_ERROR(crowd.StepUntil([&] { return crowd.fewest_tokens() >= 1; }));
    start = Clock::now();
    tokens_before = crowd.num_tokens();
  }
  step_start = start;
  QUIRE_RETURN_IF_ERROR(crowd.StepUntil([&] { return note_step(); }));
  const double ms = MsSince(start);
  const int64_t tokens = is_prefill ? static_cast<int64_t>(test.num_prompt) * test.num_parallel
                                    : crowd.num_tokens() - tokens_before;
  sample.tokens_per_second = 1000.0 * static_cast<double>(tokens) / ms;
  return sample;
}

Result<GapSample> MeasureGap(Engine& engine, const GapTest& test,
                             std::span<const int32_t> vocabulary, uint64_t seed,
                             const std::function<bool()>& go_on) {
  QUIRE_RETURN_IF_ERROR(CheckBatch(engine, test.num_decodes + 1));
  engine.runner().cache().DropCached();
  constexpr uint32_t kLongPrompt = 1u << 20;  // a stream that no decode uses
  GapSample sample;
  Clock::time_point start;
  Clock::time_point last_token;
  std::vector<double> usual;
  std::vector<double> beside;
  bool prompt_runs = false;
  const auto on_token = [&] {
    const Clock::time_point now = Clock::now();
    const double gap = std::chrono::duration<double, std::milli>(now - last_token).count();
    if (last_token != Clock::time_point{}) (prompt_runs ? beside : usual).push_back(gap);
    last_token = now;
  };
  // Whoever is destroyed first steps the engine to its end: the decodes, which may have long to go.
  Crowd prompt(engine, go_on);
  Crowd decodes(engine, go_on);
  // Every step computes a token of the prompt at least, so the decodes outlast it.
  const int most = std::min(engine.context_length() - 1, test.warm_tokens + test.prompt_tokens + 1);
  for (int i = 0; i < test.num_decodes; ++i) {
    // The first one's gaps are measured.
    QUIRE_RETURN_IF_ERROR(
        decodes.Add(RequestFor(RandomTokens(seed, static_cast<uint32_t>(i), 1, vocabulary), most),
                    i == 0 ? std::function<void()>(on_token) : std::function<void()>()));
  }
  QUIRE_RETURN_IF_ERROR(
      decodes.StepUntil([&] { return decodes.fewest_tokens() >= test.warm_tokens; }));

  start = Clock::now();
  prompt_runs = true;
  QUIRE_RETURN_IF_ERROR(
      prompt.Add(RequestFor(RandomTokens(seed, kLongPrompt, test.prompt_tokens, vocabulary), 1),
                 [&] { sample.prompt_ttft_ms = MsSince(start); }));
  QUIRE_RETURN_IF_ERROR(prompt.StepUntil([&] { return sample.prompt_ttft_ms > 0; }));
  sample.usual_gap_ms = Summarize(usual).median;
  const Summary gaps = Summarize(beside);
  sample.median_gap_ms = gaps.median;
  sample.longest_gap_ms = gaps.highest;
  return sample;
}

}  // namespace quire
