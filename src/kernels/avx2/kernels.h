// The functions of the `avx2` kernel set; each is described at its member of KernelSet.
#pragma once

#include "kernels/kernel_set.h"

namespace quire::avx2 {

bool QuantizeGroups(const float* rows, size_t row_stride, int begin, int end,
                    const QuantizedRows& out);
void Matmul(const MatmulJob& job, int row_block_begin, int row_block_end);

bool RmsNorm(const float* x, const float* weight, float epsilon, int n, float* out);
bool LayerNorm(const float* x, const float* weight, const float* bias, float epsilon, int n,
               float* out);
bool AllFinite(const float* x, int n);
void Add(float* x, const float* y, int n);
void Scale(float* x, float factor, int n);
void SiluMul(float* gate, const float* up, int n);
void GeluMul(float* gate, const float* up, int n);
void Relu(float* x, int n);
void Rope(float* x, int num_heads, int head_dim, int rotary_dim, RopeStyle style,
          const RopeRow& row);

bool StoreKey(const float* key, int key_dim, KvType type, int slot, std::byte* block_keys);
bool StoreValue(const float* value, int value_dim, KvType type, int slot, std::byte* block_values);
void AttendSpan(const AttentionSpanJob& job);
void MergeSpan(const SpanMergeJob& job);
void FinishAttention(float* values, float sum, int value_dim);

}  // namespace quire::avx2
