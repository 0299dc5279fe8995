#include "speculation/draft_policy.h"

#include <algorithm>
#include <utility>

namespace quire {
namespace {

// Numbers of rows that are chosen among: few, so that each is soon measured.
bool IsStair(int num_rows) {
  return num_rows <= 4 || (num_rows <= 16 && num_rows % 2 == 0) || num_rows % 4 == 0;
}

}  // namespace

std::vector<int> DraftPolicy::Choose(std::span<const std::vector<double>> chances, int most_drafts,
                                     double target_step_ms) const {
  const int num_decodes = static_cast<int>(chances.size());
  std::vector<int> counts(chances.size(), 0);
  const double plain_ms = times_.PlainMs(num_decodes);
  if (plain_ms <= 0) return counts;
  std::vector<std::pair<double, int>> drafts;  // chance, sequence
  size_t longest = 0;
  for (const std::vector<double>& of_one : chances) longest = std::max(longest, of_one.size());
  for (size_t place = 0; place < longest; ++place) {
    for (int i = 0; i < num_decodes; ++i) {
      if (place < chances[i].size()) drafts.emplace_back(chances[i][place], i);
    }
  }
  // A sequence's chances only fall, so its drafts stay in order; equals take turns.
  std::ranges::stable_sort(drafts, std::ranges::greater{},
                           [](const auto& draft) { return draft.first; });
  const int most =
      std::min({most_drafts, StepTimes::kMostRows - num_decodes, static_cast<int>(drafts.size())});
  const double most_delay = target_step_ms > plain_ms ? target_step_ms / plain_ms : kMostDelay;
  std::vector<double> gains(chances.size(), 0.0);  // further tokens that each decode may expect
  double tokens = num_decodes;
  double best_rate = (1 + kMargin) * num_decodes;
  int best = 0;
  for (int n = 1; n <= most; ++n) {
    const auto& [chance, sequence] = drafts[n - 1];
    tokens += chance;
    gains[sequence] += chance;
    const int num_rows = num_decodes + n;
    if (!IsStair(num_rows)) continue;
    const double ratio = times_.Ratio(num_decodes, num_rows);
    if (ratio > most_delay * (1 + *std::ranges::min_element(gains))) continue;
    const double rate = tokens / ratio;
    if (rate <= best_rate) continue;
    best_rate = rate;
    best = n;
  }
  for (int i = 0; i < best; ++i) ++counts[drafts[i].second];
  return counts;
}

}  // namespace quire
