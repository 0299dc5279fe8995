// A matmul over row blocks, for quantised weights. See matmul_formats-inl.h for who may include it.
//
// Every tile of rows reads the packed row block, the first from memory and the others from the
// cache. Where unpacking is slow beside the products, many rows work on a strip of columns that is
// expanded to the first-level cache once (matmul_strip-inl.h); the sums of all tiles wait in
// scratch between two strips.
#pragma once

#include "kernels/generic/matmul_strip-inl.h"

namespace quire {
namespace {

inline constexpr int kSegmentGroups = 2048 / kGroupColumns;

// Calls body(Index<height>, first_row) for every tile of num_rows rows.
template <typename Body>
QUIRE_FORCE_INLINE void ForEachTile(int num_rows, const Body& body) {
  int first = 0;
  for (; num_rows - first >= kMaxTileRows; first += kMaxTileRows) body(Index<8>{}, first);
  switch (num_rows - first) {
    case 1:
      return body(Index<1>{}, first);
    case 2:
      return body(Index<2>{}, first);
    case 3:
      return body(Index<3>{}, first);
    case 4:
      return body(Index<4>{}, first);
    case 5:
      return body(Index<5>{}, first);
    case 6:
      return body(Index<6>{}, first);
    case 7:
      return body(Index<7>{}, first);
  }
}
static_assert(kMaxTileRows == 8);

// Calls body(Index<rows>, row_in_tile) for the rows of a tile, kMost at a time.
template <int kTile, int kMost, typename Body>
QUIRE_FORCE_INLINE void ForRowsOfTile(const Body& body) {
  int row = 0;
  for (; row + kMost <= kTile; row += kMost) body(Index<kMost>{}, row);
  if constexpr (kTile % kMost != 0) body(Index<kTile % kMost>{}, row);
}

constexpr int AtMost(int value, int limit) { return value < limit ? value : limit; }

template <typename Isa, DType kType>
class QuantizedMatmul {
  using F = Format<kType>;
  using Floats = typename Isa::Floats;

 public:
  explicit QuantizedMatmul(const MatmulJob& job)
      : job_(job),
        num_groups_(job.weights->num_cols / kGroupColumns),
        block_bytes_(static_cast<size_t>((num_groups_ + F::kUnit.groups - 1) / F::kUnit.groups) *
                     F::kUnit.bytes()) {}

  void Run(int begin, int end) const {
    if constexpr (Isa::Expands(F::kChain)) {
      if (job_.num_rows >= Isa::ExpandFrom(F::kChain)) {
        int block = begin;
        for (; block + Isa::kTileBlocks <= end; block += Isa::kTileBlocks) {
          RunExpanded<Isa::kTileBlocks>(block);
        }
        for (; block < end; ++block) RunExpanded<1>(block);
        return;
      }
    }
    // One row block front to back, so that a single row reads one linear stream.
    for (int block = begin; block < end; ++block) {
      for (int group = 0; group < num_groups_; group += kSegmentGroups) RunPacked(block, group);
    }
  }

 private:
  const uint8_t* Block(int block) const {
    return reinterpret_cast<const uint8_t*>(job_.weights->data) + block * block_bytes_;
  }

  // Columns of `out` from the first of vector u on: below kLanes at the end of the matrix.
  QUIRE_FORCE_INLINE int ColumnsOf(int block, int u) const {
    const int column = block * kPackRows + u * Isa::kLanes;
    const int left = job_.weights->num_rows - column;
    return left < Isa::kLanes ? left : Isa::kLanes;
  }

  // out = sums of the first segment, or out + sums of a later one.
  template <typename TileType, int kVectors, int kRows>
  QUIRE_FORCE_INLINE void FoldSegment(const TileType& tile, Index<kVectors>, Index<kRows>,
                                      int block, int first_row, bool first_segment) const {
#pragma GCC unroll 8
    for (int u = 0; u < kVectors; ++u) {
      const int columns = ColumnsOf(block, u);
      if (columns <= 0) continue;
      float* out = job_.out + first_row * job_.out_stride + block * kPackRows + u * Isa::kLanes;
      if (columns == Isa::kLanes) {
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r, out += job_.out_stride) {
          Isa::Store(out,
                     first_segment ? tile.sums[u][r] : Isa::Add(Isa::Load(out), tile.sums[u][r]));
        }
      } else {
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r, out += job_.out_stride) {
          Isa::StoreFirst(out, columns,
                          first_segment ? tile.sums[u][r]
                                        : Isa::Add(Isa::LoadFirst(out, columns), tile.sums[u][r]));
        }
      }
    }
  }

