// The arithmetic of the forward pass, once per instruction set.
//
// A kernel set is a table of functions over plain memory. Sets differ in speed and never in a bit:
// docs/numerics.md defines every result as a scalar program, `reference` is that program, and the
// tests compare the sets with ==. Functions are thread-safe: they touch their arguments only.
// Invariants of the callers: pointers are 64-byte aligned where said, sizes are positive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "tensor/packed_matrix.h"
#include "tensor/paged_kv_view.h"

namespace quire {

// Activation rows as int8 in groups of 32 columns, quantised once for every matrix that reads them.
//
// Rows are cut from the front into tiles of kMaxTileRows, the last one being as high as there are
// rows left (13 rows: 8, 5). A tile of h rows that starts at row r lies at
//   quants       + r * num_cols             as int8 [num_cols / 4][h][4]
//   scales       + r * (num_cols / 32)      as f32 [num_cols / 32][h]      absmax / 127
//   scaled_sums  + r * (num_cols / 32)      as f32 [num_cols / 32][h]      scale * sum of the group
//   negated_sums + r * (num_cols / 32) * 2  as int32 [num_cols / 32][2][h] minus the sum of each
//                                                                          half (16 columns)
// One row is the plain row. The memory is the caller's, 64-byte aligned.
struct QuantizedRows {
  int num_rows = 0;
  int num_cols = 0;  // a multiple of 32
  int8_t* quants = nullptr;
  float* scales = nullptr;
  float* scaled_sums = nullptr;
  int32_t* negated_sums = nullptr;
};

inline constexpr int kMaxTileRows = 8;

// Rows of the tile that starts with `rows_left` rows to go.
constexpr int TileRows(int rows_left) {
  return rows_left < kMaxTileRows ? rows_left : kMaxTileRows;
}

// A product of activation rows and some row blocks of a packed matrix.
struct MatmulJob {
  const PackedMatrix* weights = nullptr;     // [n, k]
  const QuantizedRows* quantized = nullptr;  // for quantised weights: [num_rows, k]
  const float* rows = nullptr;               // for float weights: [num_rows, k], row_stride apart
  size_t row_stride = 0;                     // floats
  int num_rows = 0;
  float* out = nullptr;          // [num_rows, n], out_stride apart; columns past n are not written
  size_t out_stride = 0;         // floats
  std::byte* scratch = nullptr;  // MatmulScratchBytes(num_rows), 64-byte aligned, one a thread
};

// Scratch that one thread's matmul may use.
size_t MatmulScratchBytes(int num_rows);

// Query rows that share a key head, and one span of keys (docs/numerics.md, "Attention").
struct AttentionSpanJob {
  const float* queries = nullptr;            // [key_dim][num_queries], roped and scaled
  const QuantizedRows* quantized = nullptr;  // for q8_0 instead: [num_queries, key_dim]
  int num_queries = 0;                       // 1..kMaxSpanQueries
  int key_dim = 0;
  int value_dim = 0;
  KvType type = KvType::kF16;
  // The kSpanKeys / kBlockSlots blocks of the span; entries without a needed key may be null.
  std::span<const std::byte* const> key_blocks;    // each the keys of this head
  std::span<const std::byte* const> value_blocks;  // each the values of this head
  // Keys that are likely wanted next, brought near the processor meanwhile; may be empty or null.
  std::span<const std::byte* const> next_key_blocks = {};
  const int* first_key = nullptr;  // [num_queries] first key attended, within the span: 0..127
  const int* end_key = nullptr;    // [num_queries] past the last key attended: first_key..128
  float* maxima = nullptr;         // out [num_queries]; of no keys: -infinity
  float* sums = nullptr;           // out [num_queries]; of no keys: 0
  float* values = nullptr;         // out [num_queries][value_dim]; of no keys: 0
};

inline constexpr int kSpanKeys = 128;
inline constexpr int kMaxSpanQueries = 6;

// The partials (maximum, sum, values) of a span, to be folded into those of the spans before it.
struct SpanMergeJob {
  int num_queries = 0;  // 1..kMaxSpanQueries
  int value_dim = 0;
  const float* span_maxima = nullptr;  // [num_queries]
  const float* span_sums = nullptr;    // [num_queries]
  const float* span_values = nullptr;  // [num_queries][value_dim]
  float* maxima = nullptr;             // in and out [num_queries]
  float* sums = nullptr;               // in and out [num_queries]
  float* const* values = nullptr;      // in and out [num_queries] rows of [value_dim]
};

// cos and sin of one position: [rotary_dim / 2] each.
struct RopeRow {
  const float* cos = nullptr;
  const float* sin = nullptr;
};

enum class RopeStyle : uint8_t {
  kInterleaved,  // pairs (2i, 2i + 1): llama files
  kHalves,       // pairs (i, i + rotary_dim / 2): the NeoX form, qwen and gemma files
};

struct KernelSet {
  std::string_view name;

