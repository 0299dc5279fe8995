#include "models/workspace.h"

#include <algorithm>

#include "base/bytes.h"

namespace quire {
namespace {

// The widest row of each kind over the layers.
struct Widths {
  size_t query = 0;
  size_t key = 0;
  size_t value = 0;
  size_t attended = 0;
  size_t ffn = 0;
};

Widths WidthsOf(const ModelConfig& config) {
  Widths widths;
  for (const LayerConfig& layer : config.layers) {
    const auto grow = [](size_t& width, int heads, int dim) {
      width = std::max(width, static_cast<size_t>(heads) * dim);
    };
    grow(widths.query, layer.num_heads, layer.key_dim);
    grow(widths.key, layer.num_kv_heads, layer.key_dim);
    grow(widths.value, layer.num_kv_heads, layer.value_dim);
    grow(widths.attended, layer.num_heads, layer.value_dim);
    grow(widths.ffn, 1, layer.ffn_dim);
  }
  return widths;
}

}  // namespace

Workspace::Workspace(const ModelConfig& config, int num_threads)
    : rope_cos(config.ropes.size()),
      rope_sin(config.ropes.size()),
      matmul_scratch(num_threads),
      config_(config),
      num_threads_(num_threads) {}

size_t Workspace::Layout(std::byte* base, int num_rows) {
  size_t used = 0;
  const auto take = [&](auto*& array, size_t count) {
    using Element = std::remove_reference_t<decltype(*array)>;
    array = base == nullptr ? nullptr : reinterpret_cast<Element*>(base + used);
    used += AlignUp(count * sizeof(Element), 64);
  };
  const Widths widths = WidthsOf(config_);
  const size_t rows = static_cast<size_t>(num_rows);
  const size_t d_model = static_cast<size_t>(config_.d_model);
  // Not every step touches the scratch. Memory comes in large pages, and this one every step does.
  for (std::byte*& scratch : matmul_scratch) take(scratch, MatmulScratchBytes(num_rows));
  take(x, rows * d_model);
  take(normed, rows * d_model);
  take(delta, rows * d_model);
  take(queries, rows * widths.query);
  take(keys, rows * widths.key);
  take(values, rows * widths.value);
  take(attended, rows * widths.attended);
  take(gate, rows * widths.ffn);
  take(up, rows * widths.ffn);
  const auto take_quantized = [&](QuantizedRows& quantized, size_t width) {
    const size_t groups = width / kGroupColumns;
    take(quantized.quants, rows * width);
    take(quantized.scales, rows * groups);
    take(quantized.scaled_sums, rows * groups);
    take(quantized.negated_sums, rows * groups * 2);
  };
  take_quantized(quantized, std::max(d_model, widths.attended));
  take_quantized(quantized_hidden, widths.ffn);
  for (size_t i = 0; i < config_.ropes.size(); ++i) {
    take(rope_cos[i], rows * config_.ropes[i].rotary_dim / 2);
    take(rope_sin[i], rows * config_.ropes[i].rotary_dim / 2);
  }
  return used;
}

size_t Workspace::BytesFor(int num_rows) const {
  return Workspace(config_, num_threads_).Layout(nullptr, num_rows);
}

Status Workspace::Reserve(int num_rows) {
  if (num_rows <= capacity_rows_) return {};
  memory_ = HugeBuffer();
  capacity_rows_ = 0;
  QUIRE_ASSIGN_OR_RETURN(memory_, HugeBuffer::Allocate(BytesFor(num_rows)));
  Layout(memory_.data(), num_rows);
  capacity_rows_ = num_rows;
  return {};
}

}  // namespace quire
