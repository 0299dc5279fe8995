// Many rows on instruction sets that add products of bytes in pairs of 16 bits first: weights are
// expanded to one byte each for a strip of columns, which stays in the first-level cache while
// every tile of rows passes over it. See matmul_formats-inl.h for who may include this.
//
// Operations for a group, a vector and a row: 8 products of bytes, additions of 16 bits (7; Q5_1,
// Q5_K 6; Q6_K 8; Q8_0 14, of 16 products), 1 or 2 widening products, 1 addition of 32 bits where
// there are two chains and 1 for an offset, then a conversion, a multiplication and a fused
// multiply-add (with a minimum two). On four vector pipes of which two multiply (Zen 4) the 20 of
// Q4_0 and Q4_K take 5 cycles at best: 80 % of what VNNI could do at 512 bits. The pipes pick ready
// additions before products that would need theirs, so that a bare chain of product and addition
// runs at 3.2 operations a cycle, and a loop of nothing but these 20 at 2.8: 57 % is what such a
// loop reaches. Reached with 256 rows: Q4_0 55, Q4_K 53, Q5_0 and Q5_K 51, Q6_K 47, Q8_0 30 %.
// Loads (6 a vector and row for a tile of 2 by 4; 9 for one of 1 by 8, which was slower) fit beside
// them, two a cycle.
//
// Q6_K keeps code - 32 in the strip, signed, and takes rows as a + 128, unsigned. A chain of 16-bit
// sums over a half starts from -128 times the sum of its weights, one vector for all rows: sums
// wrap around on the way, and end as the sum of w * a, at most 8 * 127 * 32 = 32,512, which fits.
// The widening product takes the scales of the half, so the sum of the group stays in integers: at
// most 4 * 32,512 * 128, below 2^24, which binary32 holds exactly.
//
// Q8_0 keeps the low and the high four bits of its codes apart: products of whole ones with rows
// would not fit in 16 bits.
#pragma once

#include "kernels/generic/matmul_tile-inl.h"

