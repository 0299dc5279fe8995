#include "kernels/attention.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace quire {
namespace {

constexpr int kSpanBlocks = kSpanKeys / kBlockSlots;
constexpr int kNoSpan = -1;
constexpr size_t kNoTile = ~size_t{0};

// Spans are the work of the threads, not groups of tiles, where the longest group is more than this
// part of a thread's share.
constexpr size_t kUnevenShare = 8;
// Partials that are kept before they are merged: 800 KiB of them at 128 dimensions.
constexpr size_t kWaveTasks = 256;

// Where the sums and values of a partial lie, behind its maxima.
constexpr size_t kSumsOffset = 8;
constexpr size_t kValuesOffset = 16;
static_assert(kMaxSpanQueries <= 8);

// A partial: maxima, sums and values of the tile's queries in one span.
size_t PartialFloats(int value_dim) {
  return (kValuesOffset + static_cast<size_t>(kMaxSpanQueries) * value_dim + 15) / 16 * 16;
}

}  // namespace

// One Run: its arguments and what follows from them. Stateless; shared by the threads.
class Attention::Step {
 public:
  Step(const KernelSet& kernels, const AttentionJob& job)
      : kernels_(kernels), job_(job), layer_(job.kv_layer()), heads_per_kv_(job.heads_per_kv()) {}

  int heads_per_kv() const { return heads_per_kv_; }
  size_t partial_floats() const { return PartialFloats(layer_.value_dim); }
  // Floats that Pack may write: for q8_0 scaled rows, and then the bytes and scales made of them.
  size_t query_floats() const {
    const size_t rows = (static_cast<size_t>(kMaxSpanQueries) * layer_.key_dim + 15) / 16 * 16;
    return quantized() ? 2 * rows : rows;
  }

  // packed [key_dim][num_pairs] <- the tile's queries, scaled; for q8_0 they are quantised.
  void Pack(const AttentionTile& tile, float* packed) const {
    const size_t pair_stride = quantized() ? layer_.key_dim : 1;
    const size_t dim_stride = quantized() ? 1 : tile.num_pairs;
    for (int pair = 0; pair < tile.num_pairs; ++pair) {
      const size_t row = SequenceOf(tile, pair).first_row + RowInSequence(tile, pair);
      const float* query = job_.queries + row * job_.query_stride +
                           static_cast<size_t>(HeadOf(tile, pair)) * layer_.key_dim;
      for (int d = 0; d < layer_.key_dim; ++d) {
        packed[pair * pair_stride + d * dim_stride] = query[d] * job_.scale;
      }
    }
    if (!quantized()) return;
    QuantizedRows rows = QuantizedQueries(tile, packed);
    // Rows that overflow when scaled have no scores to speak of: zeros, the same everywhere.
    if (!kernels_.quantize_rows(packed, layer_.key_dim, &rows)) {
      std::memset(rows.quants, 0, query_floats() / 2 * sizeof(float));
    }
  }

  // `totals` [totals_floats()]: those of all queries.
  Pair PairOf(const AttentionTile& tile, int pair, float* totals) const {
    const KvSequence& sequence = SequenceOf(tile, pair);
    const int row_in_sequence = RowInSequence(tile, pair);
    const size_t row = sequence.first_row + row_in_sequence;
    const size_t head = HeadOf(tile, pair);
    return {.keys = KeysAttended(job_, sequence.first_position + row_in_sequence),
            .out = job_.out + row * job_.out_stride + head * layer_.value_dim,
            .totals = totals + 2 * (row * job_.num_heads + head)};
  }
  void FindPairs(const AttentionTile& tile, float* totals, TilePairs& pairs) const {
    for (int pair = 0; pair < tile.num_pairs; ++pair) pairs[pair] = PairOf(tile, pair, totals);
  }

