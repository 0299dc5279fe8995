// Attention over a paged cache: 12 heads of 128 dimensions over 2 key heads (the shape of a 1.5B
// model) or, in `mha`, 12. `arith` is the share of what the arithmetic takes at the rates that
// registers reach (FMAs of the instruction set; for the keys of q8_0 the best int8 products),
// `read` that of reading the blocks once, `GB/s` counts the keys and values of every row. All are
// per second of processor time, so that they hold on a machine that others use too.
#include <benchmark/benchmark.h>
#include <immintrin.h>

#include <algorithm>
#include <ctime>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/huge_buffer.h"
#include "cli/bench/machine_limits.h"
#include "kernels/attention.h"

namespace quire {
namespace {

constexpr int kNumHeads = 12;
constexpr int kDim = 128;

constexpr int kChains = 12;
constexpr int kPeakRounds = 200'000;

// kChains * lanes FMAs a round; the sum keeps the compiler from dropping them.
__attribute__((target("avx512f"))) float FmaRounds512() {
  __m512 chains[kChains];
  for (int i = 0; i < kChains; ++i) chains[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512 factor = _mm512_set1_ps(0.999f);
  for (int round = 0; round < kPeakRounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) chains[i] = _mm512_fmadd_ps(chains[i], factor, factor);
  }
  float sum = 0;
  for (int i = 0; i < kChains; ++i) sum += _mm512_cvtss_f32(chains[i]);
  return sum;
}

__attribute__((target("avx2,fma"))) float FmaRounds256() {
  __m256 chains[kChains];
  for (int i = 0; i < kChains; ++i) chains[i] = _mm256_set1_ps(static_cast<float>(i));
  const __m256 factor = _mm256_set1_ps(0.999f);
  for (int round = 0; round < kPeakRounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) chains[i] = _mm256_fmadd_ps(chains[i], factor, factor);
  }
  float sum = 0;
  for (int i = 0; i < kChains; ++i) sum += _mm256_cvtss_f32(chains[i]);
  return sum;
}

double ThreadSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// FMAs a second of one thread; the best of some runs.
double PeakFmas(std::string_view set) {
  const bool wide = set == "avx512";
  double best = 0;
  for (int run = 0; run < 5; ++run) {
    const double start = ThreadSeconds();
    float sum = wide ? FmaRounds512() : FmaRounds256();
    benchmark::DoNotOptimize(sum);
    const double fmas = double{kChains} * (wide ? 16 : 8) * kPeakRounds;
    best = std::max(best, fmas / (ThreadSeconds() - start));
  }
  return best;
}

struct Case {
  const char* name;
  int num_sequences;
  bool shared;     // whether the sequences read the same blocks, up to the last
  int num_rows;    // of each sequence, at its end
  int num_tokens;  // of each sequence
  int num_kv_heads = 2;
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

void BM_Attention(benchmark::State& state, const KernelSet* kernels, Case c, KvType type,
                  int num_threads) {
  const size_t head_bytes = KvBytes(type, size_t{kDim} * kBlockSlots);
  const KvLayer layer{.num_kv_heads = c.num_kv_heads,
                      .key_dim = kDim,
                      .value_dim = kDim,
                      .value_offset = c.num_kv_heads * head_bytes};
  const size_t block_bytes = 2 * c.num_kv_heads * head_bytes;
  const std::vector<std::vector<int32_t>> blocks = MakeTables(c);
  size_t num_blocks = 0;
  for (const std::vector<int32_t>& table : blocks) {
    for (const int32_t block : table) num_blocks = std::max(num_blocks, size_t(block) + 1);
  }
  HugeBuffer memory = HugeBuffer::Allocate(num_blocks * block_bytes).value();
  const PagedKvView kv{
      .base = memory.data(), .block_bytes = block_bytes, .type = type, .layers = {&layer, 1}};
  std::mt19937 random(1);
  std::vector<float> head(kDim);
  for (size_t block = 0; block < num_blocks; ++block) {
    for (float& x : head) x = static_cast<float>(random() % 200) * 0.005f - 0.5f;
    for (int slot = 0; slot < kBlockSlots; ++slot) {
      for (int kv_head = 0; kv_head < c.num_kv_heads; ++kv_head) {
        std::byte* keys = kv.Block(static_cast<int32_t>(block)) + kv_head * head_bytes;
        kernels->store_key(head.data(), kDim, type, slot, keys);
        kernels->store_value(head.data(), kDim, type, slot, keys + layer.value_offset);
      }
    }
  }
  std::vector<std::span<const int32_t>> tables(blocks.begin(), blocks.end());
  std::vector<KvSequence> sequences;
  for (int i = 0; i < c.num_sequences; ++i) {
    sequences.push_back({.first_row = i * c.num_rows,
                         .num_rows = c.num_rows,
                         .first_position = c.num_tokens - c.num_rows,
                         .block_tables = {&tables[i], 1}});
  }
  constexpr size_t kWidth = size_t{kNumHeads} * kDim;
  const size_t num_rows = static_cast<size_t>(c.num_sequences) * c.num_rows;
  std::vector<float> queries(num_rows * kWidth);
  for (float& query : queries) query = static_cast<float>(random() % 200) * 0.01f - 1.0f;
  std::vector<float> out(num_rows * kWidth);

  ThreadPool pool(num_threads);
  Attention attention;
  const AttentionJob job{.queries = queries.data(),
                         .query_stride = kWidth,
                         .out = out.data(),
                         .out_stride = kWidth,
                         .num_heads = kNumHeads,
                         .scale = 0.088388348f,
                         .kv = &kv,
                         .sequences = sequences};
  const double fma_peak = PeakFmas(kernels->name);
  const double int8_peak = MeasureArithmeticPeaks().int8_ops_per_second / 2;
  const std::span<const std::byte> bytes(memory.data(), num_blocks * block_bytes);
  const double read_before = ReadSeconds(pool, bytes);
  for (auto _ : state) {
    attention.Run(*kernels, pool, job);
    benchmark::ClobberMemory();
  }
  const double read_seconds = std::min(read_before, ReadSeconds(pool, bytes));
  double keys = 0;  // attended, over all rows
  for (int row = 0; row < c.num_rows; ++row) keys += c.num_sequences * (c.num_tokens - row);
  const double products = keys * kNumHeads * kDim;  // of keys, and as many of values
  const double arithmetic_seconds =
      products / fma_peak + products / (type == KvType::kQ8_0 ? int8_peak : fma_peak);
  using benchmark::Counter;
  state.counters["arith"] = Counter(arithmetic_seconds, Counter::kIsIterationInvariantRate);
  state.counters["read"] = Counter(read_seconds * num_threads, Counter::kIsIterationInvariantRate);
  state.counters["GB/s"] =
      Counter(keys * 2 * c.num_kv_heads * static_cast<double>(KvBytes(type, kDim)) * 1e-9,
              Counter::kIsIterationInvariantRate);
}

void RegisterAll() {
  for (const Case& c :
       {Case{"decode/2048", 1, false, 1, 2048}, Case{"decode/8192", 1, false, 1, 8192},
        Case{"decode/16x4096", 16, false, 1, 4096},
        Case{"decode/16x4096_shared", 16, true, 1, 4096},
        Case{"decode/16x4096_mha", 16, false, 1, 4096, kNumHeads},
        Case{"decode/16x4096_mha_shared", 16, true, 1, 4096, kNumHeads},
        Case{"prefill/512", 1, false, 512, 512},
        Case{"prefill/512_of_4096", 1, false, 512, 4096}}) {
    for (const KernelSet* kernels : AvailableKernels()) {
      if (kernels->name == "reference") continue;
      for (const KvType type : kKvTypes) {
        for (const int num_threads : {1, 2}) {
          const std::string name = fmt::format("attention/{}/{}/{}/threads:{}", c.name,
                                               NameOf(type), kernels->name, num_threads);
          benchmark::RegisterBenchmark(name.c_str(), BM_Attention, kernels, c, type, num_threads)
              ->MeasureProcessCPUTime()
              ->Unit(benchmark::kMicrosecond);
        }
      }
    }
  }
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  quire::RegisterAll();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
