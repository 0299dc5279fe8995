#include "cli/bench/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <numeric>

namespace quire {
namespace {

// Between the two nearest samples; `sorted` is not empty.
double Quantile(std::span<const double> sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

Summary Summarize(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::ranges::sort(samples);
  const double sum = std::accumulate(samples.begin(), samples.end(), 0.0);
  return {.count = static_cast<int>(samples.size()),
          .mean = sum / static_cast<double>(samples.size()),
          .median = Quantile(samples, 0.5),
          .p90 = Quantile(samples, 0.9),
          .p99 = Quantile(samples, 0.99),
          .lowest = samples.front(),
          .highest = samples.back()};
}

std::vector<SpreadFigure> MergeRuns(std::span<const std::vector<Figure>> runs) {
  std::vector<SpreadFigure> merged;
  if (runs.empty()) return merged;
  for (size_t i = 0; i < runs.front().size(); ++i) {
    std::vector<double> values;
    for (const std::vector<Figure>& run : runs) values.push_back(run[i].value);
    const Summary summary = Summarize(std::move(values));
    SpreadFigure spread{
        .figure = runs.front()[i], .lowest = summary.lowest, .highest = summary.highest};
    spread.figure.value = summary.median;
    merged.push_back(std::move(spread));
  }
  return merged;
}

std::string FormatFigures(std::span<const SpreadFigure> figures) {
  size_t width = 0;
  for (const SpreadFigure& spread : figures) width = std::max(width, spread.figure.label.size());
  std::string text;
  for (const SpreadFigure& spread : figures) {
    const Figure& figure = spread.figure;
    text += fmt::format("{:<{}}  {:>12.{}f} {:<8}", figure.label, width, figure.value,
                        figure.decimals, figure.unit);
    if (spread.lowest != spread.highest) {
      text += fmt::format(" ({:.{}f} to {:.{}f})", spread.lowest, figure.decimals, spread.highest,
                          figure.decimals);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

void WasteMeter::AddPaged(const KvUsage& usage) {
  reserved_ += static_cast<double>(usage.used_blocks) * kBlockSlots;
  filled_ += static_cast<double>(usage.filled_slots);
}

void WasteMeter::AddReserved(int live_sequences, int64_t slots_each, int64_t filled_slots) {
  reserved_ += static_cast<double>(live_sequences) * static_cast<double>(slots_each);
  filled_ += static_cast<double>(filled_slots);
}

double WasteMeter::share() const { return reserved_ == 0 ? 0 : 1 - filled_ / reserved_; }

uint64_t PeakMemoryBytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  uint64_t kib = 0;
  while (status >> word) {
    if (word == "VmHWM:" && status >> kib) return kib * 1024;
  }
  return 0;
}

}  // namespace quire
