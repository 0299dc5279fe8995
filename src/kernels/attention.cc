#include "kernels/attention.h"

#include <algorithm>

#include "base/check.h"

namespace quire {
namespace {

constexpr int kSpanBlocks = kSpanKeys / kBlockSlots;
constexpr int kNoSpan = -1;

// Tiles of a group are attended span by span, so that a span's keys and values are read from memory
// once and from the second-level cache by the other tiles.
constexpr size_t kMaxGroupTiles = 8;
// Below so many tiles a thread, spans are the work of the threads, not groups of tiles.
constexpr size_t kTilesPerThread = 16;
// Partials that are kept before they are merged: 800 KiB of them at 128 dimensions.
constexpr size_t kWaveTasks = 256;

// What a tile keeps between spans: maxima and sums of its queries.
constexpr size_t kTotalFloats = 16;
constexpr size_t kSumsOffset = 8;
static_assert(kMaxSpanQueries <= 8);

// A partial: maxima, sums and values of the tile's queries in one span.
size_t PartialFloats(int value_dim) {
  return (kTotalFloats + static_cast<size_t>(kMaxSpanQueries) * value_dim + 15) / 16 * 16;
}

struct KeyRange {
  int first = 0;
  int end = 0;
};

// Keys that the query at a position attends.
KeyRange KeysOf(int position, int window) {
  return {window > 0 ? std::max(0, position - window + 1) : 0, position + 1};
}

}  // namespace

// One Run: its arguments and what follows from them. Stateless; shared by the threads.
class Attention::Step {
 public:
  Step(const KernelSet& kernels, const AttentionJob& job)
      : kernels_(kernels),
        job_(job),
        layer_(job.kv->layers[job.layer]),
        heads_per_kv_(job.num_heads / layer_.num_kv_heads) {}

  size_t partial_floats() const { return PartialFloats(layer_.value_dim); }
  size_t query_floats() const {
    return (static_cast<size_t>(kMaxSpanQueries) * layer_.key_dim + 15) / 16 * 16;
  }

  // packed [key_dim][num_pairs] <- the tile's queries, scaled.
  void Pack(const Tile& tile, float* packed) const {
    for (int pair = 0; pair < tile.num_pairs; ++pair) {
      const float* query = job_.queries + RowOf(tile, pair) * job_.query_stride +
                           static_cast<size_t>(HeadOf(tile, pair)) * layer_.key_dim;
      for (int d = 0; d < layer_.key_dim; ++d) {
        packed[static_cast<size_t>(d) * tile.num_pairs + pair] = query[d] * job_.scale;
      }
    }
  }

  // partial <- the tile's queries over one span. The keys of `next_span` are brought near
  // meanwhile; kNoSpan for none.
  void Attend(const Tile& tile, int span, int next_span, const float* packed,
              float* partial) const {
    int first_key[kMaxSpanQueries];
    int end_key[kMaxSpanQueries];
    for (int pair = 0; pair < tile.num_pairs; ++pair) {
      const KeyRange range = KeysInSpan(tile, pair, span);
      first_key[pair] = range.first;
      end_key[pair] = range.end;
    }
    const std::byte* key_blocks[kSpanBlocks] = {};
    const std::byte* value_blocks[kSpanBlocks] = {};
    const std::byte* next_key_blocks[kSpanBlocks] = {};
    FindBlocks(tile, span, HeadBytes(tile, layer_.key_offset, layer_.key_dim), key_blocks);
    FindBlocks(tile, span, HeadBytes(tile, layer_.value_offset, layer_.value_dim), value_blocks);
    if (next_span != kNoSpan) {
      FindBlocks(tile, next_span, HeadBytes(tile, layer_.key_offset, layer_.key_dim),
                 next_key_blocks);
    }
    kernels_.attend_span({.queries = packed,
                          .num_queries = tile.num_pairs,
                          .key_dim = layer_.key_dim,
                          .value_dim = layer_.value_dim,
                          .type = job_.kv->type,
                          .key_blocks = key_blocks,
                          .value_blocks = value_blocks,
                          .next_key_blocks = next_key_blocks,
                          .first_key = first_key,
                          .end_key = end_key,
                          .maxima = partial,
                          .sums = partial + kSumsOffset,
                          .values = partial + kTotalFloats});
  }

