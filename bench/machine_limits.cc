#include "machine_limits.h"

#include <immintrin.h>

#include <chrono>

namespace quire::bench {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

__attribute__((target("avx2"))) void ReadOnce(const std::byte* bytes, size_t size) {
  __m256i sums[4] = {};
  const auto* vectors = reinterpret_cast<const __m256i*>(bytes);
  for (size_t i = 0; i + 4 <= size / sizeof(__m256i); i += 4) {
    for (int j = 0; j < 4; ++j)
      sums[j] = _mm256_xor_si256(sums[j], _mm256_load_si256(vectors + i + j));
  }
  for (__m256i& sum : sums) asm volatile("" : "+x"(sum));
}

// Ten independent chains hide the latency of the instruction; each repetition runs `repeats`
// rounds.
constexpr int kChains = 10;
constexpr long kRounds = 200'000;

#define QUIRE_ROUNDS(reg, instruction)                                                             \
  for (long i = 0; i < kRounds; ++i) {                                                             \
    asm volatile(instruction                                                                       \
                 " %%" reg "0, %%" reg "0, %%" reg "1\n" instruction " %%" reg "0, %%" reg         \
                 "0, %%" reg "2\n" instruction " %%" reg "0, %%" reg "0, %%" reg "3\n" instruction \
                 " %%" reg "0, %%" reg "0, %%" reg "4\n" instruction " %%" reg "0, %%" reg         \
                 "0, %%" reg "5\n" instruction " %%" reg "0, %%" reg "0, %%" reg "6\n" instruction \
                 " %%" reg "0, %%" reg "0, %%" reg "7\n" instruction " %%" reg "0, %%" reg         \
                 "0, %%" reg "8\n" instruction " %%" reg "0, %%" reg "0, %%" reg "9\n" instruction \
                 " %%" reg "0, %%" reg "0, %%" reg "10\n" ::                                       \
                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",     \
                       "xmm9", "xmm10");                                                           \
  }

__attribute__((target("avx512f,avx512vnni"))) void DotVnni() {
  asm volatile("vpxord %%zmm0, %%zmm0, %%zmm0" ::: "xmm0");
  QUIRE_ROUNDS("zmm", "vpdpbusd");
}
__attribute__((target("avx2"))) void DotPairs() {
  asm volatile("vpxor %%ymm0, %%ymm0, %%ymm0" ::: "xmm0");
  QUIRE_ROUNDS("ymm", "vpmaddubsw");
}
__attribute__((target("avx512f"))) void FmaWide() {
  asm volatile("vpxord %%zmm0, %%zmm0, %%zmm0" ::: "xmm0");
  QUIRE_ROUNDS("zmm", "vfmadd231ps");
}
__attribute__((target("avx2,fma"))) void FmaNarrow() {
  asm volatile("vpxor %%ymm0, %%ymm0, %%ymm0" ::: "xmm0");
  QUIRE_ROUNDS("ymm", "vfmadd231ps");
}
#undef QUIRE_ROUNDS

double BestOpsPerSecond(void (*rounds)(), double ops_per_instruction) {
  double best = 0;
  for (int repeat = 0; repeat < 50; ++repeat) {
    const auto start = Clock::now();
    rounds();
    const double rate = ops_per_instruction * kChains * kRounds / SecondsSince(start);
    if (rate > best) best = rate;
  }
  return best;
}

}  // namespace

double ReadSeconds(ThreadPool& pool, std::span<const std::byte> bytes) {
  constexpr size_t kPiece = size_t{1} << 20;
  const auto start = Clock::now();
  pool.ParallelFor(bytes.size(), kPiece, [&](size_t begin, size_t end, int) {
    ReadOnce(bytes.data() + begin, end - begin);
  });
  return SecondsSince(start);
}

ArithmeticPeaks MeasureArithmeticPeaks() {
  ArithmeticPeaks peaks;
  const bool wide = __builtin_cpu_supports("avx512f");
  if (__builtin_cpu_supports("avx512vnni")) {
    peaks.int8_ops_per_second = BestOpsPerSecond(DotVnni, 128);
  } else {
    peaks.int8_ops_per_second = BestOpsPerSecond(DotPairs, 64);
  }
  peaks.f32_ops_per_second = wide ? BestOpsPerSecond(FmaWide, 32) : BestOpsPerSecond(FmaNarrow, 16);
  return peaks;
}

}  // namespace quire::bench
