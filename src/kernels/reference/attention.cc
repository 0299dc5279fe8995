// Attention over one span as docs/numerics.md writes it, one query, key and element at a time.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/exact_math.h"
#include "kernels/reference/kernels.h"
#include "tensor/float16.h"

namespace quire::reference {
namespace {

constexpr int kLanes = 16;
constexpr float kMostWeight = 255.0f;
// A group up to here is all zero.
constexpr float kLeastQuantized = 1e-30f;

template <typename T>
T LoadAs(const std::byte* array, size_t idx) {
  T value;
  std::memcpy(&value, array + idx * sizeof(value), sizeof(value));
  return value;
}

template <typename T>
void StoreAs(T value, std::byte* array, size_t idx) {
  std::memcpy(array + idx * sizeof(value), &value, sizeof(value));
}

// Element `idx` of an array of f16, bf16 or f32.
float Load(KvType type, const std::byte* array, size_t idx) {
  if (type == KvType::kF32) return LoadAs<float>(array, idx);
  const uint16_t half = LoadAs<uint16_t>(array, idx);
  return type == KvType::kBF16 ? Bf16ToF32(half) : F16ToF32(half);
}

// Returns false if the stored value is not finite.
bool Store(KvType type, float value, std::byte* array, size_t idx) {
  if (type == KvType::kF32) {
    StoreAs(value, array, idx);
    return std::isfinite(value);
  }
  if (type == KvType::kBF16) {
    const uint16_t half = F32ToBf16(value);
    StoreAs(half, array, idx);
    return std::isfinite(Bf16ToF32(half));
  }
  const uint16_t half = F32ToF16(value);
  StoreAs(half, array, idx);
  return std::isfinite(F16ToF32(half));
}

// The scales of q8_0 lie behind the bytes of the slots.
const std::byte* ScalesOf(const std::byte* head, int dim) {
  return head + static_cast<size_t>(dim) * kBlockSlots;
}

// Where the element d of a value lies among the bytes of a head.
size_t QuantizedValuePlace(int slot, int d) {
  const int group_fours = d / kKvScaleGroup * (kBlockSlots / 4) + slot / 4;
  return (static_cast<size_t>(group_fours) * kKvScaleGroup + d % kKvScaleGroup) * 4 + slot % 4;
}

// A group of q8_0. Returns false if its values are not finite or its scale does not fit f16.
bool QuantizeGroup(const float* x, int8_t* quants, uint16_t* scale) {
  float absmax = 0.0f;
  for (int i = 0; i < kKvScaleGroup; ++i) {
    if (!std::isfinite(x[i])) return false;
    absmax = std::max(absmax, std::fabs(x[i]));
  }
  *scale = F32ToF16(absmax / 127.0f);
  const float stored_scale = F16ToF32(*scale);
  if (!std::isfinite(stored_scale)) return false;
  const float inverse = stored_scale == 0.0f ? 0.0f : 1.0f / stored_scale;
  for (int i = 0; i < kKvScaleGroup; ++i) {
    const float rounded = std::nearbyintf(x[i] * inverse);
    quants[i] = static_cast<int8_t>(std::clamp(rounded, -127.0f, 127.0f));
  }
  return true;
}

// Where the element k of a row lies among the quants of the rows, and its group among the scales.
struct RowPlace {
  int first_row;  // of the row's tile
  int height;

