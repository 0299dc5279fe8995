// Kernels that go over rows: norms, quantisation, activations, rope, storing keys and values.
//
// One thread over 64 rows that the second-level cache holds, the shapes of Qwen2.5-1.5B. Each
// counts the bytes that its definition reads and writes and the operations that it needs (a square
// root, a reciprocal or an exponential is one), a second of processor time; `share_%` is of the
// slower of the two limits, measured before: reading as many bytes again and again, and f32
// multiply-adds. Exponentials are many operations in truth, so that activations stay far from it.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/huge_buffer.h"
#include "base/thread_pool.h"
#include "bench_main.h"
#include "kernels/kernel_set.h"
#include "plan/machine_limits.h"

namespace quire::bench {
namespace {

constexpr int kRows = 64;
constexpr int kModelDim = 1536;
constexpr int kFfnDim = 8960;
constexpr int kHeads = 12;
constexpr int kHeadDim = 128;

// Rows of two inputs, one output and what a row needs beside them.
struct Rows {
  explicit Rows(int num_cols) : num_cols(num_cols) {
    const size_t elements = static_cast<size_t>(kRows) * num_cols;
    memory = HugeBuffer::Allocate(elements * 20 + 4096).value();
    std::byte* at = memory.data();
    const auto take = [&](size_t bytes) {
      std::byte* result = at;
      at += (bytes + 63) / 64 * 64;
      return result;
    };
    x = reinterpret_cast<float*>(take(elements * 4));
    y = reinterpret_cast<float*>(take(elements * 4));
    out = reinterpret_cast<float*>(take(elements * 4));
    quantized.num_rows = kRows;
    quantized.num_cols = num_cols;
    quantized.quants = reinterpret_cast<int8_t*>(take(elements));
    quantized.scales = reinterpret_cast<float*>(take(elements / 8));
    quantized.scaled_sums = reinterpret_cast<float*>(take(elements / 8));
    quantized.negated_sums = reinterpret_cast<int32_t*>(take(elements / 4));
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < elements; ++i) x[i] = normal(random);
    for (size_t i = 0; i < elements; ++i) y[i] = normal(random);
  }
  float* X(int row) const { return x + static_cast<size_t>(row) * num_cols; }
  float* Y(int row) const { return y + static_cast<size_t>(row) * num_cols; }
  float* Out(int row) const { return out + static_cast<size_t>(row) * num_cols; }
  size_t elements() const { return static_cast<size_t>(kRows) * num_cols; }

