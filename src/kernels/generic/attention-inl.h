// Attention over one span of 128 keys.
//
// Per span and tile of Q queries, with keys and values of D dimensions: 2 * 128 * Q * D
// multiply-adds, and bytes read by type:
//   f32        1,024 * D   1.5 FMAs a byte at Q = 6
//   f16, bf16    512 * D   3
//   q8_0         272 * D   5.6; int8 products, four a lane and instruction with VNNI
// A core with one 16-lane FMA a cycle at 3.7 GHz needs 20 GB/s of f16 keys and values at Q = 6, and
// so the FMAs are the limit; at Q = 1 the bandwidth is. A span's keys (32 KiB of f16 at D = 128) do
// not fit the first-level cache beside its values, so both stream from the second level, where the
// prefetches below put them.
//
// Register blocking: Q queries by B vectors, Q * B accumulators, so that a loaded and widened
// vector serves Q FMAs and a broadcast query or weight serves B.
//
// Included inside the namespace of an instruction set, after exp-inl.h and a `using ByteVectors =`
// of those (byte_vector.h) that q8_0 is computed with.
#pragma once

namespace {

constexpr int kSpanBlocks = kSpanKeys / kBlockSlots;
static_assert(kBlockSlots == 16, "a block of keys is one vector of lanes");

// Whether elements of this type share scales, which lie behind the kBlockSlots rows of a head.
template <typename T>
constexpr bool kScaled = false;
template <>
constexpr bool kScaled<int8_t> = true;

QUIRE_FORCE_INLINE const uint16_t* ScalesOf(const int8_t* head, int dim) {
  return reinterpret_cast<const uint16_t*>(head + static_cast<size_t>(dim) * kBlockSlots);
}

// The vectors that go beside Q queries: a power of two, 8 at most.
constexpr int VectorsBeside(int num_queries) {
  const int fit = kAccumulators / num_queries;
  return fit >= 8 ? 8 : fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
}

}  // namespace

#include "kernels/generic/attention_q8_0-inl.h"
#include "kernels/generic/attention_values_q8_0-inl.h"

namespace {

// sums[q][v] = fma(scalar(q), vector(v), sums[q][v]). The operands that are fewer registers stay,
// the others pass through one.
template <int Q, int V, typename Scalar, typename Vector>
QUIRE_FORCE_INLINE void OuterProduct(const Scalar& scalar, const Vector& vector,
                                     F32x16 (&sums)[Q][V]) {
  if constexpr (Q <= 3) {
    F32x16 scalars[Q];
#pragma GCC unroll 8
    for (int q = 0; q < Q; ++q) scalars[q] = scalar(q);
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const F32x16 loaded = vector(v);
#pragma GCC unroll 8
      for (int q = 0; q < Q; ++q) sums[q][v] = Fma(scalars[q], loaded, sums[q][v]);
    }
  } else {
    F32x16 vectors[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) vectors[v] = vector(v);
#pragma GCC unroll 8
    for (int q = 0; q < Q; ++q) {
      const F32x16 broadcast = scalar(q);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sums[q][v] = Fma(broadcast, vectors[v], sums[q][v]);
    }
  }
}

// Scores of Q queries [key_dim][Q] and the keys of B blocks: out[q * kSpanKeys + 16 * b + lane].
// Meanwhile the same bytes of the blocks `next` are prefetched.
template <typename T, int Q, int B>
QUIRE_FORCE_INLINE void ScoreBlocks(const float* queries, int key_dim, const T* const* blocks,
                                    const T* const* next, float* out) {
  F32x16 sums[Q][B];
#pragma GCC unroll 8
  for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 8
    for (int b = 0; b < B; ++b) sums[q][b] = Zero();
  }
  const T* keys[B];
  const T* next_lines[B];
#pragma GCC unroll 8
  for (int b = 0; b < B; ++b) {
    keys[b] = blocks[b];
    next_lines[b] = next[b];
  }
  for (int d = 0; d < key_dim; ++d) {
    const float* query = queries + static_cast<size_t>(d) * Q;
    const size_t line = static_cast<size_t>(d) * kBlockSlots;
#pragma GCC unroll 8
    for (int b = 0; b < B; ++b) Prefetch(next_lines[b] + line);
    OuterProduct<Q, B>([&](int q) { return Set(query[q]); },
                       [&](int b) { return Load(keys[b] + line); }, sums);
  }
