// One tile of a product of quantised weights: kVectors vectors of outputs times kRows activation
// rows, over a range of groups. See matmul_formats-inl.h for who may include this.
//
// A group of 32 columns takes 8 steps of one byte-product instruction for each vector and row, and
// then one conversion, one multiplication and one fused multiply-add (Q4_1, Q5_1, Q4_K, Q5_K: two;
// Q6_K: one multiplication and one fused multiply-add more). With the multiplier ports shared, 8 of
// 10 (11, 12) issue slots are products: 80 % (73 %, 67 %) of the peak is the ceiling of many rows,
// and one row is bound by memory. Where products are added in pairs first, each but the first of a
// chain needs an addition beside it, and many rows go through matmul_strip-inl.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/force_inline.h"
#include "kernels/generic/matmul_formats-inl.h"
#include "kernels/kernel_set.h"

namespace quire {
namespace {

// kRows rows of a tile of QuantizedRows of kTile rows: the pointers are the tile's, moved to the
// first of the rows, at group 0.
template <int kTile>
struct TileRowsView {
  const int8_t* quants;         // [num_cols / 4][kTile][4]
  const float* scales;          // [groups][kTile]
  const float* scaled_sums;     // [groups][kTile]
  const int32_t* negated_sums;  // [groups][2][kTile]

  QUIRE_FORCE_INLINE TileRowsView(const QuantizedRows& rows, int first_row, int row_in_tile) {
    const size_t group = static_cast<size_t>(first_row) * (rows.num_cols / kGroupColumns);
    quants = rows.quants + group * kGroupColumns + row_in_tile * 4;
    scales = rows.scales + group + row_in_tile;
    scaled_sums = rows.scaled_sums + group + row_in_tile;
    negated_sums = rows.negated_sums + 2 * group + row_in_tile;
  }

  // Moves the first group.
  QUIRE_FORCE_INLINE void Skip(int groups) {
    quants += groups * kTile * kGroupColumns;
    scales += groups * kTile;
    scaled_sums += groups * kTile;
    negated_sums += groups * 2 * kTile;
  }
};

template <typename Isa, DType kType, int kVectors, int kRows, int kTile>
struct Tile {
  using F = Format<kType>;
  using Bytes = typename Isa::Bytes;
  using Ints = typename Isa::Ints;
  using Floats = typename Isa::Floats;
  // Without VNNI, 8-bit weights are signed and need no offset.
  static constexpr bool kSigned = F::kEightBits && Isa::kPairs;
  static constexpr bool kOffset = F::kOffsetBits >= 0 && !kSigned;

  Floats sums[kVectors][kRows];

  QUIRE_FORCE_INLINE void SetZero() {
#pragma GCC unroll 8
    for (int u = 0; u < kVectors; ++u) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sums[u][r] = Isa::SetFloat(0.0f);
    }
  }

  // Adds groups [begin, end), begin being the first of a unit.
  template <typename Source>
  QUIRE_FORCE_INLINE void Accumulate(Source& source, const TileRowsView<kTile>& rows, int begin,
                                     int end) {
    for (int g = begin; g < end; g += F::kUnit.groups) {
      source.OpenUnit();
      for (int i = 0; i < F::kUnit.groups && g + i < end; ++i) {
        source.OpenGroup(i);
        AddGroup(source, rows, g + i);
      }
    }
  }

 private:
  template <typename Source>
  QUIRE_FORCE_INLINE void AddGroup(const Source& source, const TileRowsView<kTile>& rows, int g) {
    if constexpr (kRows == 1) PrefetchRow(rows, g);
    Floats dot[kVectors][kRows];
    if constexpr (F::kHalves) {
      Ints first[kVectors][kRows];
      Ints second[kVectors][kRows];
      Sum<0>(source, rows, g, first);
      // Below 2^24, so binary32 holds the integer sum exactly.
#pragma GCC unroll 8
      for (int u = 0; u < kVectors; ++u) {
        const Floats half = source.HalfScale(0, u);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) dot[u][r] = Isa::Mul(half, Isa::ToFloats(first[u][r]));
      }
      Sum<1>(source, rows, g, second);
#pragma GCC unroll 8
      for (int u = 0; u < kVectors; ++u) {
        const Floats half = source.HalfScale(1, u);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          dot[u][r] = Isa::Fma(half, Isa::ToFloats(second[u][r]), dot[u][r]);
        }
      }
    } else {
      Ints whole[kVectors][kRows];
      Sum<-1>(source, rows, g, whole);
#pragma GCC unroll 8
      for (int u = 0; u < kVectors; ++u) {
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) dot[u][r] = Isa::ToFloats(whole[u][r]);
      }
    }