  int num_cols;
  HugeBuffer memory;
  float* x;
  float* y;
  float* out;
  QuantizedRows quantized;
};

struct RowCase {
  std::string name;
  int num_cols = 0;
  double read = 0;        // bytes an element
  double written = 0;     // bytes an element
  double operations = 0;  // an element
  bool in_place = false;  // x changes: it is fresh for every pass
  std::function<void(const KernelSet&, Rows&)> run;
};

template <typename Each>
std::function<void(const KernelSet&, Rows&)> EachRow(const Each& each) {
  return [each](const KernelSet& set, Rows& rows) {
    for (int row = 0; row < kRows; ++row) each(set, rows, row);
  };
}

RopeRow AngleRow() {
  static std::vector<float> angles(kHeadDim, 0.6f);  // cos and sin of no angle, of the same cost
  return {.cos = angles.data(), .sin = angles.data()};
}

void StoreRows(const KernelSet& set, Rows& rows, KvType type, bool is_key) {
  auto* block = reinterpret_cast<std::byte*>(rows.out);
  const size_t head_bytes = KvBytes(type, size_t{kHeadDim} * kBlockSlots);
  for (int row = 0; row < kRows; ++row) {
    for (int head = 0; head < kHeads; ++head) {
      const float* from = rows.X(row) + head * kHeadDim;
      std::byte* to = block + (row / kBlockSlots * kHeads + head) * head_bytes;
      const int slot = row % kBlockSlots;
      if (is_key) {
        set.store_key(from, kHeadDim, type, slot, to);
      } else {
        set.store_value(from, kHeadDim, type, slot, to);
      }
    }
  }
}

std::vector<RowCase> Cases() {
  std::vector<RowCase> cases;
  const auto add = [&](std::string name, int num_cols, double read, double written,
                       double operations, bool in_place,
                       std::function<void(const KernelSet&, Rows&)> run) {
    cases.push_back(
        {std::move(name), num_cols, read, written, operations, in_place, std::move(run)});
  };
  add("rms_norm", kModelDim, 4, 4, 4, false, EachRow([](const KernelSet& set, Rows& rows, int row) {
        set.rms_norm(rows.X(row), rows.Y(0), 1e-6f, kModelDim, rows.Out(row));
      }));
  add("layer_norm", kModelDim, 4, 4, 7, false,
      EachRow([](const KernelSet& set, Rows& rows, int row) {
        set.layer_norm(rows.X(row), rows.Y(0), rows.Y(1), 1e-6f, kModelDim, rows.Out(row));
      }));
  // Quants, and of each group of 32 a scale, a scaled sum and two sums of halves.
  add("quantize", kModelDim, 4, 1 + 16.0 / 32, 4, false, [](const KernelSet& set, Rows& rows) {
    set.quantize_rows(rows.x, rows.num_cols, &rows.quantized);
  });
  add("all_finite", kModelDim, 4, 0, 1, false,
      EachRow([](const KernelSet& set, Rows& rows, int row) {
        benchmark::DoNotOptimize(set.all_finite(rows.X(row), kModelDim));
      }));
  add("add", kModelDim, 8, 4, 1, true, EachRow([](const KernelSet& set, Rows& rows, int row) {
        set.add(rows.X(row), rows.Y(row), kModelDim);
      }));
  add("scale", kModelDim, 4, 4, 1, true, EachRow([](const KernelSet& set, Rows& rows, int row) {
        set.scale(rows.X(row), 0.5f, kModelDim);
      }));
  add("silu_mul", kFfnDim, 8, 4, 4, true, EachRow([](const KernelSet& set, Rows& rows, int row) {
        set.silu_mul(rows.X(row), rows.Y(row), kFfnDim);
      }));
  add("gelu_mul", kFfnDim, 8, 4, 8, true, EachRow([](const KernelSet& set, Rows& rows, int row) {
        set.gelu_mul(rows.X(row), rows.Y(row), kFfnDim);
      }));
  add("relu", kFfnDim, 4, 4, 1, true,
      EachRow([](const KernelSet& set, Rows& rows, int row) { set.relu(rows.X(row), kFfnDim); }));
  for (const RopeStyle style : {RopeStyle::kInterleaved, RopeStyle::kHalves}) {
    add(style == RopeStyle::kHalves ? "rope_halves" : "rope_interleaved", kModelDim, 4, 4, 3, true,
        EachRow([style](const KernelSet& set, Rows& rows, int row) {
          set.rope(rows.X(row), kHeads, kHeadDim, kHeadDim, style, AngleRow());
        }));
  }
  for (const KvType type : kKvTypes) {
    for (const bool is_key : {true, false}) {
      const double stored = static_cast<double>(KvBytes(type, kHeadDim)) / kHeadDim;
      add(fmt::format("store_{}/{}", is_key ? "key" : "value", NameOf(type)), kModelDim, 4, stored,
          type == KvType::kQ8_0 ? 3 : 1, false,
          [type, is_key](const KernelSet& set, Rows& rows) { StoreRows(set, rows, type, is_key); });
    }
  }
  return cases;
}

void Run(benchmark::State& state, const KernelSet* set, const RowCase& c) {
  Rows rows(c.num_cols);
  const std::vector<float> fresh(rows.x, rows.x + rows.elements());
  const double elements = static_cast<double>(rows.elements());
  ThreadPool one(1);
  // A set as large as what the kernel goes over.
  const auto touched = std::min(rows.memory.size(), static_cast<size_t>(elements * c.read));
  double read = 0;
  for (int i = 0; i < 3; ++i) {
    read = std::max(read, SettledReadRate(one, {rows.memory.data(), touched}));
  }
  const double peak = MeasureArithmeticPeaks(set->name).f32_ops_per_second;
  for (auto _ : state) {
    if (c.in_place) {
      state.PauseTiming();
      std::memcpy(rows.x, fresh.data(), fresh.size() * sizeof(float));
      state.ResumeTiming();
    }
    c.run(*set, rows);
    benchmark::ClobberMemory();
  }
  using benchmark::Counter;
  const auto rate = [](double value) { return Counter(value, Counter::kIsIterationInvariantRate); };
  const double limit_seconds = std::max(elements * c.read / read, elements * c.operations / peak);
  state.counters["GB/s"] = rate(elements * (c.read + c.written) * 1e-9);
  state.counters["GOP/s"] = rate(elements * c.operations * 1e-9);
  state.counters["share_%"] = rate(100 * limit_seconds);
}

}  // namespace

void RegisterAll() {
  for (const RowCase& c : Cases()) {
    for (const KernelSet* set : AvailableKernels()) {
      if (set->name == "reference") continue;
      const std::string name = fmt::format("rows/{}/{}", c.name, set->name);
      benchmark::RegisterBenchmark(name.c_str(),
                                   [set, c](benchmark::State& state) { Run(state, set, c); })
          ->MinTime(0.1)
          ->Unit(benchmark::kMicrosecond);
    }
  }
}

}  // namespace quire::bench
