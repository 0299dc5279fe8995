#include "cli/cache/prefix_chains.h"

#include <algorithm>
#include <set>
#include <utility>

#include "tensor/paged_kv_view.h"

namespace quire {
namespace {

// From `last` back as far as records are there. Positions fall by one each step, so that no damaged
// link leads round in a circle.
std::vector<CataloguedRecord> PathTo(const RecordIndex& index, const CataloguedRecord& last) {
  std::vector<CataloguedRecord> path = {last};
  while (path.back().entry > 0) {
    const auto parent = index.records.find(path.back().parent);
    if (parent == index.records.end() || parent->second.entry != path.back().entry - 1) break;
    path.push_back(parent->second);
  }
  std::ranges::reverse(path);
  return path;
}

}  // namespace

std::vector<RecordIndex> IndexRecords(std::span<const CataloguedRecord> records) {
  std::map<Digest, std::map<int, RecordIndex>> groups;
  for (const CataloguedRecord& record : records) {
    groups[record.fingerprint][record.group].records.emplace(record.name, record);
  }
  std::vector<RecordIndex> indexes;
  for (auto& [fingerprint, by_group] : groups) {
    // Of equals the first.
    auto largest = by_group.begin();
    for (auto it = by_group.begin(); it != by_group.end(); ++it) {
      if (it->second.records.size() > largest->second.records.size()) largest = it;
    }
    RecordIndex& index = largest->second;
    index.fingerprint = fingerprint;
    index.group = largest->first;
    index.num_groups = static_cast<int>(by_group.size());
    indexes.push_back(std::move(index));
  }
  return indexes;
}

int64_t PrefixChain::num_tokens() const { return static_cast<int64_t>(path.size()) * kBlockSlots; }

uint64_t PrefixChain::bytes() const {
  uint64_t bytes = 0;
  for (const CataloguedRecord& record : path) bytes += record.bytes;
  return bytes * static_cast<uint64_t>(num_groups);
}

bool LastUsedFirst(const PrefixChain& a, const PrefixChain& b) {
  return std::pair(-a.last().last_use_s, a.last().name) <
         std::pair(-b.last().last_use_s, b.last().name);
}

std::vector<PrefixChain> PrefixChains(const RecordIndex& index) {
  std::set<RecordName> followed;
  for (const auto& [name, record] : index.records) {
    if (record.entry > 0) followed.insert(record.parent);
  }
  std::vector<PrefixChain> chains;
  for (const auto& [name, record] : index.records) {
    if (followed.contains(name)) continue;
    chains.push_back({.path = PathTo(index, record), .num_groups = index.num_groups});
  }
  std::ranges::sort(chains, LastUsedFirst);
  return chains;
}

}  // namespace quire