  // partial <- the tile's queries over one span. The keys of `next_span` are brought near
  // meanwhile; kNoSpan for none.
  void Attend(const AttentionTile& tile, const TilePairs& pairs, int span, int next_span,
              float* packed, float* partial) const {
    int first_key[kMaxSpanQueries];
    int end_key[kMaxSpanQueries];
    KeyRange all = pairs[0].keys;
    for (int pair = 0; pair < tile.num_pairs; ++pair) {
      const KeyRange keys = pairs[pair].keys;
      const KeyRange range = InSpan(keys, span);
      first_key[pair] = range.first;
      end_key[pair] = range.end;
      all = {std::min(all.first, keys.first), std::max(all.end, keys.end)};
    }
    const std::byte* key_blocks[kSpanBlocks] = {};
    const std::byte* value_blocks[kSpanBlocks] = {};
    const std::byte* next_key_blocks[kSpanBlocks] = {};
    const auto value_distance =
        static_cast<ptrdiff_t>(HeadBytes(tile, layer_.value_offset, layer_.value_dim)) -
        static_cast<ptrdiff_t>(HeadBytes(tile, layer_.key_offset, layer_.key_dim));
    const KeyRange blocks = FindKeyBlocks(tile, InSpan(all, span), span, key_blocks);
    for (int i = blocks.first; i < blocks.end; ++i) {
      value_blocks[i] = key_blocks[i] + value_distance;
    }
    if (next_span != kNoSpan) {
      FindKeyBlocks(tile, InSpan(all, next_span), next_span, next_key_blocks);
    }
    const QuantizedRows rows = quantized() ? QuantizedQueries(tile, packed) : QuantizedRows{};
    kernels_.attend_span({.queries = packed,
                          .quantized = &rows,
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
                          .values = partial + kValuesOffset});
  }

  size_t totals_floats() const {
    int num_rows = 0;
    for (const KvSequence& sequence : job_.sequences) {
      num_rows = std::max(num_rows, sequence.first_row + sequence.num_rows);
    }
    return 2 * static_cast<size_t>(num_rows) * job_.num_heads;
  }

  // Folds the partial of a span into the totals and the out row of one query, the tile's idx-th.
  void MergePair(const Pair& pair, int idx, int span, const float* partial) const {
    if (!Attends(pair, span)) return;
    const float* span_values =
        partial + kValuesOffset + static_cast<size_t>(idx) * layer_.value_dim;
    if (span == pair.keys.first / kSpanKeys) {
      pair.totals[0] = partial[idx];
      pair.totals[1] = partial[kSumsOffset + idx];
      std::copy_n(span_values, layer_.value_dim, pair.out);
    } else {
      kernels_.merge_span({.num_queries = 1,
                           .value_dim = layer_.value_dim,
                           .span_maxima = partial + idx,
                           .span_sums = partial + kSumsOffset + idx,
                           .span_values = span_values,
                           .maxima = &pair.totals[0],
                           .sums = &pair.totals[1],
                           .values = &pair.out});
    }
    FinishAtEnd(pair, span);
  }

  // The same for all queries of the tile: at once, where each has begun before.
  void MergeTile(const AttentionTile& tile, const TilePairs& pairs, int span,
                 const float* partial) const {
    bool at_once = true;
    for (int i = 0; i < tile.num_pairs; ++i) {
      at_once &= Attends(pairs[i], span) && span != pairs[i].keys.first / kSpanKeys;
    }
    if (!at_once) {
      for (int i = 0; i < tile.num_pairs; ++i) MergePair(pairs[i], i, span, partial);
      return;
    }
    float maxima[kMaxSpanQueries];
    float sums[kMaxSpanQueries];
    float* values[kMaxSpanQueries];
    for (int i = 0; i < tile.num_pairs; ++i) {
      maxima[i] = pairs[i].totals[0];
      sums[i] = pairs[i].totals[1];
      values[i] = pairs[i].out;
    }
    kernels_.merge_span({.num_queries = tile.num_pairs,
                         .value_dim = layer_.value_dim,
                         .span_maxima = partial,
                         .span_sums = partial + kSumsOffset,
                         .span_values = partial + kValuesOffset,
                         .maxima = maxima,
                         .sums = sums,
                         .values = values});
    for (int i = 0; i < tile.num_pairs; ++i) {
      pairs[i].totals[0] = maxima[i];
      pairs[i].totals[1] = sums[i];
      FinishAtEnd(pairs[i], span);
    }
  }

  // Whether two tiles read the same keys and values in a span.
  bool ShareSpan(const AttentionTile& a, const AttentionTile& b, int span) const {
    return span >= b.first_span && span < b.end_span && ShareBlock(job_, a, b, span * kSpanBlocks);
  }