#pragma GCC unroll 8
  for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 8
    for (int b = 0; b < B; ++b) Store(sums[q][b], out + q * kSpanKeys + b * kBlockSlots);
  }
}

// The same for num_blocks blocks: as many as fit at a time, then the rest in halves.
template <typename T, int Q, int B>
QUIRE_FORCE_INLINE void ScoreAll(const float* queries, int key_dim, const T* const* blocks,
                                 const T* const* next, int num_blocks, float* out) {
  int i = 0;
  for (; i + B <= num_blocks; i += B) {
    ScoreBlocks<T, Q, B>(queries, key_dim, blocks + i, next + i, out + i * kBlockSlots);
  }
  if constexpr (B > 1) {
    if (i < num_blocks) {
      ScoreAll<T, Q, B / 2>(queries, key_dim, blocks + i, next + i, num_blocks - i,
                            out + i * kBlockSlots);
    }
  }
}

template <bool kWhole, typename T>
QUIRE_FORCE_INLINE F32x16 LoadLanes(const T* x, [[maybe_unused]] int rest) {
  if constexpr (kWhole) {
    return Load(x);
  } else {
    return LoadFirst(x, rest);
  }
}

// What the chain of a value begins with.
alignas(64) constexpr float kNoValues[8 * 16] = {};

// values[q][d] continues its chain over the keys begin..end - 1, or begins it, for V vectors of
// dimensions or for the first `rest` lanes of one. weights [Q][kSpanKeys], values [Q][value_dim].
// Meanwhile the same bytes of the blocks `next` are prefetched.
template <typename T, int Q, int V, bool kWhole>
QUIRE_FORCE_INLINE void AccumulateValues(const T* const* blocks, const T* const* next,
                                         const float* weights, int begin, int end, bool continued,
                                         int value_dim, int first_dim, [[maybe_unused]] int rest,
                                         float* values) {
  constexpr int kLine = 64 / sizeof(T);
  F32x16 sums[Q][V];
  const float* earlier = continued ? values + first_dim : kNoValues;
  const size_t earlier_stride = continued ? value_dim : 0;
#pragma GCC unroll 8
  for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      sums[q][v] = LoadLanes<kWhole>(earlier + q * earlier_stride + v * 16, rest);
    }
  }
  for (int key = begin; key < end;) {
    const int slot = key % kBlockSlots;
    const size_t offset = static_cast<size_t>(slot) * value_dim + first_dim;
    const T* row = blocks[key / kBlockSlots] + offset;
    const T* next_line = next[key / kBlockSlots] + offset;
    const int block_end = (key / kBlockSlots + 1) * kBlockSlots;
    const int stop = block_end < end ? block_end : end;
    for (; key < stop; ++key, row += value_dim, next_line += value_dim) {
#pragma GCC unroll 8
      for (int i = 0; i < V * 16; i += kLine) Prefetch(next_line + i);
      const auto weight = [&](int q) { return Set(weights[q * kSpanKeys + key]); };
      OuterProduct<Q, V>(
          weight, [&](int v) { return LoadLanes<kWhole>(row + v * 16, rest); }, sums);
    }
  }
#pragma GCC unroll 8
  for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      float* out = values + static_cast<size_t>(q) * value_dim + first_dim + v * 16;
      if constexpr (kWhole) {
        Store(sums[q][v], out);
      } else {
        StoreFirst(sums[q][v], out, rest);
      }
    }
  }
}

template <typename T, int Q, int V>
QUIRE_FORCE_INLINE void AccumulateFrom(const T* const* blocks, const T* const* next,
                                       const float* weights, int begin, int end, bool continued,
                                       int value_dim, int first_dim, float* values) {
  for (; first_dim + V * 16 <= value_dim; first_dim += V * 16) {
    AccumulateValues<T, Q, V, true>(blocks, next, weights, begin, end, continued, value_dim,
                                    first_dim, 0, values);
  }
  if (first_dim == value_dim) return;
  if constexpr (V > 1) {
    AccumulateFrom<T, Q, V / 2>(blocks, next, weights, begin, end, continued, value_dim, first_dim,
                                values);
  } else {
    AccumulateValues<T, Q, 1, false>(blocks, next, weights, begin, end, continued, value_dim,
                                     first_dim, value_dim - first_dim, values);
  }
}