  void RunPacked(int block, int group) const {
    ForEachTile(job_.num_rows, [&]<int kTile>(Index<kTile>, int first_row) {
      constexpr int kMost = AtMost(kTile, Isa::PackedTileRows(F::kChain));
      ForRowsOfTile<kTile, kMost>([&]<int kRows>(Index<kRows>, int row_in_tile) {
        RunPackedTile<kTile, kRows>(block, group, first_row, row_in_tile);
      });
    });
  }

  // The segment of one row block that starts at group `begin`.
  template <int kTile, int kRows>
  void RunPackedTile(int block, int begin, int first_row, int row_in_tile) const {
    const TileRowsView<kTile> rows(*job_.quantized, first_row, row_in_tile);
    PackedSource<Isa, kType> source(Block(block), begin, first_row == 0);
    Tile<Isa, kType, Isa::kParts, kRows, kTile> tile;
    tile.SetZero();
    tile.Accumulate(source, rows, begin, AtMost(num_groups_, begin + kSegmentGroups));
    FoldSegment(tile, Index<Isa::kParts>{}, Index<kRows>{}, block, first_row + row_in_tile,
                begin == 0);
  }

  template <int kBlocks>
  void RunExpanded(int block) const {
    auto* strip = reinterpret_cast<uint8_t*>(job_.scratch);
    for (int begin = 0; begin < num_groups_; begin += kStripGroups) {
      const int end = AtMost(num_groups_, begin + kStripGroups);
      for (int b = 0; b < kBlocks; ++b) {
        ExpandStrip<Isa, kType>(Block(block + b), begin, end - begin,
                                strip + b * StripGroup<kType>::kBlockBytes);
      }
      ForEachTile(job_.num_rows, [&]<int kTile>(Index<kTile>, int first_row) {
        using S = StripGroup<kType>;
        const TileRowsView<kTile> rows(*job_.quantized, first_row, 0);
        const int8_t* quants = rows.quants + begin * kGroupColumns * kTile;
        const auto* values = reinterpret_cast<const uint8_t*>(quants);
        alignas(64) uint8_t shifted[S::kShifted ? kStripGroups * kGroupColumns * kTile : 1];
        if constexpr (S::kShifted) {
          ShiftRows<Isa, kTile>(quants, end - begin, shifted);
          values = shifted;
        }
        constexpr int kMost = AtMost(kTile, Isa::kStripRows);
        ForRowsOfTile<kTile, kMost>([&]<int kRows>(Index<kRows>, int row_in_tile) {
          RunExpandedTile<kBlocks, kTile, kRows>(block, first_row, row_in_tile, values, begin, end);
        });
      });
    }
  }

  template <int kBlocks, int kTile, int kRows>
  void RunExpandedTile(int block, int first_row, int row_in_tile, const uint8_t* values, int begin,
                       int end) const {
    constexpr int kVectors = kBlocks * Isa::kParts;
    TileRowsView<kTile> rows(*job_.quantized, first_row, row_in_tile);
    rows.Skip(begin);
    float* partial = reinterpret_cast<float*>(job_.scratch + kExpandedBytes +
                                              (first_row + row_in_tile) * kPartialRowBytes);
    constexpr int kPartialFloats = static_cast<int>(kPartialRowBytes / sizeof(float));
    StripTile<Isa, kType, kVectors, kRows, kTile> tile;
#pragma GCC unroll 8
    for (int u = 0; u < kVectors; ++u) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        tile.sums[u][r] = begin % kSegmentGroups == 0
                              ? Isa::SetFloat(0.0f)
                              : Isa::Load(partial + r * kPartialFloats + u * Isa::kLanes);
      }
    }
    tile.Accumulate(reinterpret_cast<const uint8_t*>(job_.scratch), values + row_in_tile * 4, rows,
                    end - begin);
    if (end % kSegmentGroups == 0 || end == num_groups_) {
      FoldSegment(tile, Index<kVectors>{}, Index<kRows>{}, block, first_row + row_in_tile,
                  begin < kSegmentGroups);
      return;
    }
#pragma GCC unroll 8
    for (int u = 0; u < kVectors; ++u) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        Isa::Store(partial + r * kPartialFloats + u * Isa::kLanes, tile.sums[u][r]);
      }
    }
  }

  const MatmulJob& job_;
  const int num_groups_;
  const size_t block_bytes_;
};

}  // namespace
}  // namespace quire