  explicit RowPlace(int num_rows, int row) : first_row(0) {
    while (row >= first_row + TileRows(num_rows - first_row)) {
      first_row += TileRows(num_rows - first_row);
    }
    height = TileRows(num_rows - first_row);
  }
  size_t Quant(const QuantizedRows& rows, int row, int k) const {
    return static_cast<size_t>(first_row) * rows.num_cols +
           static_cast<size_t>(k / 4 * height + row - first_row) * 4 + k % 4;
  }
  size_t Scale(const QuantizedRows& rows, int row, int group) const {
    return static_cast<size_t>(first_row) * (rows.num_cols / kGroupColumns) +
           static_cast<size_t>(group) * height + row - first_row;
  }
};

float QuantizedScore(const AttentionSpanJob& job, int query, int key) {
  const QuantizedRows& queries = *job.quantized;
  const RowPlace place(queries.num_rows, query);
  const std::byte* keys = job.key_blocks[key / kBlockSlots];
  const int slot = key % kBlockSlots;
  float score = 0.0f;
  for (int group = 0; group < job.key_dim / kKvScaleGroup; ++group) {
    int isum = 0;
    for (int d = group * kKvScaleGroup; d < (group + 1) * kKvScaleGroup; ++d) {
      const int8_t element = LoadAs<int8_t>(keys, (d / 4 * kBlockSlots + slot) * 4 + d % 4);
      isum += queries.quants[place.Quant(queries, query, d)] * element;
    }
    const uint16_t scale =
        LoadAs<uint16_t>(ScalesOf(keys, job.key_dim), group * kBlockSlots + slot);
    score = std::fma(queries.scales[place.Scale(queries, query, group)] * F16ToF32(scale),
                     static_cast<float>(isum), score);
  }
  return score;
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
  if (job.type == KvType::kQ8_0) return QuantizedScore(job, query, key);
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

// What is added to the weight of a key before it is rounded: -1/2 to 1/2, by its reversed bits.
float KeyDither(int key) {
  int reversed = 0;
  for (int bit = 1; bit < kSpanKeys; bit *= 2) reversed = 2 * reversed + ((key & bit) != 0 ? 1 : 0);
  return (static_cast<float>(reversed) + 0.5f) / kSpanKeys - 0.5f;
}

// The weighted sums of a query's values in the dimensions of one group, for its weights by key.
void SumQuantizedValues(const AttentionSpanJob& job, int query, int group, const float* weights,
                        float* values) {
  const int first = job.first_key[query];
  const int end = job.end_key[query];
  float products[kSpanKeys];
  float top = 0.0f;
  for (int key = first; key < end; ++key) {
    const std::byte* scales = ScalesOf(job.value_blocks[key / kBlockSlots], job.value_dim);
    const auto scale = LoadAs<uint16_t>(scales, group * kBlockSlots + key % kBlockSlots);
    products[key] = weights[key] * F16ToF32(scale);
    top = products[key] > top ? products[key] : top;
  }
  const bool none = top <= kLeastQuantized;
  const float scale = none ? 0.0f : top / kMostWeight;
  const float inverse = none ? 0.0f : kMostWeight / top;
  for (int d = 0; d < kKvScaleGroup; ++d) {
    int isum = 0;
    for (int key = first; key < end; ++key) {
      const auto element =
          LoadAs<int8_t>(job.value_blocks[key / kBlockSlots],
                         QuantizedValuePlace(key % kBlockSlots, group * kKvScaleGroup + d));
      const float dithered = std::fma(products[key], inverse, KeyDither(key));
      isum += static_cast<int>(std::nearbyintf(dithered)) * element;
    }
    values[d] = scale * static_cast<float>(isum);
  }
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
  float* values = job.values + static_cast<size_t>(query) * job.value_dim;
  if (job.type == KvType::kQ8_0) {
    for (int group = 0; group < job.value_dim / kKvScaleGroup; ++group) {
      SumQuantizedValues(job, query, group, weights, values + group * kKvScaleGroup);
    }
    return;
  }
  for (int d = 0; d < job.value_dim; ++d) {
    float value = 0.0f;
    for (int key = first; key < end; ++key) {
      value = std::fma(weights[key], ValueElement(job, key, d), value);
    }
    values[d] = value;
  }
}

}  // namespace

bool StoreKey(const float* key, int key_dim, KvType type, int slot, std::byte* block_keys) {
  bool finite = true;
  if (type == KvType::kQ8_0) {
    std::byte* scales = block_keys + static_cast<size_t>(key_dim) * kBlockSlots;
    for (int d = 0; d < key_dim; d += kKvScaleGroup) {
      int8_t quants[kKvScaleGroup] = {};
      uint16_t scale = 0;
      finite &= QuantizeGroup(key + d, quants, &scale);
      for (int i = 0; i < kKvScaleGroup; ++i) {
        StoreAs(quants[i], block_keys, ((d + i) / 4 * kBlockSlots + slot) * 4 + i % 4);
      }
      StoreAs(scale, scales, d / kKvScaleGroup * kBlockSlots + slot);
    }
    return finite;
  }
  for (int d = 0; d < key_dim; ++d) {
    finite &= Store(type, key[d], block_keys, static_cast<size_t>(d) * kBlockSlots + slot);
  }
  return finite;
}

bool StoreValue(const float* value, int value_dim, KvType type, int slot, std::byte* block_values) {
  bool finite = true;
  if (type == KvType::kQ8_0) {
    std::byte* scales = block_values + static_cast<size_t>(value_dim) * kBlockSlots;
    for (int d = 0; d < value_dim; d += kKvScaleGroup) {
      int8_t quants[kKvScaleGroup] = {};
      uint16_t scale = 0;
      finite &= QuantizeGroup(value + d, quants, &scale);
      for (int i = 0; i < kKvScaleGroup; ++i) {
        StoreAs(quants[i], block_values, QuantizedValuePlace(slot, d + i));
      }
      StoreAs(scale, scales, d / kKvScaleGroup * kBlockSlots + slot);
    }
    return finite;
  }
  for (int d = 0; d < value_dim; ++d) {
    finite &= Store(type, value[d], block_values, static_cast<size_t>(slot) * value_dim + d);
  }
  return finite;
}

void AttendSpan(const AttentionSpanJob& job) {
  for (int query = 0; query < job.num_queries; ++query) AttendQuery(job, query);
}

void MergeSpan(const SpanMergeJob& job) {
  for (int q = 0; q < job.num_queries; ++q) {
    const float before = job.maxima[q];
    const float merged = job.span_maxima[q] > before ? job.span_maxima[q] : before;
    const float factor = exact::ExpF(before - merged);
    const float span_factor = exact::ExpF(job.span_maxima[q] - merged);
    job.maxima[q] = merged;
    job.sums[q] = std::fma(job.sums[q], factor, job.span_sums[q] * span_factor);
    const float* span_values = job.span_values + static_cast<size_t>(q) * job.value_dim;
    float* values = job.values[q];
    for (int d = 0; d < job.value_dim; ++d) {
      values[d] = std::fma(values[d], factor, span_values[d] * span_factor);
    }
  }
}

void FinishAttention(float* values, float sum, int value_dim) {
  const float inverse = 1.0f / sum;
  for (int d = 0; d < value_dim; ++d) values[d] = values[d] * inverse;
}

}  // namespace quire::reference
