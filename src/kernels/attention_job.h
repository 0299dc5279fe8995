// What attention is asked for in one step and one layer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "tensor/paged_kv_view.h"

namespace quire {

struct AttentionJob {
  const float* queries = nullptr;  // [num_rows][num_heads * key_dim], query_stride apart, roped
  size_t query_stride = 0;         // floats
  float* out = nullptr;            // [num_rows][num_heads * value_dim], out_stride apart
  size_t out_stride = 0;           // floats
  int num_heads = 0;               // a multiple of the layer's num_kv_heads
  float scale = 1.0f;              // of the scores
  const PagedKvView* kv = nullptr;
  int layer = 0;
  int window = 0;  // position p attends (p - window, p]; 0 = all of 0..p
  std::span<const KvSequence> sequences;

  const KvLayer& kv_layer() const { return kv->layers[layer]; }
  int heads_per_kv() const { return num_heads / kv_layer().num_kv_heads; }
  std::span<const int32_t> TableOf(int sequence_idx) const {
    return sequences[sequence_idx].block_tables[kv_layer().group];
  }
};

struct KeyRange {
  int first = 0;
  int end = 0;
};

// Keys that the query at a position attends.
inline KeyRange KeysAttended(const AttentionJob& job, int position) {
  return {job.window > 0 ? std::max(0, position - job.window + 1) : 0, position + 1};
}

}  // namespace quire
