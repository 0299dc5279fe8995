#include "kv/eviction_record.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace quire {
namespace {

constexpr size_t kMostSets = 2048;
// Times that the pool's contents may all have changed before they are forgotten.
constexpr size_t kGenerations = 4;

uint64_t BeginningOf(const Digest& digest) {
  uint64_t beginning = 0;
  std::memcpy(&beginning, digest.data(), sizeof(beginning));
  return beginning;
}

// An odd factor spreads low bits over the high ones.
uint64_t Mix(uint64_t hash, int32_t token) {
  return (std::rotl(hash, 23) ^ (static_cast<uint64_t>(token) + 1)) * uint64_t{0x9E3779B97F4A7C15};
}

uint64_t ContentOf(const Digest& parent, std::span<const int32_t> tokens) {
  uint64_t hash = BeginningOf(parent);
  for (const int32_t token : tokens) hash = Mix(hash, token);
  return std::max<uint64_t>(hash, 1);
}

// The set of a table that a hash belongs in; none where the table is empty.
template <typename Table>
auto SetOf(Table& table, uint64_t hash, size_t ways) {
  const auto all = std::span(table);
  if (all.empty()) return all;
  return all.subspan(((hash >> 32) & (all.size() / ways - 1)) * ways, ways);
}

// The one that is to be overwritten: `is_same` where there is one, a free one, the oldest.
template <typename Entry, typename IsSame>
Entry& PlaceIn(std::span<Entry> set, IsSame is_same) {
  Entry* place = &set[0];
  for (Entry& entry : set) {
    if (is_same(entry)) return entry;
    if (place->is_free()) continue;
    if (entry.is_free() || entry.evicted_ms < place->evicted_ms) place = &entry;
  }
  return *place;
}

}  // namespace

EvictionRecord::EvictionRecord(int num_blocks)
    : num_sets_(std::min(
          kMostSets, std::bit_ceil(kGenerations * static_cast<size_t>(num_blocks) / kWays + 1))) {}

void EvictionRecord::Add(const Digest& parent, std::span<const int32_t> tokens, double now_ms) {
  QUIRE_CHECK(!tokens.empty() && tokens.size() <= kBlockSlots, "{} tokens", tokens.size());
  if (any_.empty()) {
    whole_.resize(num_sets_ * kWays);
    any_.resize(num_sets_ * kWays);
  }
  if (tokens.size() == kBlockSlots) {
    const uint64_t content = ContentOf(parent, tokens);
    PlaceIn(SetOf(whole_, content, kWays), [&](const Whole& entry) {
      return entry.content == content;
    }) = {.content = content, .evicted_ms = now_ms};
  }
  const uint64_t key = BeginningOf(parent);
  Any& place = PlaceIn(SetOf(any_, Mix(key, tokens[0]), kWays), [&](const Any& entry) {
    return entry.parent == key && std::ranges::equal(entry.tokens(), tokens);
  });
  place = {.parent = key, .evicted_ms = now_ms, .num_tokens = static_cast<int32_t>(tokens.size())};
  std::ranges::copy(tokens, place.token_ids.begin());
}

void EvictionRecord::Remove(const Digest& parent, std::span<const int32_t> tokens) {
  if (tokens.size() == kBlockSlots) {
    const uint64_t content = ContentOf(parent, tokens);
    for (Whole& entry : SetOf(whole_, content, kWays)) {
      if (entry.content == content) entry = {};
    }
  }
  const uint64_t key = BeginningOf(parent);
  for (Any& entry : SetOf(any_, Mix(key, tokens[0]), kWays)) {
    if (entry.parent == key && std::ranges::equal(entry.tokens(), tokens)) entry = {};
  }
}

std::optional<double> EvictionRecord::Find(const Digest& parent, std::span<const int32_t> tokens,
                                           size_t num_common) const {
  std::optional<double> found;
  if (tokens.size() == kBlockSlots) {
    const uint64_t content = ContentOf(parent, tokens);
    for (const Whole& entry : SetOf(whole_, content, kWays)) {
      if (entry.content == content) found = entry.evicted_ms;
    }
  }
  const uint64_t key = BeginningOf(parent);
  const auto beginning = tokens.first(num_common);
  for (const Any& entry : SetOf(any_, Mix(key, tokens[0]), kWays)) {
    const auto held = entry.tokens();
    if (entry.parent != key || held.size() < num_common ||
        !std::ranges::equal(held.first(num_common), beginning)) {
      continue;
    }
    found = std::max(found.value_or(entry.evicted_ms), entry.evicted_ms);
  }
  return found;
}

}  // namespace quire
