// Scores over q8_0 keys: products of int8, sixteen (or eight) keys to a vector of 32-bit sums.
//
// A group of 32 dimensions takes 8 steps of Q * V byte products, for V vectors of keys, and then
// one conversion, one multiplication and one FMA for each sum. With VNNI a step is one instruction
// of 64 products: 4 times the rate of FMAs over floats. Without it a step is four instructions
// (sign, pairs, widening, addition) of 64 or 32 products, the rate of FMAs and a little under it.
//
// Of the time of a span with VNNI (6 queries, 128 dimensions, 6,500 cycles) scores take 37 %, the
// exponentials 17 %, the bytes of the weights 20 % and the sums of the values 26 %.
//
// VNNI multiplies unsigned by signed bytes: keys get 128 added, and the sum starts at -128 times
// the sum of the query's bytes. In pairs, |k| * q with the sign of k turned into q: at most 2 * 128
// * 127, which 16 bits hold. Both are exact.
//
// Included by attention-inl.h.
#pragma once

namespace {

// The queries of a span are one tile of QuantizedRows, Q rows high.
static_assert(kMaxSpanQueries < kMaxTileRows);

// The vectors of keys whose sums fit the registers beside Q queries: a power of two.
template <typename Isa>
constexpr int KeyVectorsBeside(int num_queries) {
  const int sums = Isa::kParts == 1 ? 12 : 6;
  const int fit = sums / num_queries;
  return fit >= 8 ? 8 : fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
}

template <typename Isa>
QUIRE_FORCE_INLINE typename Isa::Ints DotKeys(typename Isa::Ints sum, typename Isa::Bytes keys,
                                              typename Isa::Bytes query) {
  if constexpr (Isa::kPairs) {
    const auto pairs = Isa::PairDot(Isa::Abs(keys), Isa::TurnSign(query, keys));
    return Isa::AddInts(sum, Isa::Widen(pairs));
  } else {
    return Isa::Dot(sum, Isa::Xor(keys, Isa::SetBytes(0x80)), query);
  }
}

// Scores of Q queries and V vectors of keys from `first_vector` on, kParts vectors to a block:
// out[q * kSpanKeys + kLanes * v + lane]. Meanwhile the same bytes of the blocks `next` are
// prefetched.
template <typename Isa, int Q, int V>
QUIRE_FORCE_INLINE void ScoreKeyVectors(const QuantizedRows& queries, const int8_t* const* blocks,
                                        const int8_t* const* next, int first_vector, float* out) {
  constexpr int kStepBytes = 4 * kBlockSlots;
  constexpr int kGroupSteps = kKvScaleGroup / 4;
  const int key_dim = queries.num_cols;
  const int num_groups = key_dim / kKvScaleGroup;
  const uint8_t* keys[V];
  const uint8_t* key_scales[V];
  const int8_t* next_lines[V];
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) {
    const int8_t* block = blocks[(first_vector + v) / Isa::kParts];
    const int first_key = (first_vector + v) % Isa::kParts * Isa::kLanes;
    keys[v] = reinterpret_cast<const uint8_t*>(block) + 4 * first_key;
    key_scales[v] = reinterpret_cast<const uint8_t*>(ScalesOf(block, key_dim) + first_key);
    next_lines[v] = next[(first_vector + v) / Isa::kParts];
  }
  const int8_t* quants[Q];
#pragma GCC unroll 8
  for (int q = 0; q < Q; ++q) {
    quants[q] = queries.quants + 4 * q;
  }
  // Without registers for them, in pairs, scores stay in `out` from group to group.
  typename Isa::Floats scores[Q][V];
#pragma GCC unroll 8
  for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) scores[q][v] = Isa::SetFloat(0.0f);
  }
  for (int group = 0; group < num_groups; ++group) {
    typename Isa::Ints sums[Q][V];
#pragma GCC unroll 8
    for (int q = 0; q < Q; ++q) {
      const int32_t* negated = queries.negated_sums + 2 * group * Q + q;
      const int start = Isa::kPairs ? 0 : 128 * (negated[0] + negated[Q]);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sums[q][v] = Isa::SetInt(start);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kGroupSteps; ++i) {
      const size_t step = static_cast<size_t>(group) * kGroupSteps + i;
      typename Isa::Bytes lanes[V];
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        Prefetch(next_lines[v] + step * kStepBytes);
        lanes[v] = Isa::LoadBytes(keys[v] + step * kStepBytes);
      }
#pragma GCC unroll 8
      for (int q = 0; q < Q; ++q) {
        const auto query = Isa::Broadcast4(quants[q] + step * 4 * Q);
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) sums[q][v] = DotKeys<Isa>(sums[q][v], lanes[v], query);
      }
    }
    typename Isa::Floats factors[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      Prefetch(ScalesOf(next_lines[v], key_dim) + static_cast<size_t>(group) * kBlockSlots);
      factors[v] = Isa::FromF16(key_scales[v] + static_cast<size_t>(group) * 2 * kBlockSlots);
    }
#pragma GCC unroll 8
    for (int q = 0; q < Q; ++q) {
      const auto scale = Isa::SetFloat(queries.scales[group * Q + q]);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        float* place = out + q * kSpanKeys + v * Isa::kLanes;
        if (Isa::kPairs && group > 0) scores[q][v] = Isa::Load(place);
        scores[q][v] =
            Isa::Fma(Isa::Mul(scale, factors[v]), Isa::ToFloats(sums[q][v]), scores[q][v]);
        if (Isa::kPairs) Isa::Store(place, scores[q][v]);
      }
    }
  }
  if constexpr (Isa::kPairs) return;
#pragma GCC unroll 8
  for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      Isa::Store(out + q * kSpanKeys + v * Isa::kLanes, scores[q][v]);
    }
  }
}

// The same for num_vectors vectors: as many as fit at a time, then the rest in halves.
template <typename Isa, int Q, int V>
QUIRE_FORCE_INLINE void ScoreKeysFrom(const QuantizedRows& queries, const int8_t* const* blocks,
                                      const int8_t* const* next, int vector, int num_vectors,
                                      float* out) {
  for (; vector + V <= num_vectors; vector += V) {
    ScoreKeyVectors<Isa, Q, V>(queries, blocks, next, vector, out + vector * Isa::kLanes);
  }
  if constexpr (V > 1) {
    if (vector < num_vectors) {
      ScoreKeysFrom<Isa, Q, V / 2>(queries, blocks, next, vector, num_vectors, out);
    }
  }
}

// Scores of Q quantised queries and num_blocks blocks: out[q * kSpanKeys + 16 * b + lane].
template <int Q>
QUIRE_FORCE_INLINE void ScoreQuantized(const QuantizedRows& queries, const int8_t* const* blocks,
                                       const int8_t* const* next, int num_blocks, float* out) {
  ScoreKeysFrom<ByteVectors, Q, KeyVectorsBeside<ByteVectors>(Q)>(
      queries, blocks, next, 0, num_blocks * ByteVectors::kParts, out);
}

}  // namespace