// All dimensions of Q queries over the keys begin..end - 1, which every one of them attends.
template <typename T, int Q>
void AccumulateAll(const T* const* blocks, const T* const* next, const float* weights, int begin,
                   int end, bool continued, int value_dim, float* values) {
  if (begin >= end) return;
  AccumulateFrom<T, Q, VectorsBeside(Q)>(blocks, next, weights, begin, end, continued, value_dim, 0,
                                         values);
}

// lanes, but `other` for the keys of the block at `start` that are not attended. Blocks of which
// all are need no mask.
QUIRE_FORCE_INLINE F32x16 KeepAttended(F32x16 lanes, int start, int first_key, int end_key,
                                       F32x16 other) {
  if (start >= first_key && start + kBlockSlots <= end_key) return lanes;
  return KeepLanes(lanes, first_key - start, end_key - start, other);
}

// Scores become weights: scores [num_queries][kSpanKeys] of the blocks first_block..end_block - 1
// become exp(score - maximum), and 0 for the keys that their query does not attend; kWhole where
// each attends them all. All maxima come first: no exponential waits for its own query's scores.
template <bool kWhole>
void Softmax(const AttentionSpanJob& job, int first_block, int end_block, float* scores) {
  const auto keep = [&](F32x16 lanes, int q, int start, F32x16 other) {
    if constexpr (kWhole) return lanes;
    return KeepAttended(lanes, start, job.first_key[q], job.end_key[q], other);
  };
  for (int q = 0; q < job.num_queries; ++q) {
    const F32x16 lowest = Set(-__builtin_inff());
    F32x16 maxima = lowest;
    for (int b = first_block; b < end_block; ++b) {
      const int start = b * kBlockSlots;
      maxima = Max(keep(Load(scores + q * kSpanKeys + start), q, start, lowest), maxima);
    }
    job.maxima[q] = MaxOfLanes(maxima);
  }
  for (int q = 0; q < job.num_queries; ++q) {
    const F32x16 top = Set(job.maxima[q]);
    F32x16 lanes = Zero();
    for (int b = first_block; b < end_block; ++b) {
      const int start = b * kBlockSlots;
      float* place = scores + q * kSpanKeys + start;
      const F32x16 weight = keep(Exp(Sub(Load(place), top)), q, start, Zero());
      Store(weight, place);
      lanes = Add(lanes, weight);
    }
    job.sums[q] = SumOfLanes(lanes);
  }
}

// The keys that some query attends, and those that all of them do.
struct SpanKeys {
  int first;
  int end;
  int common_first;
  int common_end;
};

QUIRE_FORCE_INLINE SpanKeys FindSpanKeys(const AttentionSpanJob& job) {
  SpanKeys keys = {kSpanKeys, 0, 0, kSpanKeys};
  for (int q = 0; q < job.num_queries; ++q) {
    const int first = job.first_key[q];
    const int end = job.end_key[q];
    if (first < end && first < keys.first) keys.first = first;
    if (first < end && end > keys.end) keys.end = end;
    if (first > keys.common_first) keys.common_first = first;
    if (end < keys.common_end) keys.common_end = end;
  }
  return keys;
}