  // Folds the partial of a span into the totals and the out row of one query.
  void Merge(const Tile& tile, int pair, int span, const float* partial, float* totals) const {
    const KeyRange in_span = KeysInSpan(tile, pair, span);
    if (in_span.first == in_span.end) return;
    float& maximum = totals[pair];
    float& sum = totals[kSumsOffset + pair];
    float* values = Out(tile, pair);
    const float* span_values =
        partial + kTotalFloats + static_cast<size_t>(pair) * layer_.value_dim;
    if (span == KeysOfPair(tile, pair).first / kSpanKeys) {
      maximum = partial[pair];
      sum = partial[kSumsOffset + pair];
      std::copy_n(span_values, layer_.value_dim, values);
      return;
    }
    kernels_.merge_span(&maximum, &sum, values, partial[pair], partial[kSumsOffset + pair],
                        span_values, layer_.value_dim);
  }

  void Finish(const Tile& tile, int pair, const float* totals) const {
    kernels_.finish_attention(Out(tile, pair), totals[kSumsOffset + pair], layer_.value_dim);
  }

 private:
  const KvSequence& SequenceOf(const Tile& tile) const { return job_.sequences[tile.sequence_idx]; }
  size_t RowOf(const Tile& tile, int pair) const {
    return SequenceOf(tile).first_row + (tile.first_pair + pair) / heads_per_kv_;
  }
  int HeadOf(const Tile& tile, int pair) const {
    return tile.kv_head * heads_per_kv_ + (tile.first_pair + pair) % heads_per_kv_;
  }
  float* Out(const Tile& tile, int pair) const {
    return job_.out + RowOf(tile, pair) * job_.out_stride +
           static_cast<size_t>(HeadOf(tile, pair)) * layer_.value_dim;
  }
  KeyRange KeysOfPair(const Tile& tile, int pair) const {
    const int row = (tile.first_pair + pair) / heads_per_kv_;
    return KeysOf(SequenceOf(tile).first_position + row, job_.window);
  }
  // The same, counted from the start of the span.
  KeyRange KeysInSpan(const Tile& tile, int pair, int span) const {
    const KeyRange keys = KeysOfPair(tile, pair);
    const int start = span * kSpanKeys;
    return {std::clamp(keys.first - start, 0, kSpanKeys),
            std::clamp(keys.end - start, 0, kSpanKeys)};
  }

  // Where the keys or values of the tile's head lie in a block.
  size_t HeadBytes(const Tile& tile, size_t offset, int dim) const {
    return offset +
           static_cast<size_t>(tile.kv_head) * kBlockSlots * dim * ElementBytes(job_.kv->type);
  }

  // blocks [kSpanBlocks]: those of the span that hold an attended key; rows are consecutive, so
  // that the first pair has the first key and the last pair the last.
  void FindBlocks(const Tile& tile, int span, size_t offset, const std::byte** blocks) const {
    const int first = KeysInSpan(tile, 0, span).first;
    const int end = KeysInSpan(tile, tile.num_pairs - 1, span).end;
    const std::span<const int32_t> table = SequenceOf(tile).block_tables[layer_.group];
    for (int i = first / kBlockSlots; i * kBlockSlots < end; ++i) {
      blocks[i] = job_.kv->Block(table[span * kSpanBlocks + i]) + offset;
    }
  }