namespace quire {
namespace {

// A group of a strip: [codes][f32 scales][f32 minimums][16-bit starts of each half, two for each
// row][16-bit scales of each half, twice for each row], each list 64 bytes for a row block.
template <DType kType>
struct StripGroup {
  using F = Format<kType>;
  // Weights are signed and rows are a + 128.
  static constexpr bool kShifted = F::kHalves;
  static constexpr int kSteps = F::kEightBits ? 16 : 8;  // low halves of codes, then high ones
  static constexpr int kScale = kSteps * kVectorBytes;
  static constexpr int kMinimum = kScale + kVectorBytes;
  static constexpr int kStart = kMinimum + (F::kMinimum ? kVectorBytes : 0);
  static constexpr int kHalfScale = kStart + (F::kHalves ? 2 * kVectorBytes : 0);
  static constexpr int kBytes = kHalfScale + (F::kHalves ? 2 * kVectorBytes : 0);
  static constexpr int kBlockBytes = kStripGroups * kBytes;
  static_assert(kBytes <= static_cast<int>(kMaxStripGroupBytes));
};

// Codes of steps 2 * kPair and 2 * kPair + 1 of vector u to `codes`, the place of that vector in
// step 0, and what they add to the start of their half.
template <int kPair, typename Isa, DType kType>
QUIRE_FORCE_INLINE void ExpandPair(const PackedSource<Isa, kType>& source, int u, uint8_t* codes,
                                   typename Isa::Ints& start) {
  using F = Format<kType>;
  typename Isa::Bytes steps[2];
  source.template LoadPair<kPair>(u, &steps[0], &steps[1]);
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    uint8_t* at = codes + (2 * kPair + i) * kVectorBytes;
    if constexpr (F::kEightBits) {
      const typename Isa::Bytes code = Isa::Xor(steps[i], Isa::SetBytes(0x80));
      const typename Isa::Bytes low = Isa::SetBytes(15);
      Isa::StoreBytes(at, Isa::And(code, low));
      Isa::StoreBytes(at + 8 * kVectorBytes, Isa::And(Isa::template ShiftRight<4>(code), low));
    } else if constexpr (StripGroup<kType>::kShifted) {
      const typename Isa::Bytes weights =
          Isa::SubBytes(steps[i], Isa::SetBytes(1 << F::kOffsetBits));
      start = Isa::SubPairs(start, Isa::PairDot(Isa::SetBytes(128), weights));
      Isa::StoreBytes(at, weights);
    } else {
      Isa::StoreBytes(at, steps[i]);
    }
  }
}

// Expands num_groups groups, from `group` on, of one row block to `out`.
template <typename Isa, DType kType>
void ExpandStrip(const uint8_t* row_block, int group, int num_groups, uint8_t* out) {
  using F = Format<kType>;
  using S = StripGroup<kType>;
  constexpr int kUnitBytes = static_cast<int>(F::kUnit.bytes());
  const uint8_t* next =
      row_block + static_cast<size_t>((group + num_groups) / F::kUnit.groups) * kUnitBytes;
  PackedSource<Isa, kType> source(row_block, group, false);
  for (int done = 0; done < num_groups; done += F::kUnit.groups) {
    source.OpenUnit();
    // The next strip is read after all tiles of rows have passed over this one, when the
    // processor has long lost the stream; until then it waits in the second-level cache.
    for (int line = 0; line < kUnitBytes; line += kVectorBytes) {
      __builtin_prefetch(next + line, 0, 2);
    }
    next += kUnitBytes;
    for (int g = 0; g < F::kUnit.groups && done + g < num_groups; ++g, out += S::kBytes) {
      source.OpenGroup(g);
      for (int u = 0; u < Isa::kParts; ++u) {
        uint8_t* at = out + u * Isa::kLanes * 4;
        typename Isa::Ints starts[2] = {Isa::SetInt(0), Isa::SetInt(0)};
        ExpandPair<0>(source, u, at, starts[0]);
        ExpandPair<1>(source, u, at, starts[0]);
        ExpandPair<2>(source, u, at, starts[1]);
        ExpandPair<3>(source, u, at, starts[1]);
        Isa::Store(reinterpret_cast<float*>(at + S::kScale), source.Scale(u));
        if constexpr (F::kMinimum) {
          Isa::Store(reinterpret_cast<float*>(at + S::kMinimum), source.Minimum(u));
        }
        if constexpr (F::kHalves) {
          for (int half = 0; half < 2; ++half) {
            uint8_t* list = at + half * kVectorBytes;
            Isa::StoreBytes(list + S::kStart, starts[half]);
            Isa::StoreBytes(list + S::kHalfScale, source.HalfScalePairs(half, u));
          }
        }
      }
    }
  }
}

// num_groups groups of a tile of kTile rows as a strip with starts reads them: a + 128.
template <typename Isa, int kTile>
void ShiftRows(const int8_t* quants, int num_groups, uint8_t* out) {
  const auto* from = reinterpret_cast<const uint8_t*>(quants);
  constexpr int kBytes = static_cast<int>(sizeof(typename Isa::Bytes));
  // Whole vectors even of one row: the groups are units of 8.
  for (int i = 0; i < num_groups * kGroupColumns * kTile; i += kBytes) {
    Isa::StoreBytes(out + i, Isa::Xor(Isa::LoadBytes(from + i), Isa::SetBytes(128)));
  }
}

// kVectors vectors of a strip times kRows rows of a tile of kTile.
template <typename Isa, DType kType, int kVectors, int kRows, int kTile>
struct StripTile {
  using F = Format<kType>;
  using S = StripGroup<kType>;
  using Bytes = typename Isa::Bytes;
  using Ints = typename Isa::Ints;
  using Floats = typename Isa::Floats;

  Floats sums[kVectors][kRows];

  // Adds num_groups groups of the strip. `values` are the rows' bytes as the strip takes them,
  // `rows` their sums and scales, all at the strip's first group.
  QUIRE_FORCE_INLINE void Accumulate(const uint8_t* strip, const uint8_t* values,
                                     TileRowsView<kTile> rows, int num_groups) {
    for (int g = 0; g < num_groups; ++g) {
      AddGroup(strip, values, rows);
      strip += S::kBytes;
      values += 8 * kTile * 4;
      rows.scales += kTile;
      rows.scaled_sums += kTile;
      rows.negated_sums += 2 * kTile;
    }
  }

 private:
  static QUIRE_FORCE_INLINE const uint8_t* At(const uint8_t* group, int u) {
    return group + u / Isa::kParts * S::kBlockBytes + u % Isa::kParts * Isa::kLanes * 4;
  }
  static QUIRE_FORCE_INLINE Floats List(const uint8_t* group, int u, int offset) {
    return Isa::Load(reinterpret_cast<const float*>(At(group, u) + offset));
  }

