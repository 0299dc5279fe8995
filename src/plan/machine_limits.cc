#include "plan/machine_limits.h"

#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstring>

namespace quire {
namespace {

using Clock = std::chrono::steady_clock;

// Read at least so many bytes for one rate: some milliseconds even from the first-level cache.
constexpr size_t kLeastRead = size_t{512} << 20;
// Sets from here on are read in pieces that threads take as they come free, as weights are.
constexpr size_t kPiecewise = size_t{64} << 20;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What every x86-64 has.
void ReadOnceNarrow(const std::byte* bytes, size_t size) {
  __m128i sums[4] = {};
  const auto* vectors = reinterpret_cast<const __m128i*>(bytes);
  for (size_t i = 0; i + 4 <= size / sizeof(__m128i); i += 4) {
    for (int j = 0; j < 4; ++j) sums[j] = _mm_xor_si128(sums[j], _mm_loadu_si128(vectors + i + j));
  }
  for (__m128i& sum : sums) asm volatile("" : "+x"(sum));
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

__attribute__((target("avx512f"))) void ReadOnceWide(const std::byte* bytes, size_t size) {
  __m512i sums[4] = {};
  const auto* vectors = reinterpret_cast<const __m512i*>(bytes);
  for (size_t i = 0; i + 4 <= size / sizeof(__m512i); i += 4) {
    for (int j = 0; j < 4; ++j)
      sums[j] = _mm512_xor_si512(sums[j], _mm512_load_si512(vectors + i + j));
  }
  for (__m512i& sum : sums) asm volatile("" : "+v"(sum));
}

// What one turn of the reading loops takes; less than that at the end of the bytes is not read.
constexpr size_t kReadStep = 4 * sizeof(__m512i);

using ReadFunction = void (*)(const std::byte* bytes, size_t size);
ReadFunction FastestRead() {
  if (__builtin_cpu_supports("avx512f")) return ReadOnceWide;
  return __builtin_cpu_supports("avx2") ? ReadOnce : ReadOnceNarrow;
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

// Instructions of two operands, ten chains again: those that processors without AVX2 have.
#define QUIRE_ROUNDS(one, other)                                                                   \
  for (long i = 0; i < kRounds; ++i) {                                                             \
    asm volatile(one " %%xmm0, %%xmm1\n" other " %%xmm0, %%xmm2\n" one " %%xmm0, %%xmm3\n" other   \
                     " %%xmm0, %%xmm4\n" one " %%xmm0, %%xmm5\n" other " %%xmm0, %%xmm6\n" one     \
                     " %%xmm0, %%xmm7\n" other " %%xmm0, %%xmm8\n" one " %%xmm0, %%xmm9\n" other   \
                     " %%xmm0, %%xmm10\n" ::                                                       \
                         : "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", \
                           "xmm10");                                                               \
  }
void DotOfWords() {
  asm volatile("pxor %%xmm0, %%xmm0" ::: "xmm0");
  QUIRE_ROUNDS("pmaddwd", "pmaddwd");
}
void MultiplyAndAdd() {
  asm volatile("pxor %%xmm0, %%xmm0" ::: "xmm0");
  QUIRE_ROUNDS("mulps", "addps");
}
#undef QUIRE_ROUNDS

struct Rounds {
  void (*run)();
  double ops_per_instruction;
};

Rounds Int8Rounds(std::string_view kernels) {
  const bool wide = kernels != "avx2" && __builtin_cpu_supports("avx512vnni");
  if (!__builtin_cpu_supports("avx2")) return {DotOfWords, 16};
  return wide ? Rounds{DotVnni, 128} : Rounds{DotPairs, 64};
}

Rounds F32Rounds(std::string_view kernels) {
  const bool wide = kernels != "avx2" && __builtin_cpu_supports("avx512f");
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return {MultiplyAndAdd, 4};
  return wide ? Rounds{FmaWide, 32} : Rounds{FmaNarrow, 16};
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
  const ReadFunction read = FastestRead();
  const auto start = Clock::now();
  pool.ParallelFor(bytes.size(), kPiece,
                   [&](size_t begin, size_t end, int) { read(bytes.data() + begin, end - begin); });
  return SecondsSince(start);
}

double SettledReadRate(ThreadPool& pool, std::span<const std::byte> bytes) {
  if (bytes.size() >= kPiecewise) {
    return static_cast<double>(bytes.size()) / ReadSeconds(pool, bytes);
  }
  const size_t num_threads = static_cast<size_t>(pool.num_threads());
  const size_t part = bytes.size() / num_threads / kReadStep * kReadStep;
  if (part == 0) return 0;
  const size_t passes = (kLeastRead + part * num_threads - 1) / (part * num_threads);
  const ReadFunction read = FastestRead();
  const auto start = Clock::now();
  pool.Run([&](int thread_idx) {
    for (size_t pass = 0; pass < passes; ++pass) read(bytes.data() + thread_idx * part, part);
  });
  return static_cast<double>(passes * part * num_threads) / SecondsSince(start);
}

void TouchPages(ThreadPool& pool, std::span<std::byte> bytes) {
  pool.ParallelFor(bytes.size(), size_t{2} << 20, [&](size_t begin, size_t end, int) {
    std::memset(bytes.data() + begin, 1, end - begin);
  });
}

ArithmeticPeaks MeasureArithmeticPeaks(std::string_view kernels) {
  return {.int8_ops_per_second = BestOpsPerSecond(Int8Rounds(kernels), nullptr),
          .f32_ops_per_second = BestOpsPerSecond(F32Rounds(kernels), nullptr)};
}

ArithmeticPeaks MeasureArithmeticPeaks(ThreadPool& pool, std::string_view kernels) {
  return {.int8_ops_per_second = BestOpsPerSecond(Int8Rounds(kernels), &pool),
          .f32_ops_per_second = BestOpsPerSecond(F32Rounds(kernels), &pool)};
}

}  // namespace quire
