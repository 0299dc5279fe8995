#include "kernels/attention_tiles.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/check.h"
#include "kernels/kernel_set.h"

namespace quire {
namespace {

constexpr int kSpanBlocks = kSpanKeys / kBlockSlots;
// A joint tile and one of each of its sequences go into one group.
static_assert(AttentionTiles::kMaxGroupTiles > kMaxSpanQueries);

// Entry of the block table with the first key that a sequence attends.
int FirstBlock(const AttentionJob& job, int sequence_idx) {
  return KeysAttended(job, job.sequences[sequence_idx].first_position).first / kBlockSlots;
}

}  // namespace

void AttentionTiles::Cut(const AttentionJob& job, size_t num_threads) {
  tiles_.clear();
  units_.clear();
  num_tasks_ = 0;
  OrderSequences(job);
  FindShared(job);
  for (int kv_head = 0; kv_head < job.kv_layer().num_kv_heads; ++kv_head) {
    for (size_t place = 0; place < order_.size();) {
      const int count = SequencesInUnit(job, place);
      if (count == 1) {
        AddSequence(job, place, kv_head);
      } else {
        AddJoint(job, place, count, kv_head);
      }
      place += count;
    }
  }
  CutGroups(job, num_threads);
}

// Sequences that begin with the same block become neighbours.
void AttentionTiles::OrderSequences(const AttentionJob& job) {
  order_.clear();
  for (size_t i = 0; i < job.sequences.size(); ++i) {
    const KvSequence& sequence = job.sequences[i];
    if (sequence.num_rows == 0) continue;
    const size_t end_position = sequence.first_position + sequence.num_rows;
    const size_t num_blocks = job.TableOf(static_cast<int>(i)).size();
    QUIRE_CHECK(num_blocks * kBlockSlots >= end_position, "{} positions in a table of {} blocks",
                end_position, num_blocks);
    order_.push_back(static_cast<int>(i));
  }
  std::ranges::stable_sort(order_, {}, [&](int i) { return job.TableOf(i)[FirstBlock(job, i)]; });
}

// The whole spans at the start that neighbours read from the same blocks, where both decode.
void AttentionTiles::FindShared(const AttentionJob& job) {
  shared_end_.assign(order_.size(), 0);
  if (2 * job.heads_per_kv() > kMaxSpanQueries) return;
  for (size_t place = 1; place < order_.size(); ++place) {
    const int before = order_[place - 1];
    const int after = order_[place];
    const int first = FirstBlock(job, after);
    if (job.sequences[before].num_rows != 1 || job.sequences[after].num_rows != 1 ||
        FirstBlock(job, before) != first) {
      continue;
    }
    const auto [end, other_end] = std::ranges::mismatch(job.TableOf(before).subspan(first),
                                                        job.TableOf(after).subspan(first));
    const auto num_shared = static_cast<int>(end - job.TableOf(before).subspan(first).begin());
    const int end_span = (first + num_shared) / kSpanBlocks;
    if (end_span > first / kSpanBlocks) shared_end_[place] = end_span;
  }
}

// Of a run of sharers, as many as fit into a tile, evenly.
int AttentionTiles::SequencesInUnit(const AttentionJob& job, size_t place) const {
  int run = 1;
  while (place + run < order_.size() && shared_end_[place + run] > 0) ++run;
  const int most = std::max(1, kMaxSpanQueries / job.heads_per_kv());
  const int num_units = (run + most - 1) / most;
  return shared_end_.empty() || run == 1 ? 1 : (run + num_units - 1) / num_units;
}

void AttentionTiles::AddTile(AttentionTile tile) {
  tile.first_task = num_tasks_;
  num_tasks_ += tile.end_span - tile.first_span;
  tiles_.push_back(tile);
}

// Tiles of all pairs of one sequence, each a unit.
void AttentionTiles::AddSequence(const AttentionJob& job, size_t place, int kv_head) {
  const KvSequence& sequence = job.sequences[order_[place]];
  const int heads_per_kv = job.heads_per_kv();
  const int num_pairs = sequence.num_rows * heads_per_kv;
  for (int pair = 0; pair < num_pairs;) {
    // Even sizes: 7 pairs are 4 and 3, not 6 and 1.
    const int pairs_left = num_pairs - pair;
    const int tiles_left = (pairs_left + kMaxSpanQueries - 1) / kMaxSpanQueries;
    const int count = (pairs_left + tiles_left - 1) / tiles_left;
    const auto keys_of = [&](int p) {
      return KeysAttended(job, sequence.first_position + p / heads_per_kv);
    };
    units_.push_back({.first_tile = tiles_.size(), .end_tile = tiles_.size() + 1});
    AddTile({.sequences = {&order_[place], 1},
             .kv_head = kv_head,
             .first_pair = pair,
             .num_pairs = count,
             .first_span = keys_of(pair).first / kSpanKeys,
             .end_span = (keys_of(pair + count - 1).end + kSpanKeys - 1) / kSpanKeys});
    pair += count;
  }
}

// A joint tile over what all of the sequences share, and the rest of each.
void AttentionTiles::AddJoint(const AttentionJob& job, size_t place, size_t count, int kv_head) {
  const std::span<const int> sequences(&order_[place], count);
  const int shared_end =
      std::ranges::min(std::span<const int>(shared_end_).subspan(place + 1, count - 1));
  const auto end_span = [&](int sequence_idx) {
    return job.sequences[sequence_idx].first_position / kSpanKeys + 1;
  };
  const int last_end = end_span(std::ranges::max(sequences, {}, end_span));
  // Tables may hold more blocks than there are keys.
  const int joint_end = std::min(shared_end, last_end);
  units_.push_back({.first_tile = tiles_.size(), .end_tile = tiles_.size() + 1 + count});
  AddTile({.sequences = sequences,
           .kv_head = kv_head,
           .num_pairs = static_cast<int>(count) * job.heads_per_kv(),
           .first_span = FirstBlock(job, sequences[0]) / kSpanBlocks,
           .end_span = joint_end});
  for (const int& sequence_idx : sequences) {
    AddTile({.sequences = {&sequence_idx, 1},
             .kv_head = kv_head,
             .num_pairs = job.heads_per_kv(),
             .first_span = joint_end,
             .end_span = std::max(joint_end, end_span(sequence_idx))});
  }
}

// Long groups come first, so that the last pieces are short.
void AttentionTiles::CutGroups(const AttentionJob& job, size_t num_threads) {
  const size_t group_tiles =
      std::clamp<size_t>(tiles_.size() / (num_threads * 8), 1, kMaxGroupTiles);
  groups_.clear();
  for (const AttentionUnit& unit : units_) {
    const AttentionTile& tile = tiles_[unit.first_tile];
    const bool joins =
        !groups_.empty() && unit.end_tile - groups_.back().first_tile <= group_tiles &&
        tile.kv_head == tiles_[unit.first_tile - 1].kv_head &&
        ShareBlock(job, tiles_[groups_.back().first_tile], tile, tile.first_span * kSpanBlocks);
    if (!joins) groups_.push_back({.first_tile = unit.first_tile});
    groups_.back().end_tile = unit.end_tile;
    groups_.back().num_spans +=
        static_cast<int64_t>(tiles_[unit.end_tile - 1].end_task() - tile.first_task);
  }
  std::ranges::stable_sort(groups_, std::ranges::greater{}, &AttentionGroup::num_spans);
}

size_t AttentionTiles::bytes() const {
  return order_.capacity() * sizeof(order_[0]) + shared_end_.capacity() * sizeof(shared_end_[0]) +
         tiles_.capacity() * sizeof(tiles_[0]) + units_.capacity() * sizeof(units_[0]) +
         groups_.capacity() * sizeof(groups_[0]);
}

size_t AttentionTiles::TileOf(size_t task) const {
  const auto after = std::ranges::upper_bound(tiles_, task, {}, &AttentionTile::first_task);
  return static_cast<size_t>(after - tiles_.begin()) - 1;
}

size_t AttentionTiles::UnitOf(size_t tile) const {
  const auto after = std::ranges::upper_bound(units_, tile, {}, &AttentionUnit::first_tile);
  return static_cast<size_t>(after - units_.begin()) - 1;
}

bool ShareBlock(const AttentionJob& job, const AttentionTile& a, const AttentionTile& b,
                int entry) {
  if (a.sequences[0] == b.sequences[0]) return true;
  const std::span<const int32_t> table_a = job.TableOf(a.sequences[0]);
  const std::span<const int32_t> table_b = job.TableOf(b.sequences[0]);
  const auto idx = static_cast<size_t>(entry);
  return idx < table_a.size() && idx < table_b.size() && table_a[idx] == table_b[idx] &&
         table_a[idx] != kNoBlock;
}

}  // namespace quire
