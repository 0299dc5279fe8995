// Weighted sums of q8_0 values: products of bytes, the weights of a query times the scales of the
// values being rounded to 0..255, once for each group of 32 dimensions and each span.
//
// For 128 keys a query and group of dimensions take some 60 vector instructions to make the bytes
// and, with VNNI, 64 products: under half the time of 256 FMAs over floats. Without VNNI products
// are of 16 bits: values are widened in registers, the even and the odd keys of each four apart,
// for all queries at once.
//
// Rounding is dithered, so that many small weights do not all vanish beside a large one.
//
// Weights of keys that are not attended are 0, and so are their bytes, whatever their slots hold: a
// product with a scale that is infinite or not a number is not a number, which Max passes over and
// rounding to a byte makes 0.
//
// Included by attention-inl.h.
#pragma once

namespace {

constexpr float kMostWeight = 255.0f;
// A group up to here is all zero.
constexpr float kLeastWeight = 1e-30f;

// What is added to the weight of each key of a span before it is rounded: the 128 steps between
// -1/2 and 1/2, in the order of reversed bits, so that any neighbours have them evenly.
struct KeyDither {
  float steps[kSpanKeys] = {};

  constexpr KeyDither() {
    for (int key = 0; key < kSpanKeys; ++key) {
      int reversed = 0;
      for (int bit = 1; bit < kSpanKeys; bit *= 2) {
        reversed = 2 * reversed + ((key & bit) != 0 ? 1 : 0);
      }
      steps[key] = (static_cast<float>(reversed) + 0.5f) / kSpanKeys - 0.5f;
    }
  }
};
alignas(64) constexpr KeyDither kKeyDither;

// Blocks of a span whose values are to be summed.
struct SpanValues {
  const int8_t* const* blocks = nullptr;  // [num_blocks]
  const int8_t* const* next = nullptr;    // [num_blocks]: prefetched meanwhile
  int num_blocks = 0;
  int value_dim = 0;
  const float* weights = nullptr;  // [Q][kSpanKeys], from the first key of the blocks on
  const float* dither = nullptr;   // [num_blocks * kBlockSlots]
};

// The weights of Q queries for the values of one group, in the order of the keys: four bytes to
// four keys or, to be multiplied as 16 bits, all even keys and then all odd ones.
template <typename Isa, int Q>
struct GroupWeights {
  alignas(64) uint8_t bytes[Q][Isa::kPairs ? 2 * kSpanKeys : kSpanKeys];
  float scales[Q];
};

// The bytes of R rows of `out` from row `first` on, weights times scales [kSpanKeys]: side by side,
// for each waits for its largest product.
template <typename Isa, int R, int Q>
QUIRE_FORCE_INLINE void WeightsToBytes(const SpanValues& span, const float* scales, int first,
                                       GroupWeights<Isa, Q>& out) {
  const float* weights = span.weights + first * kSpanKeys;
  const int end_key = span.num_blocks * kBlockSlots;
  F32x16 tops[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) tops[r] = Zero();
  for (int key = 0; key < end_key; key += kBlockSlots) {
    const F32x16 scale = Load(scales + key);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      tops[r] = Max(Mul(Load(weights + r * kSpanKeys + key), scale), tops[r]);
    }
  }
  F32x16 inverses[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const float top = MaxOfLanes(tops[r]);
    const bool none = top <= kLeastWeight;
    out.scales[first + r] = none ? 0.0f : top / kMostWeight;
    inverses[r] = Set(none ? 0.0f : kMostWeight / top);
  }
  for (int key = 0; key < end_key; key += kBlockSlots) {
    const F32x16 scale = Load(scales + key);
    const F32x16 dither = Load(span.dither + key);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const F32x16 product = Mul(Load(weights + r * kSpanKeys + key), scale);
      Store(Fma(product, inverses[r], dither), out.bytes[first + r] + key);
    }
  }
}

// The weights for one group of the values.
template <typename Isa, int Q>
QUIRE_FORCE_INLINE void QuantizeWeights(const SpanValues& span, int group,
                                        GroupWeights<Isa, Q>& out) {
  alignas(64) float scales[kSpanKeys];
  for (int b = 0; b < span.num_blocks; ++b) {
    Store(Load(ScalesOf(span.blocks[b], span.value_dim) + group * kBlockSlots),
          scales + b * kBlockSlots);
  }
  constexpr int kRows = Isa::kParts == 1 ? Q : 1;  // for which there are registers
  for (int q = 0; q < Q; q += kRows) {
    WeightsToBytes<Isa, kRows>(span, scales, q, out);
  }
  if constexpr (Isa::kPairs) {
    for (int q = 0; q < Q; ++q) {
      for (int i = 0; i < span.num_blocks * kBlockSlots; i += 4 * Isa::kLanes) {
        const auto keys = Isa::LoadBytes(out.bytes[q] + i);
        const auto low = Isa::template ShiftRight<-8>(keys);
        Isa::StoreBytes(out.bytes[q] + i, Isa::template ShiftRight<8>(low));
        Isa::StoreBytes(out.bytes[q] + kSpanKeys + i, Isa::template ShiftRight<8>(keys));
      }
    }
  }
}

