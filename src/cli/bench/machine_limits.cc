#include "cli/bench/machine_limits.h"

#include <immintrin.h>

#include <algorithm>
#include <chrono>

namespace quire {
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

struct Rounds {
  void (*run)();
  double ops_per_instruction;
};

Rounds Int8Rounds() {
  return __builtin_cpu_supports("avx512vnni") ? Rounds{DotVnni, 128} : Rounds{DotPairs, 64};
}

Rounds F32Rounds() {
  return __builtin_cpu_supports("avx512f") ? Rounds{FmaWide, 32} : Rounds{FmaNarrow, 16};
}

double BestOpsPerSecond(const Rounds& rounds, ThreadPool* pool) {
  constexpr int kRepeats = 50;
  const int num_threads = pool == nullptr ? 1 : pool->num_threads();
  double best = 0;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const auto start = Clock::now();
    if (pool == nullptr) {
      rounds.run();
    } else {
      pool->Run([&](int) { rounds.run(); });
    }
    const double ops = rounds.ops_per_instruction * kChains * kRounds * num_threads;
    best = std::max(best, ops / SecondsSince(start));
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
  return {.int8_ops_per_second = BestOpsPerSecond(Int8Rounds(), nullptr),
          .f32_ops_per_second = BestOpsPerSecond(F32Rounds(), nullptr)};
}

ArithmeticPeaks MeasureArithmeticPeaks(ThreadPool& pool) {
  return {.int8_ops_per_second = BestOpsPerSecond(Int8Rounds(), &pool),
          .f32_ops_per_second = BestOpsPerSecond(F32Rounds(), &pool)};
}

}  // namespace quire
