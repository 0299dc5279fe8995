// Attention over a paged cache: 12 heads of 128 dimensions over 2 key heads (the shape of a 1.5B
// model) or, in `mha`, 12; in `9x64` 9 heads of 64 over 3 (a 135M model's). `arith` is the share of
// what the arithmetic takes at the rates that registers reach (FMAs of the instruction set; in q8_0
// the best int8 products), `read` that of reading the blocks once, `GB/s` counts the keys and
// values of every row. All are per second of processor time, so that they hold on a machine that
// others use too. `in_turn` runs the same with f16 and with q8_0, one after the other:
// `q8_0_over_f16` is how many times as fast the latter is, the median of the pairs.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/huge_buffer.h"
#include "bench_main.h"
#include "kernels/attention.h"
#include "plan/machine_limits.h"

namespace quire::bench {
namespace {

struct Case {
  const char* name;
  int num_sequences;
  bool shared;     // whether the sequences read the same blocks, up to the last
  int num_rows;    // of each sequence, at its end
  int num_tokens;  // of each sequence
  int num_kv_heads = 2;
  int num_heads = 12;
  int dim = 128;
};

// Tables over a pool of blocks; each sequence has a last block of its own.
std::vector<std::vector<int32_t>> MakeTables(const Case& c) {
  const int num_blocks = c.num_tokens / kBlockSlots;
  const int num_tables = c.shared ? 1 : c.num_sequences;
  std::vector<int32_t> pool(num_tables * (num_blocks - 1) + c.num_sequences);
  std::iota(pool.begin(), pool.end(), 0);
  std::ranges::shuffle(pool, std::mt19937(1));
  std::vector<std::vector<int32_t>> tables(c.num_sequences);
  for (int i = 0; i < c.num_sequences; ++i) {
    const auto first = pool.begin() + (c.shared ? 0 : i * (num_blocks - 1));
    tables[i].assign(first, first + num_blocks - 1);
    tables[i].push_back(pool[num_tables * (num_blocks - 1) + i]);
  }
  return tables;
}

// One step of attention over a cache filled with noise.
class Rig {
 public:
  Rig(const KernelSet& kernels, const Case& c, KvType type, int num_threads)
      : kernels_(kernels), case_(c), type_(type), blocks_(MakeTables(c)), pool_(num_threads) {
    const size_t head_bytes = KvBytes(type, static_cast<size_t>(c.dim) * kBlockSlots);
    layer_ = {.num_kv_heads = c.num_kv_heads,
              .key_dim = c.dim,
              .value_dim = c.dim,
              .value_offset = c.num_kv_heads * head_bytes};
    const size_t block_bytes = 2 * c.num_kv_heads * head_bytes;
    size_t num_blocks = 0;
    for (const std::vector<int32_t>& table : blocks_) {
      for (const int32_t block : table) num_blocks = std::max(num_blocks, size_t(block) + 1);
    }
    memory_ = HugeBuffer::Allocate(num_blocks * block_bytes).value();
    kv_ = {
        .base = memory_.data(), .block_bytes = block_bytes, .type = type, .layers = {&layer_, 1}};
    Fill(num_blocks, head_bytes);
    tables_.assign(blocks_.begin(), blocks_.end());
    for (int i = 0; i < c.num_sequences; ++i) {
      sequences_.push_back({.first_row = i * c.num_rows,
                            .num_rows = c.num_rows,
                            .first_position = c.num_tokens - c.num_rows,
                            .block_tables = {&tables_[i], 1}});
    }
    const size_t num_rows = static_cast<size_t>(c.num_sequences) * c.num_rows;
    queries_.resize(num_rows * width());
    out_.resize(num_rows * width());
    std::mt19937 random(2);
    for (float& query : queries_) query = static_cast<float>(random() % 200) * 0.01f - 1.0f;
  }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  void Run() {
    attention_.Run(kernels_, pool_,
                   {.queries = queries_.data(),
                    .query_stride = width(),
                    .out = out_.data(),
                    .out_stride = width(),
                    .num_heads = case_.num_heads,
                    .scale = 1.0f / std::sqrt(static_cast<float>(case_.dim)),
                    .kv = &kv_,
                    .sequences = sequences_});
    benchmark::ClobberMemory();
  }

  double read_seconds() { return ReadSeconds(pool_, {kv_.base, memory_.size()}); }
  // Keys attended, over all rows.
  double keys() const {
    double keys = 0;
    for (int row = 0; row < case_.num_rows; ++row) {
      keys += case_.num_sequences * (case_.num_tokens - row);
    }
    return keys;
  }
  // Bytes of the keys and values of every row.
  double bytes() const {
    return keys() * 2 * case_.num_kv_heads * static_cast<double>(KvBytes(type_, case_.dim));
  }
  // Products of keys; there are as many of values.
  double products() const { return keys() * case_.num_heads * case_.dim; }

 private:
  size_t width() const { return static_cast<size_t>(case_.num_heads) * case_.dim; }

