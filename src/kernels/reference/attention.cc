// Attention over one span as docs/numerics.md writes it, one query, key and element at a time.
#include <cmath>
#include <cstring>
#include <limits>

#include "base/exact_math.h"
#include "kernels/reference/kernels.h"
#include "tensor/float16.h"

namespace quire::reference {
namespace {

constexpr int kLanes = 16;

// Element `idx` of an array of the cache's type.
float Load(KvType type, const std::byte* array, size_t idx) {
  if (type == KvType::kF32) {
    float value;
    std::memcpy(&value, array + idx * sizeof(value), sizeof(value));
    return value;
  }
  uint16_t half;
  std::memcpy(&half, array + idx * sizeof(half), sizeof(half));
  return F16ToF32(half);
}

// Returns false if the stored value is not finite.
bool Store(KvType type, float value, std::byte* array, size_t idx) {
  if (type == KvType::kF32) {
    std::memcpy(array + idx * sizeof(value), &value, sizeof(value));
    return std::isfinite(value);
  }
  const uint16_t half = F32ToF16(value);
  std::memcpy(array + idx * sizeof(half), &half, sizeof(half));
  return (half & 0x7c00u) != 0x7c00u;
}

float KeyElement(const AttentionSpanJob& job, int key, int d) {
  return Load(job.type, job.key_blocks[key / kBlockSlots],
              static_cast<size_t>(d) * kBlockSlots + key % kBlockSlots);
}

float ValueElement(const AttentionSpanJob& job, int key, int d) {
  return Load(job.type, job.value_blocks[key / kBlockSlots],
              static_cast<size_t>(key % kBlockSlots) * job.value_dim + d);
}

float Score(const AttentionSpanJob& job, int query, int key) {
  float score = 0.0f;
  for (int d = 0; d < job.key_dim; ++d) {
    score = std::fma(job.queries[static_cast<size_t>(d) * job.num_queries + query],
                     KeyElement(job, key, d), score);
  }
  return score;
}

float SumOfLanes(float (&lanes)[kLanes]) {
  for (int width = kLanes / 2; width >= 1; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] = lanes[i] + lanes[i + width];
  }
  return lanes[0];
}

void AttendQuery(const AttentionSpanJob& job, int query) {
  const int first = job.first_key[query];
  const int end = job.end_key[query];
  float weights[kSpanKeys];
  float maximum = -std::numeric_limits<float>::infinity();
  for (int key = first; key < end; ++key) {
    weights[key] = Score(job, query, key);
    maximum = weights[key] > maximum ? weights[key] : maximum;
  }
  float lanes[kLanes] = {};
  for (int key = first; key < end; ++key) {
    weights[key] = exact::ExpF(weights[key] - maximum);
    lanes[key % kLanes] = lanes[key % kLanes] + weights[key];
  }
  job.maxima[query] = maximum;
  job.sums[query] = SumOfLanes(lanes);
  for (int d = 0; d < job.value_dim; ++d) {
    float value = 0.0f;
    for (int key = first; key < end; ++key) {
      value = std::fma(weights[key], ValueElement(job, key, d), value);
    }
    job.values[static_cast<size_t>(query) * job.value_dim + d] = value;
  }
}

}  // namespace

bool StoreKey(const float* key, int key_dim, KvType type, int slot, std::byte* block_keys) {
  bool finite = true;
  for (int d = 0; d < key_dim; ++d) {
    finite &= Store(type, key[d], block_keys, static_cast<size_t>(d) * kBlockSlots + slot);
  }
  return finite;
}

bool StoreValue(const float* value, int value_dim, KvType type, int slot, std::byte* block_values) {
  bool finite = true;
  for (int d = 0; d < value_dim; ++d) {
    finite &= Store(type, value[d], block_values, static_cast<size_t>(slot) * value_dim + d);
  }
  return finite;
}

void AttendSpan(const AttentionSpanJob& job) {
  for (int query = 0; query < job.num_queries; ++query) AttendQuery(job, query);
}

void MergeSpan(float* maximum, float* sum, float* values, float span_maximum, float span_sum,
               const float* span_values, int value_dim) {
  const float merged = span_maximum > *maximum ? span_maximum : *maximum;
  const float factor = exact::ExpF(*maximum - merged);
  const float span_factor = exact::ExpF(span_maximum - merged);
  *maximum = merged;
  *sum = std::fma(*sum, factor, span_sum * span_factor);
  for (int d = 0; d < value_dim; ++d) {
    values[d] = std::fma(values[d], factor, span_values[d] * span_factor);
  }
}

void FinishAttention(float* values, float sum, int value_dim) {
  const float inverse = 1.0f / sum;
  for (int d = 0; d < value_dim; ++d) values[d] = values[d] * inverse;
}

}  // namespace quire::reference