 private:
  bool quantized() const { return job_.kv->type == KvType::kQ8_0; }
  // The quantised queries in the second half of what Pack writes.
  QuantizedRows QuantizedQueries(const AttentionTile& tile, float* packed) const {
    float* half = packed + query_floats() / 2;
    const size_t elements = static_cast<size_t>(kMaxSpanQueries) * layer_.key_dim;
    const size_t groups = elements / kGroupColumns;
    float* scales = half + elements / sizeof(float);
    return {.num_rows = tile.num_pairs,
            .num_cols = layer_.key_dim,
            .quants = reinterpret_cast<int8_t*>(half),
            .scales = scales,
            .scaled_sums = scales + groups,
            .negated_sums = reinterpret_cast<int32_t*>(scales + 2 * groups)};
  }

  // The sequence of a pair, and its row there.
  const KvSequence& SequenceOf(const AttentionTile& tile, int pair) const {
    return job_.sequences[tile.sequences[tile.sequences.size() == 1 ? 0 : pair / heads_per_kv_]];
  }
  int RowInSequence(const AttentionTile& tile, int pair) const {
    return tile.sequences.size() == 1 ? (tile.first_pair + pair) / heads_per_kv_ : 0;
  }
  int HeadOf(const AttentionTile& tile, int pair) const {
    return tile.kv_head * heads_per_kv_ + (tile.first_pair + pair) % heads_per_kv_;
  }
  // Keys counted from the start of the span.
  static KeyRange InSpan(KeyRange keys, int span) {
    const int start = span * kSpanKeys;
    return {std::clamp(keys.first - start, 0, kSpanKeys),
            std::clamp(keys.end - start, 0, kSpanKeys)};
  }

  static bool Attends(const Pair& pair, int span) {
    return pair.keys.first < (span + 1) * kSpanKeys && pair.keys.end > span * kSpanKeys;
  }
  void FinishAtEnd(const Pair& pair, int span) const {
    if (pair.keys.end > (span + 1) * kSpanKeys) return;
    kernels_.finish_attention(pair.out, pair.totals[1], layer_.value_dim);
  }

  // Where the keys or values of the tile's head lie in a block.
  size_t HeadBytes(const AttentionTile& tile, size_t offset, int dim) const {
    return offset + tile.kv_head * KvBytes(job_.kv->type, static_cast<size_t>(dim) * kBlockSlots);
  }

