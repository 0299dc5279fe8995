#include "plan/concurrency.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/exact_math.h"
#include "plan/saturating.h"

namespace quire {
namespace {

constexpr int kMaxLength = 1 << 20;
// Points of the normal density on each axis, and how many standard deviations they reach: finer or
// wider changes the means by less than one in a thousand.
constexpr int kGridPoints = 160;
constexpr double kGridReach = 4.5;

struct WeightedLength {
  double tokens = 0;
  double weight = 0;
};

std::vector<WeightedLength> Lengths(double mean, double sigma) {
  std::vector<WeightedLength> lengths(kGridPoints);
  double total = 0;
  for (int i = 0; i < kGridPoints; ++i) {
    const double z = kGridReach * ((2.0 * i + 1) / kGridPoints - 1);
    // The mean of a lognormal is e^(mu + sigma^2 / 2).
    lengths[i] = {mean * exact::Exp(sigma * z - sigma * sigma / 2), exact::Exp(-z * z / 2)};
    total += lengths[i].weight;
  }
  for (WeightedLength& length : lengths) length.weight /= total;
  return lengths;
}

// Running sums over sequences of 0..n entries, so that a whole answer is one subtraction.
struct RunningSums {
  std::vector<double> bytes;
  std::vector<double> squares;
};

RunningSums SumBytes(const KvCost& cost, int num_tokens, int64_t shared_blocks) {
  RunningSums sums;
  sums.bytes.resize(num_tokens + 1);
  sums.squares.resize(num_tokens + 1);
  for (int n = 1; n <= num_tokens; ++n) {
    const int64_t blocks = std::max<int64_t>(0, cost.Blocks(n, 1) - shared_blocks);
    const double bytes = static_cast<double>(blocks) * static_cast<double>(cost.BytesPerBlock());
    sums.bytes[n] = sums.bytes[n - 1] + bytes;
    sums.squares[n] = sums.squares[n - 1] + bytes * bytes;
  }
  return sums;
}

LiveSequence MeetOne(const KvCost& cost, const LengthDistribution& lengths, int prefix) {
  const RunningSums sums = SumBytes(cost, prefix + lengths.max_total, cost.SharedBlocks(prefix));
  const auto inputs = Lengths(lengths.mean_input, lengths.sigma);
  const auto outputs = Lengths(lengths.mean_output, lengths.sigma);
  double steps = 0;
  double bytes = 0;
  double squares = 0;
  double tokens = 0;
  for (const WeightedLength& input : inputs) {
    const int prompt = static_cast<int>(
        std::clamp(std::round(input.tokens), 1.0, static_cast<double>(lengths.max_total - 1)));
    for (const WeightedLength& output : outputs) {
      const int answer = static_cast<int>(std::clamp(
          std::round(output.tokens), 1.0, static_cast<double>(lengths.max_total - prompt)));
      const double weight = input.weight * output.weight;
      // Entries before the first sampled token is fed: the prefix and the prompt.
      const int first = prefix + prompt;
      const int end = first + answer - 1;
      steps += weight * answer;
      bytes += weight * (sums.bytes[end] - sums.bytes[first - 1]);
      squares += weight * (sums.squares[end] - sums.squares[first - 1]);
      tokens += weight * answer * (first + end) / 2.0;
    }
  }
  const double mean = bytes / steps;
  return {.mean_tokens = tokens / steps,
          .mean_bytes = mean,
          .deviation_bytes = std::sqrt(std::max(0.0, squares / steps - mean * mean))};
}

int Whole(double ratio) {
  return static_cast<int>(std::min(ratio, double{std::numeric_limits<int>::max()}));
}

int AtTheMean(double bytes, const LiveSequence& live) {
  return live.mean_bytes > 0 ? Whole(bytes / live.mean_bytes) : 0;
}

// The n for which n * mean + 2 * sqrt(n) * deviation is what there is: sums of n independent
// sequences stay below it 97.7 % of the time.
int Steady(double bytes, const LiveSequence& live) {
  if (!(live.mean_bytes > 0)) return 0;
  const double deviation = live.deviation_bytes;
  const double root =
      (std::sqrt(deviation * deviation + live.mean_bytes * bytes) - deviation) / live.mean_bytes;
  return Whole(root * root);
}

}  // namespace

Status CheckConcurrency(const ConcurrencyOptions& options) {
  const LengthDistribution& lengths = options.lengths;
  const auto refuse = [](std::string_view what, auto got, std::string_view expected) {
    return MakeError(ErrorCode::kInvalidArgument, "{} of {}; expected {}", what, got, expected);
  };
  if (!(lengths.mean_input >= 1 && lengths.mean_input <= kMaxLength)) {
    return refuse("a mean input", lengths.mean_input, "1 to 1048576 tokens");
  }
  if (!(lengths.mean_output >= 1 && lengths.mean_output <= kMaxLength)) {
    return refuse("a mean output", lengths.mean_output, "1 to 1048576 tokens");
  }
  if (!(lengths.sigma >= 0 && lengths.sigma <= 4))
    return refuse("a sigma", lengths.sigma, "0 to 4");
  if (lengths.max_total < 2 || lengths.max_total > kMaxLength) {
    return refuse("a longest sequence", lengths.max_total, "2 to 1048576 tokens");
  }
  if (options.shared_prefix < 0 || options.shared_prefix > kMaxLength) {
    return refuse("a shared prefix", options.shared_prefix, "0 to 1048576 tokens");
  }
  if (options.shared_prefix > 0 && options.shared_prefix >= options.context_tokens) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "a shared prefix of {} tokens in a context of {}; expected a shorter one",
                     options.shared_prefix, options.context_tokens);
  }
  return {};
}

Result<Concurrency> PlanConcurrency(const KvCost& cost, uint64_t kv_bytes,
                                    const ConcurrencyOptions& options) {
  QUIRE_RETURN_IF_ERROR(CheckConcurrency(options));
  const uint64_t worst = cost.BlockBytes(options.context_tokens, options.prefill_chunk);
  const double there = static_cast<double>(kv_bytes);
  Concurrency result{.kv_bytes = kv_bytes};
  result.worst_case_ratio = worst > 0 ? there / static_cast<double>(worst) : 0;
  result.worst_case = worst > 0 ? Whole(static_cast<double>(kv_bytes / worst)) : 0;
  result.live = MeetOne(cost, options.lengths, 0);
  result.expected = AtTheMean(there, result.live);
  result.expected_steady = Steady(there, result.live);
  if (options.shared_prefix == 0) return result;

  result.prefix_bytes = SaturatingMul(
      static_cast<uint64_t>(cost.SharedBlocks(options.shared_prefix)), cost.BytesPerBlock());
  result.live_shared = MeetOne(cost, options.lengths, options.shared_prefix);
  if (result.prefix_bytes > kv_bytes) return result;
  const uint64_t left = kv_bytes - result.prefix_bytes;
  const uint64_t own = worst - std::min(worst, result.prefix_bytes);
  result.worst_case_shared = own > 0 ? Whole(static_cast<double>(left / own)) : 0;
  result.expected_shared = AtTheMean(static_cast<double>(left), result.live_shared);
  result.expected_steady_shared = Steady(static_cast<double>(left), result.live_shared);
  return result;
}

}  // namespace quire
