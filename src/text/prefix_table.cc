#include "text/prefix_table.h"

#include <algorithm>

namespace quire {

PrefixTable::PrefixTable(std::vector<std::pair<std::string, TokenId>> entries)
    : entries_(std::move(entries)) {
  std::erase_if(entries_, [](const auto& entry) { return entry.first.empty(); });
  std::sort(entries_.begin(), entries_.end());
  const auto last = std::unique(entries_.begin(), entries_.end(),
                                [](const auto& a, const auto& b) { return a.first == b.first; });
  entries_.erase(last, entries_.end());
  for (size_t i = 0; i < entries_.size(); ++i) {
    Range& range = first_[static_cast<uint8_t>(entries_[i].first[0])];
    if (range.begin == range.end) range.begin = i;
    range.end = i + 1;
  }
}

PrefixTable::Match PrefixTable::Longest(std::string_view text) const {
  Match match;
  if (text.empty()) return match;
  Range range = first_[static_cast<uint8_t>(text[0])];
  // Here all entries of the range agree with the text in its first `depth` bytes, so an entry of
  // just that length is the first of them.
  for (size_t depth = 1; range.begin != range.end; ++depth) {
    if (entries_[range.begin].first.size() == depth) {
      match = {entries_[range.begin].second, depth};
      ++range.begin;
    }
    if (depth == text.size()) break;
    const auto byte = static_cast<uint8_t>(text[depth]);
    const auto byte_at = [depth](const auto& entry) {
      return static_cast<uint8_t>(entry.first[depth]);
    };
    const auto begin = entries_.begin() + range.begin;
    const auto end = entries_.begin() + range.end;
    const auto low = std::partition_point(begin, end, [&](auto& e) { return byte_at(e) < byte; });
    const auto high = std::partition_point(low, end, [&](auto& e) { return byte_at(e) == byte; });
    range = {static_cast<size_t>(low - entries_.begin()),
             static_cast<size_t>(high - entries_.begin())};
  }
  return match;
}

}  // namespace quire