  // blocks [kSpanBlocks] <- the head's keys in those blocks that hold `keys`, counted from the
  // start of the span; returns which these are.
  KeyRange FindKeyBlocks(const AttentionTile& tile, KeyRange keys, int span,
                         const std::byte** blocks) const {
    if (keys.first == keys.end) return {};
    const size_t offset = HeadBytes(tile, layer_.key_offset, layer_.key_dim);
    const std::span<const int32_t> table = job_.TableOf(tile.sequences[0]);
    const KeyRange range = {keys.first / kBlockSlots, (keys.end - 1) / kBlockSlots + 1};
    for (int i = range.first; i < range.end; ++i) {
      const int32_t block = table[span * kSpanBlocks + i];
      QUIRE_CHECK(block != kNoBlock, "block {} is attended and not there", span * kSpanBlocks + i);
      blocks[i] = job_.kv->Block(block) + offset;
    }
    return range;
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

size_t Attention::scratch_bytes() const {
  size_t bytes = tiles_.bytes() + totals_.bytes() + partials_.bytes() +
                 wave_order_.capacity() * sizeof(wave_order_[0]);
  for (const ThreadScratch& thread : threads_)
    bytes += thread.queries.bytes() + thread.partials.bytes();
  return bytes;
}

// Whether threads that take whole groups end at about the same time: the longest group is the most
// that one may be late.
bool Attention::GroupsAreEven(size_t num_threads) const {
  return static_cast<size_t>(tiles_.groups().front().num_spans) * num_threads * kUnevenShare <=
         tiles_.num_tasks();
}

// Many tiles: a thread takes a group of them from its first span to its last, so that a span's keys
// and values are read from memory once and from the second-level cache by the other tiles.
void Attention::RunTileGroups(const Step& step, ThreadPool& pool) {
  constexpr size_t kMaxTiles = AttentionTiles::kMaxGroupTiles;
  float* totals = totals_.Reserve(step.totals_floats());
  pool.ParallelFor(tiles_.groups().size(), 1, [&](size_t begin, size_t, int thread_idx) {
    const AttentionGroup& group = tiles_.groups()[begin];
    const std::span<const AttentionTile> tiles =
        tiles_.tiles().subspan(group.first_tile, group.end_tile - group.first_tile);
    ThreadScratch& scratch = threads_[thread_idx];
    float* queries = scratch.queries.Reserve(kMaxTiles * step.query_floats());
    float* partial = scratch.partials.Reserve(2 * step.partial_floats());
    float* unmerged = partial + step.partial_floats();
    // A partial is merged behind the next task, when the last of its sums has long been stored.
    size_t unmerged_tile = kNoTile;
    int unmerged_span = kNoSpan;
    const auto merge = [&] {
      if (unmerged_tile == kNoTile) return;
      step.MergeTile(tiles[unmerged_tile], scratch.pairs[unmerged_tile], unmerged_span, unmerged);
    };
    int first_span = tiles.front().first_span;
    int end_span = 0;
    for (size_t t = 0; t < tiles.size(); ++t) {
      step.Pack(tiles[t], queries + t * step.query_floats());
      step.FindPairs(tiles[t], totals, scratch.pairs[t]);
      first_span = std::min(first_span, tiles[t].first_span);
      end_span = std::max(end_span, tiles[t].end_span);
    }
    for (int span = first_span; span < end_span; ++span) {
      for (size_t t = 0; t < tiles.size(); ++t) {
        if (span < tiles[t].first_span || span >= tiles[t].end_span) continue;
        // Where the next tile reads the same blocks, it is the one to look ahead.
        const bool last = t + 1 == tiles.size() || !step.ShareSpan(tiles[t], tiles[t + 1], span);
        step.Attend(tiles[t], scratch.pairs[t], span,
                    last && span + 1 < tiles[t].end_span ? span + 1 : kNoSpan,
                    queries + t * step.query_floats(), partial);
        merge();
        std::swap(partial, unmerged);
        unmerged_tile = t;
        unmerged_span = span;
      }
    }
    merge();
  });
}

// Tiles of one sequence and key head read the same keys: their tasks of one span stand side by
// side, so that one thread reads the span from memory and then from its second-level cache.
void Attention::OrderWave(size_t wave, size_t wave_end) {
  wave_order_.clear();
  const std::span<const AttentionTile> tiles = tiles_.tiles();
  const size_t end_tile = tiles_.TileOf(wave_end - 1) + 1;
  for (size_t first = tiles_.TileOf(wave); first < end_tile;) {
    size_t end = first + 1;
    int first_span = tiles[first].first_span;
    int end_span = tiles[first].end_span;
    while (end < end_tile && end - first < AttentionTiles::kMaxGroupTiles &&
           tiles[end].kv_head == tiles[first].kv_head &&
           tiles[end].sequences[0] == tiles[first].sequences[0]) {
      first_span = std::min(first_span, tiles[end].first_span);
      end_span = std::max(end_span, tiles[end].end_span);
      ++end;
    }
    for (int span = first_span; span < end_span; ++span) {
      for (size_t t = first; t < end; ++t) {
        if (span < tiles[t].first_span || span >= tiles[t].end_span) continue;
        const size_t task = tiles[t].first_task + (span - tiles[t].first_span);
        if (task >= wave && task < wave_end) wave_order_.push_back(static_cast<uint32_t>(task));
      }
    }
    first = end;
  }
}

// Few or uneven tiles: the threads take spans, a wave at a time, and a wave's partials are merged
// in order.
void Attention::RunSpans(const Step& step, ThreadPool& pool) {
  constexpr size_t kMaxTiles = AttentionTiles::kMaxGroupTiles;
  const size_t num_tasks = tiles_.num_tasks();
  const size_t partial_floats = step.partial_floats();
  float* partials = partials_.Reserve(std::min(num_tasks, kWaveTasks) * partial_floats);
  float* totals = totals_.Reserve(step.totals_floats());
  // Some neighbouring tasks a piece, of which all but the first are prefetched.
  const size_t pieces = 4 * static_cast<size_t>(pool.num_threads());
  const size_t grain = std::clamp<size_t>(std::min(num_tasks, kWaveTasks) / pieces, 1, 8);
  const auto span_of = [](const AttentionTile& tile, size_t task) {
    return tile.first_span + static_cast<int>(task - tile.first_task);
  };
  for (size_t wave = 0; wave < num_tasks; wave += kWaveTasks) {
    const size_t wave_end = std::min(num_tasks, wave + kWaveTasks);
    OrderWave(wave, wave_end);
    pool.ParallelFor(wave_order_.size(), grain, [&](size_t begin, size_t end, int thread_idx) {
      ThreadScratch& scratch = threads_[thread_idx];
      float* queries = scratch.queries.Reserve(kMaxTiles * step.query_floats());
      for (size_t i = begin; i < end; ++i) {
        const size_t task = wave_order_[i];
        const size_t tile_idx = tiles_.TileOf(task);
        const AttentionTile& tile = tiles_.tiles()[tile_idx];
        const size_t place = tile_idx % kMaxTiles;
        float* packed = queries + place * step.query_floats();
        if (scratch.packed[place] != tile_idx) {
          step.Pack(tile, packed);
          step.FindPairs(tile, totals, scratch.pairs[place]);
        }
        scratch.packed[place] = tile_idx;
        int next_span = kNoSpan;
        if (i + 1 < end) {
          const AttentionTile& next = tiles_.tiles()[tiles_.TileOf(wave_order_[i + 1])];
          const bool same_keys =
              next.kv_head == tile.kv_head && next.sequences[0] == tile.sequences[0];
          const int span = span_of(next, wave_order_[i + 1]);
          if (same_keys && span != span_of(tile, task) && span < tile.end_span) next_span = span;
        }
        step.Attend(tile, scratch.pairs[place], span_of(tile, task), next_span, packed,
                    partials + (task - wave) * partial_floats);
      }
    });
    const auto merge = [&](const AttentionTile& tile, int idx) {
      const Pair pair = step.PairOf(tile, idx, totals);
      const size_t end = std::min(wave_end, tile.end_task());
      for (size_t task = std::max(wave, tile.first_task); task < end; ++task) {
        const int span = tile.first_span + static_cast<int>(task - tile.first_task);
        step.MergePair(pair, idx, span, partials + (task - wave) * partial_floats);
      }
    };
    // By unit, for the tiles of a pair have to be merged in order.
    const size_t first_unit = tiles_.UnitOf(tiles_.TileOf(wave));
    const size_t num_units = tiles_.UnitOf(tiles_.TileOf(wave_end - 1)) + 1 - first_unit;
    pool.ParallelFor(
        num_units * kMaxSpanQueries, kMaxSpanQueries / 2, [&](size_t begin, size_t end, int) {
          for (size_t i = begin; i < end; ++i) {
            const AttentionUnit& unit = tiles_.units()[first_unit + i / kMaxSpanQueries];
            const AttentionTile& tile = tiles_.tiles()[unit.first_tile];
            const int pair = static_cast<int>(i % kMaxSpanQueries);
            if (pair >= tile.num_pairs) continue;
            merge(tile, pair);
            if (tile.sequences.size() == 1) continue;
            const int heads = step.heads_per_kv();
            merge(tiles_.tiles()[unit.first_tile + 1 + pair / heads], pair % heads);
          }
        });
  }
}

void Attention::Run(const KernelSet& kernels, ThreadPool& pool, const AttentionJob& job) {
  const KvLayer& layer = job.kv_layer();
  QUIRE_CHECK(layer.num_kv_heads > 0 && job.num_heads % layer.num_kv_heads == 0,
              "{} heads over {} key heads", job.num_heads, layer.num_kv_heads);
  const size_t num_threads = static_cast<size_t>(pool.num_threads());
  tiles_.Cut(job, num_threads);
  if (tiles_.num_tasks() == 0) return;
  if (threads_.size() < num_threads) threads_.resize(num_threads);
  for (ThreadScratch& scratch : threads_) scratch.packed.fill(kNoTile);
  const Step step(kernels, job);
  if (GroupsAreEven(num_threads)) {
    RunTileGroups(step, pool);
  } else {
    RunSpans(step, pool);
  }
}

}  // namespace quire