  QUIRE_FORCE_INLINE void AddGroup(const uint8_t* group, const uint8_t* values,
                                   const TileRowsView<kTile>& rows) {
    Ints ints[kVectors][kRows];
    // Whether one chain of 16-bit sums holds a group; Q8_0 has one of each half of its codes.
    constexpr bool kOneChain = F::kChain == 8;
    constexpr int kChainSteps = kOneChain || F::kEightBits ? 8 : 4;
    Ints pairs[kVectors][kRows];
    AddBytes<0, kChainSteps>(group, values, pairs);
    Widen<0>(group, pairs, ints);
    if constexpr (!kOneChain) {
      // Q8_0 broadcasts its rows again: kept from the first chain, they would spill every sum.
      asm volatile("" ::: "memory");
      AddBytes<kChainSteps, 2 * kChainSteps>(group, values, pairs);
      Widen<1>(group, pairs, ints);
    }
    if constexpr (F::kOffsetBits >= 0 && !S::kShifted) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const int negated = rows.negated_sums[r] + rows.negated_sums[kTile + r];
        const Ints offset = Isa::SetInt(negated * (1 << F::kOffsetBits));
#pragma GCC unroll 8
        for (int u = 0; u < kVectors; ++u) ints[u][r] = Isa::AddInts(ints[u][r], offset);
      }
    }
#pragma GCC unroll 8
    for (int u = 0; u < kVectors; ++u) {
      const Floats scale = List(group, u, S::kScale);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        sums[u][r] = Isa::Fma(Isa::Mul(scale, Isa::SetFloat(rows.scales[r])),
                              Isa::ToFloats(ints[u][r]), sums[u][r]);
      }
      if constexpr (F::kMinimum) {
        const Floats minimum = List(group, u, S::kMinimum);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const Floats sum = Isa::SetFloat(rows.scaled_sums[r]);
          sums[u][r] = F::kSixBitScales ? Isa::Fnma(minimum, sum, sums[u][r])
                                        : Isa::Fma(minimum, sum, sums[u][r]);
        }
      }
    }
  }

  // Steps [kBegin, kEnd), one chain of pair sums.
  template <int kBegin, int kEnd>
  static QUIRE_FORCE_INLINE void AddBytes(const uint8_t* group, const uint8_t* values,
                                          Ints (&pairs)[kVectors][kRows]) {
#pragma GCC unroll 8
    for (int s = kBegin; s < kEnd; ++s) {
      Bytes weights[kVectors];
#pragma GCC unroll 8
      for (int u = 0; u < kVectors; ++u) {
        weights[u] = Isa::LoadBytes(At(group, u) + s * kVectorBytes);
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Bytes four = Isa::Broadcast4(values + (s % 8 * kTile + r) * 4);
#pragma GCC unroll 8
        for (int u = 0; u < kVectors; ++u) {
          const Ints products =
              S::kShifted ? Isa::PairDot(four, weights[u]) : Isa::PairDot(weights[u], four);
          if (s > kBegin) {
            pairs[u][r] = Isa::AddPairs(pairs[u][r], products);
          } else if constexpr (S::kShifted) {
            pairs[u][r] = Isa::AddPairs(
                Isa::LoadBytes(At(group, u) + S::kStart + (kBegin != 0 ? kVectorBytes : 0)),
                products);
          } else {
            pairs[u][r] = products;
          }
        }
      }
    }
  }

  // ints = or += the sums of chain kChain in 32 bits, times the scale of the half if it has one.
  template <int kChain>
  static QUIRE_FORCE_INLINE void Widen(const uint8_t* group, Ints (&pairs)[kVectors][kRows],
                                       Ints (&ints)[kVectors][kRows]) {
#pragma GCC unroll 8
    for (int u = 0; u < kVectors; ++u) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        Ints wide;
        if constexpr (F::kHalves) {
          wide = Isa::WordDot(pairs[u][r],
                              Isa::LoadBytes(At(group, u) + S::kHalfScale + kChain * kVectorBytes));
        } else if constexpr (F::kEightBits && kChain == 1) {
          wide = Isa::WordDot(pairs[u][r], Isa::SetPairs(16));
        } else {
          wide = Isa::Widen(pairs[u][r]);
        }
        ints[u][r] = kChain == 0 ? wide : Isa::AddInts(ints[u][r], wide);
      }
    }
  }
};

}  // namespace
}  // namespace quire
