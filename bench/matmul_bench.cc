// Matrix products of every format and kernel set, on all processors.
//
// Decode: 1 to 8 rows over matrices that no cache holds, with the share of the read bandwidth,
// which is measured around every pass. Prefill: 16 to 256 rows, with the share of the peak of byte
// products (of f32 multiply-adds for float weights), measured right before and after on the same
// threads. Pack: bytes of the file a second, on one thread.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/huge_buffer.h"
#include "base/thread_pool.h"
#include "bench_main.h"
#include "kernels/kernel_set.h"
#include "kernels/packing.h"
#include "plan/machine_limits.h"
#include "tensor/float16.h"

namespace quire::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr DType kFormats[] = {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                              DType::kQ8_0, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K,
                              DType::kF16,  DType::kBF16, DType::kF32};
// The feed-forward matrices of Qwen2.5-1.5B.
constexpr int kWide = 8960;
constexpr int kNarrow = 1536;
// A set number of passes: the library would find one by calling a benchmark, with all that it sets
// up, again and again.
constexpr int kDecodePasses = 10;
constexpr int kPrefillRows = 2048;

ThreadPool& Pool() {
  static ThreadPool pool(AvailableProcessors());
  return pool;
}

double PeakOf(const KernelSet& set, DType dtype) {
  const ArithmeticPeaks peaks = MeasureArithmeticPeaks(Pool(), set.name);
  return IsQuantized(dtype) ? peaks.int8_ops_per_second : peaks.f32_ops_per_second;
}

std::vector<std::byte> FileRows(DType dtype, int num_rows, int num_cols) {
  std::mt19937 random(1);
  const DTypeInfo& info = InfoOf(dtype);
  std::vector<std::byte> bytes(num_rows * RowBytes(dtype, num_cols));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 0x3b);  // finite halves
  const uint16_t scale = F32ToF16(0.01f);
  if (info.block_elements > 1) {
    const size_t at = dtype == DType::kQ6_K ? 208 : 0;
    for (size_t block = 0; block < bytes.size(); block += info.block_bytes) {
      std::memcpy(bytes.data() + block + at, &scale, 2);
    }
  }
  return bytes;
}

PackedMatrix PackInto(DType dtype, int num_rows, int num_cols, std::byte* out) {
  const auto file = FileRows(dtype, kPackRows, num_cols);
  PackedMatrix matrix{dtype, num_rows, num_cols, out};
  PackRowBlock(dtype, file.data(), RowBytes(dtype, num_cols), kPackRows, num_cols, out);
  for (int block = 1; block < matrix.num_row_blocks(); ++block) {
    std::memcpy(out + block * matrix.row_block_bytes(), out, matrix.row_block_bytes());
  }
  return matrix;
}

// Activations of one width in both forms, the outputs, and scratch of every thread.
struct Rows {
  HugeBuffer memory;
  QuantizedRows quantized;
  float* values;
  float* out;
  std::byte* scratch;
  size_t scratch_bytes;

  Rows(const KernelSet& set, int num_rows, int num_cols) {
    const size_t elements = static_cast<size_t>(num_rows) * num_cols;
    scratch_bytes = (MatmulScratchBytes(num_rows) + 63) / 64 * 64;
    const size_t out_bytes = static_cast<size_t>(num_rows) * kWide * 4;
    memory =
        HugeBuffer::Allocate(elements * 6 + out_bytes + 4096 + scratch_bytes * Pool().num_threads())
            .value();
    std::byte* at = memory.data();
    const auto take = [&](size_t bytes) {
      std::byte* result = at;
      at += (bytes + 63) / 64 * 64;
      return result;
    };
    values = reinterpret_cast<float*>(take(elements * 4));
    out = reinterpret_cast<float*>(take(out_bytes));
    quantized.num_rows = num_rows;
    quantized.num_cols = num_cols;
    quantized.quants = reinterpret_cast<int8_t*>(take(elements));
    quantized.scales = reinterpret_cast<float*>(take(elements / 8));
    quantized.scaled_sums = reinterpret_cast<float*>(take(elements / 8));
    quantized.negated_sums = reinterpret_cast<int32_t*>(take(elements / 4));
    scratch = take(scratch_bytes * Pool().num_threads());
    std::mt19937 random(2);
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < elements; ++i) values[i] = normal(random);
    set.quantize_rows(values, num_cols, &quantized);
  }
};

void Multiply(const KernelSet& set, const PackedMatrix& matrix, const Rows& rows) {
  const size_t blocks = matrix.num_row_blocks();
  Pool().ParallelFor(blocks, 8, [&](size_t begin, size_t end, int thread) {
    const MatmulJob job = {.weights = &matrix,
                           .quantized = &rows.quantized,
                           .rows = rows.values,
                           .row_stride = static_cast<size_t>(matrix.num_cols),
                           .num_rows = rows.quantized.num_rows,
                           .out = rows.out,
                           .out_stride = static_cast<size_t>(matrix.num_rows),
                           .scratch = rows.scratch + thread * rows.scratch_bytes};
    set.matmul(job, static_cast<int>(begin), static_cast<int>(end));
  });
}