#pragma GCC unroll 8
    for (int u = 0; u < kVectors; ++u) {
      const Floats scale = source.Scale(u);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Floats row_scale = Isa::SetFloat(rows.scales[g * kTile + r]);
        sums[u][r] = Isa::Fma(Isa::Mul(scale, row_scale), dot[u][r], sums[u][r]);
      }
      if constexpr (F::kMinimum) {
        const Floats minimum = source.Minimum(u);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const Floats sum = Isa::SetFloat(rows.scaled_sums[g * kTile + r]);
          sums[u][r] = F::kSixBitScales ? Isa::Fnma(minimum, sum, sums[u][r])
                                        : Isa::Fma(minimum, sum, sums[u][r]);
        }
      }
    }
  }

  // Streaming weights push the values of a long row out of the first-level cache between two row
  // blocks.
  QUIRE_FORCE_INLINE static void PrefetchRow(const TileRowsView<kTile>& rows, int g) {
    constexpr int kAhead = 16;  // groups
    __builtin_prefetch(rows.quants + (g + kAhead) * kGroupColumns);
    __builtin_prefetch(rows.scales + g + kAhead);
    if constexpr (kOffset) __builtin_prefetch(rows.negated_sums + 2 * (g + kAhead));
    if constexpr (F::kMinimum) __builtin_prefetch(rows.scaled_sums + g + kAhead);
  }

  // The integer sums of a group (kHalf -1) or of one half of it, the offset taken off.
  template <int kHalf, typename Source>
  QUIRE_FORCE_INLINE void Sum(const Source& source, const TileRowsView<kTile>& rows, int g,
                              Ints (&ints)[kVectors][kRows]) {
    if constexpr (!Isa::kPairs) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Ints start = Isa::SetInt(OffsetSum<kHalf>(rows, g, r));
#pragma GCC unroll 8
        for (int u = 0; u < kVectors; ++u) ints[u][r] = start;
      }
    }
    if constexpr (kHalf <= 0) {
      AddPair<0>(source, rows, g, ints);
      AddPair<1>(source, rows, g, ints);
    }
    if constexpr (kHalf != 0) {
      AddPair<2>(source, rows, g, ints);
      AddPair<3>(source, rows, g, ints);
    }
    if constexpr (Isa::kPairs && kOffset) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Ints offset = Isa::SetInt(OffsetSum<kHalf>(rows, g, r));
#pragma GCC unroll 8
        for (int u = 0; u < kVectors; ++u) ints[u][r] = Isa::AddInts(ints[u][r], offset);
      }
    }
  }

  // Minus the format's offset times the sum of row r's values.
  template <int kHalf>
  QUIRE_FORCE_INLINE static int OffsetSum(const TileRowsView<kTile>& rows, int g, int r) {
    if constexpr (kOffset) {
      const int32_t* negated = rows.negated_sums + g * 2 * kTile + r;
      const int sum = kHalf < 0 ? negated[0] + negated[kTile] : negated[kHalf * kTile];
      return sum * (1 << F::kOffsetBits);
    }
    return 0;
  }

  // Steps 2 * kPair and 2 * kPair + 1.
  template <int kPair, typename Source>
  QUIRE_FORCE_INLINE void AddPair(const Source& source, const TileRowsView<kTile>& rows, int g,
                                  Ints (&ints)[kVectors][kRows]) {
    Bytes first[kVectors];
    Bytes second[kVectors];
#pragma GCC unroll 8
    for (int u = 0; u < kVectors; ++u) source.template LoadPair<kPair>(u, &first[u], &second[u]);
    if constexpr (kRows >= F::kPrefetchRows) source.template Prefetch<kPair>();
    const int8_t* values = rows.quants + (g * 8 + 2 * kPair) * kTile * 4;
    if constexpr (!Isa::kPairs) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Bytes four = Isa::Broadcast4(values + r * 4);
#pragma GCC unroll 8
        for (int u = 0; u < kVectors; ++u) ints[u][r] = Isa::Dot(ints[u][r], first[u], four);
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Bytes four = Isa::Broadcast4(values + (kTile + r) * 4);
#pragma GCC unroll 8
        for (int u = 0; u < kVectors; ++u) ints[u][r] = Isa::Dot(ints[u][r], second[u], four);
      }
    } else {
      AddStep<2 * kPair>(first, values, ints);
      AddStep<2 * kPair + 1>(second, values + kTile * 4, ints);
    }
  }

  template <int kStep>
  QUIRE_FORCE_INLINE void AddStep(const Bytes (&weights)[kVectors], const int8_t* values,
                                  Ints (&ints)[kVectors][kRows]) {
    // The first chain of a sum sets it.
    constexpr bool kFirst = kStep % (F::kHalves ? 4 : 8) < F::kChain;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Bytes four = Isa::Broadcast4(values + r * 4);
#pragma GCC unroll 8
      for (int u = 0; u < kVectors; ++u) {
        if constexpr (kSigned) {
          const Ints pairs = Isa::PairDot(Isa::Abs(weights[u]), Isa::TurnSign(four, weights[u]));
          ints[u][r] = kFirst ? Isa::Widen(pairs) : Isa::AddInts(ints[u][r], Isa::Widen(pairs));
        } else {
          const Ints pairs = Isa::PairDot(weights[u], four);
          pairs_[u][r] = kStep % F::kChain == 0 ? pairs : Isa::AddPairs(pairs_[u][r], pairs);
          if constexpr ((kStep + 1) % F::kChain == 0) {
            const Ints wide = Isa::Widen(pairs_[u][r]);
            ints[u][r] = kFirst ? wide : Isa::AddInts(ints[u][r], wide);
          }
        }
      }
    }
  }

  // Products of the running chain, added in pairs of 16 bits.
  Ints pairs_[Isa::kPairs ? kVectors : 1][Isa::kPairs ? kRows : 1];
};

}  // namespace
}  // namespace quire
