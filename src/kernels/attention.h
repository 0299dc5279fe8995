// Attention of a step's rows over the paged KV cache: walks sequences, heads and spans, and leaves
// the arithmetic to the kernel set.
//
// Heads h of a layer share key head h / (num_heads / num_kv_heads). The (row, head) pairs of one
// sequence and one key head are cut into tiles of up to kMaxSpanQueries, which read a span once.
//
// Invariants:
//   1. A span of a tile is attended as a whole by one thread, and the spans of a query are merged
//      in ascending order: no result depends on threads, tiles, chunks or the batch.
//   2. Scratch grows with the rows of a step, never with the context.
//   3. Only blocks that hold an attended key are looked up and read.
// One thread at a time may call Run.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/kernel_set.h"
#include "tensor/paged_kv_view.h"

namespace quire {

struct AttentionJob {
  const float* queries = nullptr;  // [num_rows][num_heads * key_dim], query_stride apart, roped
  size_t query_stride = 0;         // floats
  float* out = nullptr;            // [num_rows][num_heads * value_dim], out_stride apart
  size_t out_stride = 0;           // floats
  int num_heads = 0;               // a multiple of the layer's num_kv_heads
  float scale = 1.0f;              // of the scores
  const PagedKvView* kv = nullptr;
  int layer = 0;
  int window = 0;  // position p attends (p - window, p]; 0 = all of 0..p
  std::span<const KvSequence> sequences;
};

class Attention {
 public:
  // The keys and values of the step's rows are stored already.
  void Run(const KernelSet& kernels, ThreadPool& pool, const AttentionJob& job);

 private:
  // Consecutive (row, head) pairs of one sequence and one key head.
  struct Tile {
    int sequence_idx = 0;
    int kv_head = 0;
    int first_pair = 0;  // row of the sequence * heads of the key head + head within it
    int num_pairs = 0;   // 1..kMaxSpanQueries
    int first_span = 0;  // the spans with an attended key
    int end_span = 0;
    size_t first_task = 0;  // tasks are the spans of all tiles, in order
  };

  // 64-byte aligned floats that only grow.
  class Floats {
   public:
    float* Reserve(size_t count);

   private:
    struct Deleter {
      void operator()(float* data) const { ::operator delete(data, std::align_val_t{64}); }
    };
    std::unique_ptr<float, Deleter> data_;
    size_t capacity_ = 0;
  };

  struct ThreadScratch {
    Floats queries;
    Floats partials;
    const Tile* packed = nullptr;  // the tile whose queries are there
  };

  class Step;

  size_t CutTiles(const AttentionJob& job);
  void RunTileGroups(const Step& step, ThreadPool& pool);
  void RunSpans(const Step& step, ThreadPool& pool, size_t num_tasks);

  std::vector<Tile> tiles_;
  std::vector<size_t> groups_;  // first tile of each group, and the end
  std::vector<ThreadScratch> threads_;
  Floats totals_;    // [num_tiles] totals, for RunSpans
  Floats partials_;  // [tasks of a wave] partials
};

}  // namespace quire
