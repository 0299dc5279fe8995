#include "speculation/step_times.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace quire {
namespace {

// Of the plain step's time, what each further row is expected to cost.
constexpr double kRowShare = .04;
// A step with drafts that takes less than this of the plain one shows that the latter is too high,
// and so many of them that it was no accident.
constexpr double kLeastRatio = .9;
constexpr int kMostDoubts = 3;
// A plain step so many times as long, or as short, is another: what was measured beside it tells
// little.
constexpr double kAnotherPlain = 1.25;

bool AreAlike(double one_ms, double other_ms) {
  return std::max(one_ms, other_ms) <= kAnotherPlain * std::min(one_ms, other_ms);
}

bool IsCounted(int num_decodes, int num_rows) {
  return num_decodes >= 1 && num_rows >= num_decodes && num_rows <= StepTimes::kMostRows;
}

}  // namespace

void StepTimes::Samples::Add(double value) {
  values[static_cast<size_t>(count % kSamples)] = value;
  ++count;
}

double StepTimes::Samples::Median() const {
  if (count == 0) return 0;
  std::vector<double> known(values.begin(), values.begin() + std::min<int64_t>(count, kSamples));
  // Of an even number the lower one: the first step of so many rows faults pages in.
  const auto middle = known.begin() + static_cast<int>(known.size() - 1) / 2;
  std::nth_element(known.begin(), middle, known.end());
  return *middle;
}

void StepTimes::Observe(int num_decodes, int num_rows, double duration_ms) {
  if (!std::isfinite(duration_ms) || duration_ms <= 0) return;
  if (!IsCounted(num_decodes, num_rows)) return;
  ++num_steps_;
  Samples& plain = plain_[num_decodes];
  if (num_rows == num_decodes) {
    if (num_steps_ - plain.last_step > kFreshPlainSteps) plain.count = 0;
    plain.last_step = num_steps_;
    plain.Add(duration_ms);
    doubts_[num_decodes] = 0;
    return;
  }
  const double plain_ms = PlainMs(num_decodes);
  if (plain_ms <= 0) return;
  const double ratio = duration_ms / plain_ms;
  if (ratio < kLeastRatio) {
    if (++doubts_[num_decodes] < kMostDoubts) return;
    doubts_[num_decodes] = 0;
    plain.count = 0;
    return;
  }
  doubts_[num_decodes] = 0;
  Samples& ratios = ratios_[num_decodes][num_rows];
  if (num_steps_ - ratios.last_step > kFreshSteps || !AreAlike(ratios.plain_ms, plain_ms)) {
    ratios.count = 0;
  }
  ratios.last_step = num_steps_;
  ratios.plain_ms = plain_ms;
  ratios.Add(ratio);
}

double StepTimes::PlainMs(int num_decodes) const {
  if (num_decodes < 1 || num_decodes > kMostRows) return 0;
  const Samples& plain = plain_[num_decodes];
  const bool is_known =
      plain.count >= kTrustedSamples && num_steps_ - plain.last_step <= kFreshPlainSteps;
  return is_known ? plain.Median() : 0;
}

double StepTimes::MeasuredRatio(int num_decodes, int num_rows) const {
  if (!IsCounted(num_decodes, num_rows)) return 0;
  const Samples& ratios = ratios_[num_decodes][num_rows];
  if (ratios.count < kTrustedSamples || num_steps_ - ratios.last_step > kFreshSteps) return 0;
  const double plain_ms = PlainMs(num_decodes);
  if (plain_ms <= 0 || !AreAlike(ratios.plain_ms, plain_ms)) return 0;
  return std::max(1.0, ratios.Median());
}

double StepTimes::Ratio(int num_decodes, int num_rows) const {
  num_rows = std::min(num_rows, kMostRows);
  if (const double measured = MeasuredRatio(num_decodes, num_rows); measured > 0) return measured;
  // Between the nearest that are known, or behind the last.
  int below = num_decodes;
  double below_ratio = 1;
  for (int rows = num_rows - 1; rows > num_decodes; --rows) {
    if (const double measured = MeasuredRatio(num_decodes, rows); measured > 0) {
      below = rows;
      below_ratio = measured;
      break;
    }
  }
  for (int rows = num_rows + 1; rows <= kMostRows; ++rows) {
    if (const double measured = MeasuredRatio(num_decodes, rows); measured > 0) {
      const double above_ratio = std::max(measured, below_ratio);
      return below_ratio + (above_ratio - below_ratio) * (num_rows - below) / (rows - below);
    }
  }
  return below_ratio + kRowShare * (num_rows - below);
}

}  // namespace quire
