// Attention over a paged cache: 12 heads of 128 dimensions over 2 key heads (the shape of a 1.5B
// model), f16. `fma_peak` is the share of the FMA rate that the instruction set reaches on
// registers, `GB/s` counts the keys and values of every row. Both are per second of processor time,
// so that they hold on a machine that others use too.
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
#include "kernels/attention.h"

namespace quire {
namespace {

constexpr int kNumHeads = 12;
constexpr int kNumKvHeads = 2;
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

// num_rows rows at the end of a sequence of num_tokens.
void BM_Attention(benchmark::State& state, const KernelSet* kernels, int num_rows, int num_tokens,
                  int num_threads) {
  const int num_blocks = num_tokens / kBlockSlots;
  const size_t head_bytes = size_t{kDim} * kBlockSlots * ElementBytes(KvType::kF16);
  const KvLayer layer{.num_kv_heads = kNumKvHeads,
                      .key_dim = kDim,
                      .value_dim = kDim,
                      .value_offset = kNumKvHeads * head_bytes};
  const size_t block_bytes = 2 * kNumKvHeads * head_bytes;
  HugeBuffer memory = HugeBuffer::Allocate(num_blocks * block_bytes).value();
  auto* halves = reinterpret_cast<uint16_t*>(memory.data());
  std::mt19937 random(1);
  for (size_t i = 0; i < memory.size() / 2; ++i) {
    halves[i] = static_cast<uint16_t>(0x3000 + (random() & 0x87ff));  // +-0.125 to 0.5
  }
  std::vector<int32_t> table(num_blocks);
  std::iota(table.begin(), table.end(), 0);
  std::ranges::shuffle(table, random);
  const std::span<const int32_t> tables[] = {table};
  const PagedKvView kv{.base = memory.data(), .block_bytes = block_bytes, .layers = {&layer, 1}};
  const KvSequence sequence{
      .num_rows = num_rows, .first_position = num_tokens - num_rows, .block_tables = tables};
  constexpr size_t kWidth = size_t{kNumHeads} * kDim;
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
                         .sequences = {&sequence, 1}};
  const double peak = PeakFmas(kernels->name);
  for (auto _ : state) {
    attention.Run(*kernels, pool, job);
    benchmark::ClobberMemory();
  }
  double keys = 0;  // attended, over all rows
  for (int row = 0; row < num_rows; ++row) keys += num_tokens - row;
  const double fmas = 2.0 * keys * kNumHeads * kDim;
  using benchmark::Counter;
  state.counters["fma_peak"] = Counter(fmas / peak, Counter::kIsIterationInvariantRate);
  state.counters["GB/s"] =
      Counter(keys * kNumKvHeads * kDim * 4 * 1e-9, Counter::kIsIterationInvariantRate);
}

void RegisterAll() {
  struct Case {
    const char* name;
    int num_rows;
    int num_tokens;
  };
  for (const Case& c : {Case{"decode/2048", 1, 2048}, Case{"decode/8192", 1, 8192},
                        Case{"prefill/512", 512, 512}, Case{"prefill/512_of_4096", 512, 4096}}) {
    for (const KernelSet* kernels : AvailableKernels()) {
      if (kernels->name == "reference") continue;
      for (const int num_threads : {1, 2}) {
        const std::string name =
            fmt::format("attention/{}/{}/threads:{}", c.name, kernels->name, num_threads);
        benchmark::RegisterBenchmark(name.c_str(), BM_Attention, kernels, c.num_rows, c.num_tokens,
                                     num_threads)
            ->MeasureProcessCPUTime()
            ->Unit(benchmark::kMicrosecond);
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
