// How the work of an attention step is cut: plain data, made from the job and the thread count.
//
// A *pair* is a row of a sequence and one of the heads that share a key head; a *tile* is up to
// kMaxSpanQueries pairs that read each of its spans once; a *task* is one span of one tile.
//
// Decoding sequences that share the blocks of their first spans (a common prefix) are neighbours.
// Where several of them fit into one tile, a joint tile attends the shared spans for all and a tile
// of each sequence the rest, so that the prefix is loaded and widened once for up to six queries.
// Processor time of 16 decodes over 4,096 tokens (f16, 12 heads of 128, AVX-512, 2 threads; ms):
//   heads a key head            1     6
//   16 prefixes              33.2   6.5
//   one, in any order        12.0   4.5   from the last-level cache after the first
//   one, as neighbours       10.8   4.4   from the second level
//   one, joint                5.5     -   six heads fill a tile by themselves
//
// Invariants:
//   1. Each pair meets each of its spans in exactly one task, in ascending order of tasks.
//   2. The tiles of a pair are in one unit, and a unit is in one group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention_job.h"

namespace quire {

struct AttentionTile {
  // Of the job. Several: a joint tile, each with its only row; otherwise pairs of this one.
  std::span<const int> sequences;
  int kv_head = 0;
  int first_pair = 0;  // row of the sequence * heads of the key head + head within it
  int num_pairs = 0;   // 1..kMaxSpanQueries
  int first_span = 0;
  int end_span = 0;       // may be first_span: nothing left behind a joint tile
  size_t first_task = 0;  // tasks are the spans of all tiles, in order

  size_t end_task() const { return first_task + (end_span - first_span); }
};

// A tile, or a joint tile and then one of each of its sequences.
struct AttentionUnit {
  size_t first_tile = 0;
  size_t end_tile = 0;
};

// Neighbouring units that a thread attends together, span by span.
struct AttentionGroup {
  size_t first_tile = 0;
  size_t end_tile = 0;
  int64_t num_spans = 0;  // of all its tiles
};

// Reuses its memory from step to step. One thread at a time may call Cut.
class AttentionTiles {
 public:
  static constexpr size_t kMaxGroupTiles = 8;

  // The job's sequences and tables stay as they are for as long as the tiles are used.
  void Cut(const AttentionJob& job, size_t num_threads);

  std::span<const AttentionTile> tiles() const { return tiles_; }
  std::span<const AttentionUnit> units() const { return units_; }
  std::span<const AttentionGroup> groups() const { return groups_; }  // the longest first
  size_t num_tasks() const { return num_tasks_; }

  size_t bytes() const;  // of memory

  // Index of the tile of a task, and of the unit of a tile.
  size_t TileOf(size_t task) const;
  size_t UnitOf(size_t tile) const;

 private:
  void OrderSequences(const AttentionJob& job);
  void FindShared(const AttentionJob& job);
  int SequencesInUnit(const AttentionJob& job, size_t place) const;
  void AddSequence(const AttentionJob& job, size_t place, int kv_head);
  void AddJoint(const AttentionJob& job, size_t place, size_t count, int kv_head);
  void AddTile(AttentionTile tile);
  void CutGroups(const AttentionJob& job, size_t num_threads);

  std::vector<int> order_;       // [num_sequences] indexes, sharers of blocks side by side
  std::vector<int> shared_end_;  // [num_sequences] past the last span shared with the one before
  std::vector<AttentionTile> tiles_;  // by key head, then in that order
  std::vector<AttentionUnit> units_;
  std::vector<AttentionGroup> groups_;
  size_t num_tasks_ = 0;
};

// Whether an entry of the block tables of two tiles names the same block.
bool ShareBlock(const AttentionJob& job, const AttentionTile& a, const AttentionTile& b, int entry);

}  // namespace quire