  const KernelSet& kernels_;
  const AttentionJob& job_;
  const KvLayer& layer_;
  int heads_per_kv_;
};

float* Attention::Floats::Reserve(size_t count) {
  if (count > capacity_) {
    data_.reset();
    capacity_ = 0;
    data_.reset(static_cast<float*>(::operator new(count * sizeof(float), std::align_val_t{64})));
    capacity_ = count;
  }
  return data_.get();
}

// Returns the number of tasks: the spans of all tiles.
size_t Attention::CutTiles(const AttentionJob& job) {
  const KvLayer& layer = job.kv->layers[job.layer];
  const int heads_per_kv = job.num_heads / layer.num_kv_heads;
  tiles_.clear();
  size_t num_tasks = 0;
  for (size_t i = 0; i < job.sequences.size(); ++i) {
    const KvSequence& sequence = job.sequences[i];
    const int end_position = sequence.first_position + sequence.num_rows;
    QUIRE_CHECK(sequence.block_tables[layer.group].size() * kBlockSlots >=
                    static_cast<size_t>(end_position),
                "{} positions in a table of {} blocks", end_position,
                sequence.block_tables[layer.group].size());
    const int num_pairs = sequence.num_rows * heads_per_kv;
    for (int kv_head = 0; kv_head < layer.num_kv_heads; ++kv_head) {
      int pairs_left = num_pairs;
      for (int pair = 0; pair < num_pairs;) {
        // Even sizes: 7 pairs are 4 and 3, not 6 and 1.
        const int tiles_left = (pairs_left + kMaxSpanQueries - 1) / kMaxSpanQueries;
        const int count = (pairs_left + tiles_left - 1) / tiles_left;
        const auto keys_of = [&](int p) {
          return KeysOf(sequence.first_position + p / heads_per_kv, job.window);
        };
        Tile tile{.sequence_idx = static_cast<int>(i),
                  .kv_head = kv_head,
                  .first_pair = pair,
                  .num_pairs = count,
                  .first_span = keys_of(pair).first / kSpanKeys,
                  .end_span = (keys_of(pair + count - 1).end + kSpanKeys - 1) / kSpanKeys,
                  .first_task = num_tasks};
        num_tasks += tile.end_span - tile.first_span;
        tiles_.push_back(tile);
        pair += count;
        pairs_left -= count;
      }
    }
  }
  return num_tasks;
}

// Many tiles: a thread takes a group of them from its first span to its last.
void Attention::RunTileGroups(const Step& step, ThreadPool& pool) {
  const size_t num_threads = static_cast<size_t>(pool.num_threads());
  const size_t group_tiles =
      std::clamp<size_t>(tiles_.size() / (num_threads * 8), 1, kMaxGroupTiles);
  groups_.clear();
  for (size_t i = 0; i < tiles_.size(); ++i) {
    if (i == 0 || i - groups_.back() == group_tiles ||
        tiles_[i].sequence_idx != tiles_[i - 1].sequence_idx ||
        tiles_[i].kv_head != tiles_[i - 1].kv_head) {
      groups_.push_back(i);
    }
  }
  groups_.push_back(tiles_.size());
  pool.ParallelFor(groups_.size() - 1, 1, [&](size_t begin, size_t, int thread_idx) {
    // From the back: later rows attend more keys, and long pieces should not come last.
    const size_t group = groups_.size() - 2 - begin;
    const std::span<const Tile> tiles(tiles_.data() + groups_[group],
                                      groups_[group + 1] - groups_[group]);
    ThreadScratch& scratch = threads_[thread_idx];
    float* queries = scratch.queries.Reserve(kMaxGroupTiles * step.query_floats());
    float* partial = scratch.partials.Reserve(step.partial_floats());
    float totals[kMaxGroupTiles][kTotalFloats];
    for (size_t t = 0; t < tiles.size(); ++t) {
      step.Pack(tiles[t], queries + t * step.query_floats());
    }
    for (int span = tiles.front().first_span; span < tiles.back().end_span; ++span) {
      for (size_t t = 0; t < tiles.size(); ++t) {
        if (span < tiles[t].first_span || span >= tiles[t].end_span) continue;
        const bool prefetch = t + 1 == tiles.size() && span + 1 < tiles[t].end_span;
        step.Attend(tiles[t], span, prefetch ? span + 1 : kNoSpan,
                    queries + t * step.query_floats(), partial);
        for (int pair = 0; pair < tiles[t].num_pairs; ++pair) {
          step.Merge(tiles[t], pair, span, partial, totals[t]);
        }
      }
    }
    for (size_t t = 0; t < tiles.size(); ++t) {
      for (int pair = 0; pair < tiles[t].num_pairs; ++pair) {
        step.Finish(tiles[t], pair, totals[t]);
      }
    }
  });
}

// Few tiles: the threads take spans, a wave at a time, and a wave's partials are merged in order.
void Attention::RunSpans(const Step& step, ThreadPool& pool, size_t num_tasks) {
  const size_t partial_floats = step.partial_floats();
  float* partials = partials_.Reserve(std::min(num_tasks, kWaveTasks) * partial_floats);
  float* totals = totals_.Reserve(tiles_.size() * kTotalFloats);
  const auto tile_of = [&](size_t task) {
    return static_cast<size_t>(std::ranges::upper_bound(tiles_, task, {}, &Tile::first_task) -
                               tiles_.begin()) -
           1;
  };
  // Some consecutive spans a piece, of which all but the first are prefetched.
  const size_t pieces = 4 * static_cast<size_t>(pool.num_threads());
  const size_t grain = std::clamp<size_t>(std::min(num_tasks, kWaveTasks) / pieces, 1, 8);
  for (size_t wave = 0; wave < num_tasks; wave += kWaveTasks) {
    const size_t wave_end = std::min(num_tasks, wave + kWaveTasks);
    pool.ParallelFor(wave_end - wave, grain, [&](size_t begin, size_t end, int thread_idx) {
      ThreadScratch& scratch = threads_[thread_idx];
      float* queries = scratch.queries.Reserve(kMaxGroupTiles * step.query_floats());
      for (size_t i = begin; i < end; ++i) {
        const Tile& tile = tiles_[tile_of(wave + i)];
        if (scratch.packed != &tile) step.Pack(tile, queries);
        scratch.packed = &tile;
        const int span = tile.first_span + static_cast<int>(wave + i - tile.first_task);
        const bool prefetch = i + 1 < end && span + 1 < tile.end_span;
        step.Attend(tile, span, prefetch ? span + 1 : kNoSpan, queries,
                    partials + i * partial_floats);
      }
    });
    const size_t first_tile = tile_of(wave);
    const size_t num_tiles = tile_of(wave_end - 1) + 1 - first_tile;
    pool.ParallelFor(
        num_tiles * kMaxSpanQueries, kMaxSpanQueries / 2, [&](size_t begin, size_t end, int) {
          for (size_t i = begin; i < end; ++i) {
            const size_t tile_idx = first_tile + i / kMaxSpanQueries;
            const Tile& tile = tiles_[tile_idx];
            const int pair = static_cast<int>(i % kMaxSpanQueries);
            if (pair >= tile.num_pairs) continue;
            float* total = totals + tile_idx * kTotalFloats;
            const size_t tile_end = tile.first_task + (tile.end_span - tile.first_span);
            for (size_t task = std::max(wave, tile.first_task); task < std::min(wave_end, tile_end);
                 ++task) {
              const int span = tile.first_span + static_cast<int>(task - tile.first_task);
              step.Merge(tile, pair, span, partials + (task - wave) * partial_floats, total);
            }
            if (tile_end <= wave_end) step.Finish(tile, pair, total);
          }
        });
  }
}

void Attention::Run(const KernelSet& kernels, ThreadPool& pool, const AttentionJob& job) {
  const KvLayer& layer = job.kv->layers[job.layer];
  QUIRE_CHECK(layer.num_kv_heads > 0 && job.num_heads % layer.num_kv_heads == 0,
              "{} heads over {} key heads", job.num_heads, layer.num_kv_heads);
  const size_t num_tasks = CutTiles(job);
  if (tiles_.empty()) return;
  const size_t num_threads = static_cast<size_t>(pool.num_threads());
  if (threads_.size() < num_threads) threads_.resize(num_threads);
  for (ThreadScratch& scratch : threads_) scratch.packed = nullptr;
  const Step step(kernels, job);
  if (tiles_.size() < kTilesPerThread * num_threads) {
    RunSpans(step, pool, num_tasks);
  } else {
    RunTileGroups(step, pool);
  }
}

}  // namespace quire