  void Fill(size_t num_blocks, size_t head_bytes) {
    std::mt19937 random(1);
    std::vector<float> head(case_.dim);
    for (size_t block = 0; block < num_blocks; ++block) {
      for (float& x : head) x = static_cast<float>(random() % 200) * 0.005f - 0.5f;
      for (int slot = 0; slot < kBlockSlots; ++slot) {
        for (int kv_head = 0; kv_head < layer_.num_kv_heads; ++kv_head) {
          std::byte* keys = kv_.Block(static_cast<int32_t>(block)) + kv_head * head_bytes;
          kernels_.store_key(head.data(), case_.dim, type_, slot, keys);
          kernels_.store_value(head.data(), case_.dim, type_, slot, keys + layer_.value_offset);
        }
      }
    }
  }

  const KernelSet& kernels_;
  const Case case_;
  const KvType type_;
  const std::vector<std::vector<int32_t>> blocks_;
  ThreadPool pool_;
  KvLayer layer_;
  HugeBuffer memory_;
  PagedKvView kv_;
  std::vector<std::span<const int32_t>> tables_;
  std::vector<KvSequence> sequences_;
  std::vector<float> queries_;
  std::vector<float> out_;
  Attention attention_;
};

void BM_Attention(benchmark::State& state, const KernelSet* kernels, Case c, KvType type,
                  int num_threads) {
  Rig rig(*kernels, c, type, num_threads);
  const ArithmeticPeaks peaks = MeasureArithmeticPeaks(kernels->name);
  const double fma_peak = peaks.f32_ops_per_second / 2;
  const double int8_peak = peaks.int8_ops_per_second / 2;
  const double read_before = rig.read_seconds();
  for (auto _ : state) rig.Run();
  const double read_seconds = std::min(read_before, rig.read_seconds());
  const double arithmetic_seconds =
      2 * rig.products() / (type == KvType::kQ8_0 ? int8_peak : fma_peak);
  using benchmark::Counter;
  const auto rate = [](double value) { return Counter(value, Counter::kIsIterationInvariantRate); };
  state.counters["arith"] = rate(arithmetic_seconds);
  state.counters["read"] = rate(read_seconds * num_threads);
  state.counters["GB/s"] = rate(rig.bytes() * 1e-9);
  state.counters["GOP/s"] = rate(4 * rig.products() * 1e-9);
}

// Both types in turn, so that what drifts drifts for both.
void BM_TypesInTurn(benchmark::State& state, const KernelSet* kernels, Case c, int num_threads) {
  Rig half(*kernels, c, KvType::kF16, num_threads);
  Rig bytes(*kernels, c, KvType::kQ8_0, num_threads);
  const auto seconds_of = [](Rig& rig) {
    const auto start = std::chrono::steady_clock::now();
    rig.Run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::vector<double> ratios;
  for (auto _ : state) {
    const double of_half = seconds_of(half);
    ratios.push_back(of_half / seconds_of(bytes));
  }
  std::ranges::sort(ratios);
  state.counters["q8_0_over_f16"] = ratios[ratios.size() / 2];
}

}  // namespace

void RegisterAll() {
  for (const Case& c :
       {Case{"decode/2048", 1, false, 1, 2048}, Case{"decode/8192", 1, false, 1, 8192},
        Case{"decode/16x4096", 16, false, 1, 4096},
        Case{"decode/16x4096_shared", 16, true, 1, 4096},
        Case{"decode/16x4096_mha", 16, false, 1, 4096, 12},
        Case{"decode/16x4096_mha_shared", 16, true, 1, 4096, 12},
        Case{"prefill/512", 1, false, 512, 512}, Case{"prefill/512_of_4096", 1, false, 512, 4096},
        Case{"prefill/2048_9x64", 1, false, 2048, 2048, 3, 9, 64}}) {
    for (const KernelSet* kernels : AvailableKernels()) {
      if (kernels->name == "reference") continue;
      for (const KvType type : kKvTypes) {
        for (const int num_threads : {1, 2}) {
          const std::string name = fmt::format("attention/{}/{}/{}/threads:{}", c.name,
                                               NameOf(type), kernels->name, num_threads);
          benchmark::RegisterBenchmark(name.c_str(), BM_Attention, kernels, c, type, num_threads)
              ->MeasureProcessCPUTime()
              ->MinTime(0.2)
              ->Unit(benchmark::kMicrosecond);
        }
      }
    }
  }
  for (const KernelSet* kernels : AvailableKernels()) {
    if (kernels->name == "reference") continue;
    for (const int num_threads : {1, 2}) {
      const std::string name =
          fmt::format("attention/in_turn/8192/{}/threads:{}", kernels->name, num_threads);
      benchmark::RegisterBenchmark(name.c_str(), BM_TypesInTurn, kernels,
                                   Case{"decode/8192", 1, false, 1, 8192}, num_threads)
          ->MeasureProcessCPUTime()
          ->MinTime(0.3)
          ->Unit(benchmark::kMicrosecond);
    }
  }
}

}  // namespace quire::bench
