// Attention of a step's rows over the paged KV cache: walks tiles and spans (attention_tiles.h) and
// leaves the arithmetic to the kernel set.
//
// Heads h of a layer share key head h / (num_heads / num_kv_heads).
//
// Invariants:
//   1. A span of a tile is attended as a whole by one thread, and the spans of a query are merged
//      in ascending order: no result depends on threads, tiles, chunks or the batch.
//   2. Scratch grows with the rows of a step, never with the context.
//   3. Only blocks that hold an attended key are looked up and read.
// One thread at a time may call Run.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/attention_job.h"
#include "kernels/attention_tiles.h"
#include "kernels/kernel_set.h"

namespace quire {

class Attention {
 public:
  // The keys and values of the step's rows are stored already.
  void Run(const KernelSet& kernels, ThreadPool& pool, const AttentionJob& job);

  // Scratch of the largest step so far.
  size_t scratch_bytes() const;

 private:
  // 64-byte aligned floats that only grow.
  class Floats {
   public:
    float* Reserve(size_t count);
    size_t bytes() const { return capacity_ * sizeof(float); }

   private:
    struct Deleter {
      void operator()(float* data) const { ::operator delete(data, std::align_val_t{64}); }
    };
    std::unique_ptr<float, Deleter> data_;
    size_t capacity_ = 0;
  };

  // A pair of a tile: what it attends, its out row, and its maximum and sum so far.
  struct Pair {
    KeyRange keys;
    float* out = nullptr;
    float* totals = nullptr;
  };
  using TilePairs = std::array<Pair, kMaxSpanQueries>;

  struct ThreadScratch {
    Floats queries;
    Floats partials;
    std::array<size_t, AttentionTiles::kMaxGroupTiles> packed{};    // tiles whose queries are there
    std::array<TilePairs, AttentionTiles::kMaxGroupTiles> pairs{};  // of the same
  };

  class Step;

  bool GroupsAreEven(size_t num_threads) const;
  void RunTileGroups(const Step& step, ThreadPool& pool);
  void RunSpans(const Step& step, ThreadPool& pool);
  void OrderWave(size_t wave, size_t wave_end);

  AttentionTiles tiles_;
  std::vector<ThreadScratch> threads_;
  Floats totals_;    // [num_rows * num_heads][2]: maximum and sum of each query so far
  Floats partials_;  // [tasks of a wave] partials
  std::vector<uint32_t> wave_order_;  // the tasks of a wave, as the threads take them
};

}  // namespace quire