  // out <- the groups [begin, end) of rows [num_rows][num_cols], row_stride floats apart. Returns
  // false if a value is NaN or infinite.
  bool (*quantize_groups)(const float* rows, size_t row_stride, int begin, int end,
                          const QuantizedRows& out);
  bool quantize_rows(const float* rows, size_t row_stride, QuantizedRows* out) const {
    return quantize_groups(rows, row_stride, 0, out->num_cols / kGroupColumns, *out);
  }

  // Row blocks [row_block_begin, row_block_end) of the product, by the weights' format.
  void (*matmul)(const MatmulJob& job, int row_block_begin, int row_block_end);

  // out[n] = x / sqrt(mean(x^2) + epsilon) * weight. Returns false if the sum of squares is not
  // finite. out may be x.
  bool (*rms_norm)(const float* x, const float* weight, float epsilon, int n, float* out);
  // out[n] = (x - mean) / sqrt(variance + epsilon) * weight + bias; likewise.
  bool (*layer_norm)(const float* x, const float* weight, const float* bias, float epsilon, int n,
                     float* out);
  // Whether no x[n] is NaN or infinite.
  bool (*all_finite)(const float* x, int n);
  // x[n] += y[n]
  void (*add)(float* x, const float* y, int n);
  // x[n] *= factor
  void (*scale)(float* x, float factor, int n);
  // gate[n] = silu(gate) * up; gelu is the tanh form.
  void (*silu_mul)(float* gate, const float* up, int n);
  void (*gelu_mul)(float* gate, const float* up, int n);
  // x[n] = x < 0 ? 0 : x
  void (*relu)(float* x, int n);
  // Rotates the first rotary_dim elements of each head of x [num_heads][head_dim] in place.
  void (*rope)(float* x, int num_heads, int head_dim, int rotary_dim, RopeStyle style,
               const RopeRow& row);

  // One head's key [key_dim] and value [value_dim] into slot `slot` of its keys and values of a
  // block, laid out as tensor/paged_kv_view.h says. Returns false if a value does not fit the type
  // (or is NaN or infinite); what the slot then holds is unspecified.
  bool (*store_key)(const float* key, int key_dim, KvType type, int slot, std::byte* block_keys);
  bool (*store_value)(const float* value, int value_dim, KvType type, int slot,
                      std::byte* block_values);
  void (*attend_span)(const AttentionSpanJob& job);
  void (*merge_span)(const SpanMergeJob& job);
  // values[n] /= sum, by one reciprocal.
  void (*finish_attention)(float* values, float sum, int value_dim);
};

// The sets that were compiled in and that this processor can run, slowest first.
std::span<const KernelSet* const> AvailableKernels();

// The fastest set, or the one named ("reference", "avx2", "avx512"). Fails for a name that is
// unknown or that this processor cannot run, listing those it can.
Result<const KernelSet*> SelectKernels(std::string_view name);

}  // namespace quire
