#include "cli/bench/limits_run.h"

#include <algorithm>

#include "base/available_memory.h"
#include "base/huge_buffer.h"

namespace quire {
namespace {

constexpr size_t kLargestSet = size_t{1} << 30;
MachineLimits LimitsNow(Engine& engine) {
  ThreadPool& pool = engine.runner().threads();
  const std::span<const std::byte> weights = WeightBytes(engine.model().weights());
  const ArithmeticPeaks peaks = MeasureArithmeticPeaks(pool, engine.runner().kernels().name);
  return {.bytes_per_second = SettledReadRate(pool, weights),
          .int8_ops_per_second = peaks.int8_ops_per_second,
          .f32_ops_per_second = peaks.f32_ops_per_second};
}

// Bandwidth drifts, so its mean holds between; a peak is only ever missed, so the higher one does.
MachineLimits Between(const MachineLimits& before, const MachineLimits& after) {
  return {.bytes_per_second = (before.bytes_per_second + after.bytes_per_second) / 2,
          .int8_ops_per_second = std::max(before.int8_ops_per_second, after.int8_ops_per_second),
          .f32_ops_per_second = std::max(before.f32_ops_per_second, after.f32_ops_per_second)};
}

}  // namespace

std::vector<size_t> DefaultWorkingSets() {
  std::vector<size_t> sets;
  for (size_t bytes = kSmallestSet; bytes <= kLargestSet; bytes *= 2) sets.push_back(bytes);
  return sets;
}

Result<MachineReport> MeasureMachine(int num_threads, const std::string& kernels,
                                     std::span<const size_t> working_sets, int repetitions,
                                     const std::function<bool()>& go_on) {
  ThreadPool pool(num_threads);
  MachineReport report{.threads = pool.num_threads(), .kernels = kernels};
  const uint64_t room = AvailableMemory() / 2;
  size_t largest = 0;
  for (const size_t bytes : working_sets) {
    if (bytes <= room) {
      largest = std::max(largest, bytes);
      report.reads.push_back({.bytes = bytes});
    } else if (report.left_out_bytes == 0 || bytes < report.left_out_bytes) {
      report.left_out_bytes = bytes;
    }
  }
  if (largest == 0) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "no working set of at most half of the free memory, {} bytes, was asked for",
                     room);
  }
  QUIRE_ASSIGN_OR_RETURN(HugeBuffer buffer, HugeBuffer::Allocate(largest));
  TouchPages(pool, buffer.bytes().first(largest));
  std::vector<std::vector<double>> rates(report.reads.size());
  // In turn: what drifts meets every set.
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    for (size_t i = 0; i < report.reads.size(); ++i) {
      if (!go_on()) return MakeError(ErrorCode::kInterrupted, "interrupted");
      rates[i].push_back(SettledReadRate(pool, buffer.bytes().first(report.reads[i].bytes)));
    }
  }
  for (size_t i = 0; i < rates.size(); ++i) {
    report.reads[i].bytes_per_second = Summarize(std::move(rates[i]));
  }
  report.peaks = MeasureArithmeticPeaks(pool, kernels);
  return report;
}

StepCost CostOfTest(const Engine& engine, const SpeedTest& test) {
  const ModelConfig& config = engine.model().config();
  const Weights& weights = engine.model().weights();
  const KvType kv_type = engine.cache().layout().type;
  StepCost cost;
  // A step of several sequences reads the weights once and everything else for each.
  const auto add = [&](int first_position, int num_tokens, int num_logits_rows) {
    StepCost step =
        CostOfStep(config, weights, kv_type, first_position, num_tokens, num_logits_rows);
    step.int8_ops *= test.num_parallel;
    step.f32_ops *= test.num_parallel;
    step.kv_bytes *= test.num_parallel;
    cost += step;
  };
  const int chunk =
      std::max(1, engine.scheduler_options().max_batched_tokens / std::max(1, test.num_parallel));
  for (int done = 0; done < test.num_prompt; done += chunk) {
    const int num_tokens = std::min(chunk, test.num_prompt - done);
    add(test.depth + done, num_tokens, done + num_tokens == test.num_prompt ? 1 : 0);
  }
  for (int i = 0; i < test.num_generated; ++i) add(test.depth + 1 + i, 1, 1);
  return cost;
}

Result<LimitSample> MeasureBesideLimits(Engine& engine, const SpeedTest& test,
                                        std::span<const int32_t> vocabulary, uint64_t seed,
                                        const std::function<bool()>& go_on) {
  const MachineLimits before = LimitsNow(engine);
  QUIRE_ASSIGN_OR_RETURN(const SpeedSample speed,
                         MeasureSpeed(engine, test, vocabulary, seed, go_on));
  LimitSample sample{.speed = speed, .limits = Between(before, LimitsNow(engine))};
  const StepCost cost = CostOfTest(engine, test);
  const int64_t tokens =
      int64_t{test.num_parallel} * (test.num_prompt > 0 ? test.num_prompt : test.num_generated);
  sample.seconds = static_cast<double>(tokens) / speed.tokens_per_second;
  sample.bytes_per_second = cost.bytes() / sample.seconds;
  sample.share_of_read = sample.bytes_per_second / sample.limits.bytes_per_second;
  sample.share_of_int8 = cost.int8_ops / sample.seconds / sample.limits.int8_ops_per_second;
  sample.bound = BoundOf(cost, sample.limits);
  return sample;
}

}  // namespace quire