void Decode(benchmark::State& state, const KernelSet* set, DType dtype, int num_rows) {
  constexpr size_t kTotal = size_t{256} << 20;
  HugeBuffer buffer = HugeBuffer::Allocate(kTotal).value();
  std::vector<PackedMatrix> matrices;
  size_t used = 0;
  for (;;) {
    const bool wide = matrices.size() % 2 == 0;
    PackedMatrix matrix{dtype, wide ? kWide : kNarrow, wide ? kNarrow : kWide};
    if (used + matrix.bytes() > kTotal) break;
    std::byte* out = buffer.data() + used;
    if (matrices.size() < 2) {
      matrix = PackInto(dtype, matrix.num_rows, matrix.num_cols, out);
    } else {
      matrix.data = out;
      std::memcpy(out, matrices[matrices.size() - 2].data, matrix.bytes());
    }
    used += matrix.bytes();
    matrices.push_back(matrix);
  }
  const Rows narrow(*set, num_rows, kNarrow), wide(*set, num_rows, kWide);
  const std::span<const std::byte> bytes(buffer.data(), used);
  double read = 0, total = 0;
  for (auto _ : state) {
    const double before = ReadSeconds(Pool(), bytes);
    const auto start = Clock::now();
    for (const PackedMatrix& matrix : matrices) {
      Multiply(*set, matrix, matrix.num_cols == kWide ? wide : narrow);
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    state.SetIterationTime(seconds);
    read += (before + ReadSeconds(Pool(), bytes)) / 2;
    total += seconds;
  }
  const double passes = static_cast<double>(state.iterations());
  double products = 0;
  for (const PackedMatrix& matrix : matrices)
    products += double{1} * matrix.num_rows * matrix.num_cols;
  state.counters["GB/s"] = static_cast<double>(used) * passes / total * 1e-9;
  state.counters["GOP/s"] = 2 * products * num_rows * passes / total * 1e-9;
  state.counters["share_of_read_%"] = 100 * read / total;
}

void Prefill(benchmark::State& state, const KernelSet* set, DType dtype, int num_rows,
             int num_cols) {
  const int num_outputs = num_cols == kWide ? kNarrow : kWide;
  PackedMatrix matrix{dtype, num_outputs, num_cols};
  HugeBuffer buffer = HugeBuffer::Allocate(matrix.bytes()).value();
  matrix = PackInto(dtype, num_outputs, num_cols, buffer.data());
  const Rows rows(*set, num_rows, num_cols);
  const double peak_before = PeakOf(*set, dtype);
  double total = 0;
  for (auto _ : state) {
    const auto start = Clock::now();
    Multiply(*set, matrix, rows);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    state.SetIterationTime(seconds);
    total += seconds;
  }
  const double ops = 2.0 * num_rows * kWide * kNarrow * state.iterations() / total;
  const double peak = std::max(peak_before, PeakOf(*set, dtype));
  state.counters["GB/s"] = static_cast<double>(matrix.bytes()) * state.iterations() / total * 1e-9;
  state.counters["GOP/s"] = ops * 1e-9;
  state.counters["share_of_peak_%"] = 100 * ops / peak;
}

void Pack(benchmark::State& state, DType dtype) {
  const auto file = FileRows(dtype, kWide, kNarrow);
  const size_t row_bytes = RowBytes(dtype, kNarrow);
  std::vector<std::byte> out(PackedRowBlockBytes(dtype, kNarrow) + 64);
  for (auto _ : state) {
    for (int row = 0; row < kWide; row += kPackRows) {
      PackRowBlock(dtype, file.data() + row * row_bytes, row_bytes, kPackRows, kNarrow, out.data());
    }
    benchmark::DoNotOptimize(out.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(file.size()));
}

}  // namespace

void RegisterAll() {
  for (const KernelSet* set : AvailableKernels()) {
    if (set->name == "reference") continue;
    const std::string prefix = std::string(set->name) + "/";
    for (DType dtype : kFormats) {
      const std::string name = prefix + std::string(InfoOf(dtype).name) + "/";
      for (int num_rows : {1, 2, 4, 8}) {
        benchmark::RegisterBenchmark(("Decode/" + name + std::to_string(num_rows)).c_str(), Decode,
                                     set, dtype, num_rows)
            ->UseManualTime()
            ->Iterations(kDecodePasses)
            ->Unit(benchmark::kMillisecond);
      }
      for (int num_rows : {16, 32, 256}) {
        for (int num_cols : {kNarrow, kWide}) {
          benchmark::RegisterBenchmark(
              ("Prefill/" + name + std::to_string(num_rows) + "/k" + std::to_string(num_cols))
                  .c_str(),
              Prefill, set, dtype, num_rows, num_cols)
              ->UseManualTime()
              ->Iterations(kPrefillRows / num_rows)
              ->Unit(benchmark::kMillisecond);
        }
      }
    }
  }
  for (DType dtype : kFormats) {
    benchmark::RegisterBenchmark(("Pack/" + std::string(InfoOf(dtype).name)).c_str(), Pack, dtype);
  }
}

}  // namespace quire::bench
