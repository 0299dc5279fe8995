// How the fast matmuls divide a thread's scratch: [expanded weights][partial sums].
#pragma once

#include <cstddef>

#include "tensor/packed_matrix.h"

namespace quire {

// Row blocks that a tile kernel may work on at once.
inline constexpr int kMaxTileBlocks = 2;

// With many rows, weights are expanded to one byte each for a strip of columns that stays in the
// first-level cache while every tile of activations passes over it. A strip divides a segment of
// 2,048 columns and is whole units.
inline constexpr int kStripColumns = 512;
inline constexpr int kStripGroups = kStripColumns / kGroupColumns;
// A group: 8 steps of 64 bytes and up to five lists of 64 (Q8_0: 16 and one), the layout of
// generic/matmul_strip-inl.h.
inline constexpr size_t kMaxStripGroupBytes = 17 * 64;
inline constexpr size_t kExpandedBytes = kMaxTileBlocks * kStripGroups * kMaxStripGroupBytes;

// Sums of a segment between two strips: [num_rows][kMaxTileBlocks * kPackRows] floats. Storing and
// reloading binary32 changes no bit.
inline constexpr size_t kPartialRowBytes = kMaxTileBlocks * kPackRows * sizeof(float);

}  // namespace quire
