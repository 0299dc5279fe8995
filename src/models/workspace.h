// The decoder's scratch memory: activations of one step, sized for its rows.
#pragma once

#include <span>
#include <vector>

#include "base/huge_buffer.h"
#include "kernels/kernel_set.h"
#include "models/config.h"

namespace quire {

// Grows to the largest step and stays. Every array is 64-byte aligned.
class Workspace {
 public:
  Workspace(const ModelConfig& config, int num_threads);

  // Makes room for num_rows rows; contents are lost when it grows.
  Status Reserve(int num_rows);

  // Bytes that Reserve(num_rows) takes.
  size_t BytesFor(int num_rows) const;
  // What it has taken.
  std::span<const std::byte> memory() const { return memory_.bytes(); }

  float* x = nullptr;              // [num_rows, d_model] the residual stream
  float* normed = nullptr;         // [num_rows, d_model]
  float* delta = nullptr;          // [num_rows, d_model] what a half adds
  float* queries = nullptr;        // [num_rows, num_heads * key_dim]
  float* keys = nullptr;           // [num_rows, num_kv_heads * key_dim]
  float* values = nullptr;         // [num_rows, num_kv_heads * value_dim]
  float* attended = nullptr;       // [num_rows, num_heads * value_dim]
  float* gate = nullptr;           // [num_rows, ffn_dim]
  float* up = nullptr;             // [num_rows, ffn_dim]
  QuantizedRows quantized;         // of the input in use, up to the widest but the next
  QuantizedRows quantized_hidden;  // of gate, or of up where there is no gate
  std::vector<float*> rope_cos;    // [ropes] of [num_rows, rotary_dim / 2]
  std::vector<float*> rope_sin;
  std::vector<std::byte*> matmul_scratch;  // [threads]

 private:
  // Lays the arrays out from `base`, or only measures when base is null. Returns the bytes used.
  size_t Layout(std::byte* base, int num_rows);

  const ModelConfig& config_;
  int num_threads_;
  int capacity_rows_ = 0;
  HugeBuffer memory_;
};

}  // namespace quire