// values [Q][value_dim] <- the sums over the keys that each query attends: together, where all do.
template <typename T, int Q>
QUIRE_FORCE_INLINE void AccumulateSpan(const AttentionSpanJob& job, const SpanKeys& keys,
                                       const T* const* value_blocks, const T* const* next_blocks,
                                       const float* weights) {
  const int value_dim = job.value_dim;
  if (keys.common_first == keys.first && keys.common_end == keys.end) {
    AccumulateAll<T, Q>(value_blocks, next_blocks, weights, keys.first, keys.end, false, value_dim,
                        job.values);
    return;
  }
  const auto alone = [&](int q, int begin, int end) {
    AccumulateAll<T, 1>(value_blocks, value_blocks, weights + q * kSpanKeys, begin, end, true,
                        value_dim, job.values + q * value_dim);
  };
  const bool together = keys.common_first < keys.common_end;
  const bool begin_together = together && keys.common_first == keys.first;
  if (!begin_together) {
    for (int i = 0; i < Q * value_dim; ++i) job.values[i] = 0.0f;
  }
  if (!together) {
    for (int q = 0; q < Q; ++q) alone(q, job.first_key[q], job.end_key[q]);
    return;
  }
  for (int q = 0; q < Q; ++q) alone(q, job.first_key[q], keys.common_first);
  AccumulateAll<T, Q>(value_blocks, next_blocks, weights, keys.common_first, keys.common_end,
                      !begin_together, value_dim, job.values);
  for (int q = 0; q < Q; ++q) alone(q, keys.common_end, job.end_key[q]);
}

template <typename T, int Q>
void AttendQueries(const AttentionSpanJob& job) {
  const SpanKeys keys = FindSpanKeys(job);
  const int first_block = keys.first / kBlockSlots;
  const int end_block = (keys.end + kBlockSlots - 1) / kBlockSlots;
  const T* key_blocks[kSpanBlocks];
  const T* value_blocks[kSpanBlocks];
  const T* next_blocks[kSpanBlocks];
  for (int b = first_block; b < end_block; ++b) {
    // A block that nobody needs between others: any memory will do for what is masked.
    const int needed = job.key_blocks[b] != nullptr ? b : first_block;
    key_blocks[b] = reinterpret_cast<const T*>(job.key_blocks[needed]);
    value_blocks[b] = reinterpret_cast<const T*>(job.value_blocks[needed]);
    // Prefetches of what is near already cost little; those of no address cost a page walk.
    const std::byte* next = job.next_key_blocks.empty() ? nullptr : job.next_key_blocks[b];
    next_blocks[b] = next != nullptr ? reinterpret_cast<const T*>(next) : value_blocks[b];
  }
  alignas(64) float weights[Q * kSpanKeys];
  float* scores = weights + first_block * kBlockSlots;
  if constexpr (kScaled<T>) {
    ScoreQuantized<Q>(*job.quantized, key_blocks + first_block, value_blocks + first_block,
                      end_block - first_block, scores);
  } else {
    ScoreAll<T, Q, VectorsBeside(Q)>(job.queries, job.key_dim, key_blocks + first_block,
                                     value_blocks + first_block, end_block - first_block, scores);
  }
  if (keys.common_first == 0 && keys.common_end == kSpanKeys) {
    Softmax<true>(job, 0, kSpanBlocks, weights);
  } else {
    Softmax<false>(job, first_block, end_block, weights);
  }

  if constexpr (kScaled<T>) {
    SumQuantized<Q>({.blocks = value_blocks + first_block,
                     .next = next_blocks + first_block,
                     .num_blocks = end_block - first_block,
                     .value_dim = job.value_dim,
                     .weights = scores,
                     .dither = kKeyDither.steps + first_block * kBlockSlots},
                    job.values);
  } else {
    AccumulateSpan<T, Q>(job, keys, value_blocks, next_blocks, weights);
  }
}

template <typename T>
void AttendSpanOf(const AttentionSpanJob& job) {
  switch (job.num_queries) {
    case 1:
      return AttendQueries<T, 1>(job);
    case 2:
      return AttendQueries<T, 2>(job);
    case 3:
      return AttendQueries<T, 3>(job);
    case 4:
      return AttendQueries<T, 4>(job);
    case 5:
      return AttendQueries<T, 5>(job);
    case 6:
      return AttendQueries<T, 6>(job);
  }
}
static_assert(kMaxSpanQueries == 6);

QUIRE_FORCE_INLINE void AttendSpanOfAnyType(const AttentionSpanJob& job) {
  switch (job.type) {
    case KvType::kF16:
      return AttendSpanOf<uint16_t>(job);
    case KvType::kF32:
      return AttendSpanOf<float>(job);
    case KvType::kBF16:
      return AttendSpanOf<Bf16>(job);
    case KvType::kQ8_0:
      return AttendSpanOf<int8_t>(job);
  }
}

}  // namespace