// The vectors of dimensions whose sums fit the registers beside Q queries, and are enough to hide
// the latency of a product: a power of two.
template <typename Isa>
constexpr int ValueVectorsBeside(int num_queries) {
  if (Isa::kParts > 1) return num_queries == 1 ? 2 : 1;
  if (Isa::kPairs) return 2;
  return num_queries == 1 ? 8 : num_queries == 2 ? 4 : 2;
}

template <typename Isa>
constexpr int kGroupVectors = kKvScaleGroup / Isa::kLanes;

// sums[q][v] += the products of four keys' values and their weights, from the key `first_key` on.
template <typename Isa, int Q, int V>
QUIRE_FORCE_INLINE void AddProducts(const GroupWeights<Isa, Q>* weights, int first_key,
                                    const typename Isa::Bytes (&values)[V],
                                    typename Isa::Ints (&sums)[Q][V]) {
  const auto weight = [&](int q, int v, int place) {
    const uint8_t* bytes = weights[v / kGroupVectors<Isa>].bytes[q] + place;
    return Isa::Broadcast4(reinterpret_cast<const int8_t*>(bytes));
  };
  if constexpr (Isa::kPairs) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const auto even = Isa::EvenBytes(values[v]);
      const auto odd = Isa::OddBytes(values[v]);
#pragma GCC unroll 8
      for (int q = 0; q < Q; ++q) {
        sums[q][v] = Isa::AddInts(sums[q][v], Isa::WordDot(even, weight(q, v, first_key)));
        sums[q][v] =
            Isa::AddInts(sums[q][v], Isa::WordDot(odd, weight(q, v, kSpanKeys + first_key)));
      }
    }
  } else {
#pragma GCC unroll 8
    for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        sums[q][v] = Isa::Dot(sums[q][v], weight(q, v, first_key), values[v]);
      }
    }
  }
}

// values[q][d] <- the sums of Q queries for V vectors of dimensions from `first_vector` on, in the
// groups of `weights`. Meanwhile the same bytes of the blocks `next` are prefetched.
template <typename Isa, int Q, int V>
QUIRE_FORCE_INLINE void SumValueVectors(const SpanValues& span, const GroupWeights<Isa, Q>* weights,
                                        int first_vector, float* values) {
  constexpr int kVectorBytes = 4 * Isa::kLanes;
  constexpr int kFourBytes = 4 * kKvScaleGroup;
  constexpr int kGroupBytes = kBlockSlots * kKvScaleGroup;
  const size_t first = first_vector / kGroupVectors<Isa> * kGroupBytes +
                       first_vector % kGroupVectors<Isa> * kVectorBytes;
  typename Isa::Ints sums[Q][V];
#pragma GCC unroll 8
  for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sums[q][v] = Isa::SetInt(0);
  }
  for (int b = 0; b < span.num_blocks; ++b) {
    const auto* block = reinterpret_cast<const uint8_t*>(span.blocks[b]) + first;
    const int8_t* next_block = span.next[b] + first;
    const int first_key = b * kBlockSlots;
#pragma GCC unroll 4
    for (int four = 0; four < kBlockSlots / 4; ++four) {
      typename Isa::Bytes loaded[V];
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        const size_t place = v / kGroupVectors<Isa> * kGroupBytes + four * kFourBytes +
                             v % kGroupVectors<Isa> * kVectorBytes;
        Prefetch(next_block + place);
        loaded[v] = Isa::LoadBytes(block + place);
      }
      AddProducts<Isa, Q, V>(weights, first_key + 4 * four, loaded, sums);
    }
  }
#pragma GCC unroll 8
  for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const auto scale = Isa::SetFloat(weights[v / kGroupVectors<Isa>].scales[q]);
      float* out = values + static_cast<size_t>(q) * span.value_dim;
      Isa::Store(out + (first_vector + v) * Isa::kLanes,
                 Isa::Mul(scale, Isa::ToFloats(sums[q][v])));
    }
  }
}

// The same for the groups from `group` on: as many as fit at a time, then the rest in halves.
template <typename Isa, int Q, int V>
QUIRE_FORCE_INLINE void SumGroupsFrom(const SpanValues& span, int group, float* values) {
  constexpr int kGroups = V > kGroupVectors<Isa> ? V / kGroupVectors<Isa> : 1;
  const int num_groups = span.value_dim / kKvScaleGroup;
  for (; group + kGroups <= num_groups; group += kGroups) {
    GroupWeights<Isa, Q> group_weights[kGroups];
#pragma GCC unroll 4
    for (int i = 0; i < kGroups; ++i) {
      QuantizeWeights<Isa, Q>(span, group + i, group_weights[i]);
    }
    for (int b = 0; b < span.num_blocks; ++b) {
      Prefetch(ScalesOf(span.next[b], span.value_dim) + group * kBlockSlots);
    }
    const int end_vector = (group + kGroups) * kGroupVectors<Isa>;
    for (int vector = group * kGroupVectors<Isa>; vector < end_vector; vector += V) {
      SumValueVectors<Isa, Q, V>(span, group_weights, vector, values);
    }
  }
  if constexpr (kGroups > 1) {
    if (group < num_groups) SumGroupsFrom<Isa, Q, V / 2>(span, group, values);
  }
}

// values [Q][value_dim] <- the weighted sums of Q queries.
template <int Q>
QUIRE_FORCE_INLINE void SumQuantized(const SpanValues& span, float* values) {
  SumGroupsFrom<ByteVectors, Q, ValueVectorsBeside<ByteVectors>(Q)>(span, 0, values);
}

}  // namespace
