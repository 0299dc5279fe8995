// One row of one group of a packed matrix as plain numbers: the layout of tensor/packed_matrix.h
// spelled out one value at a time. UnpackRow and the reference kernels read weights this way; the
// fast kernels read vectors and are compared with them.
#pragma once

#include <cstdint>

#include "tensor/packed_matrix.h"

namespace quire {

struct PackedGroup {
  int values[kGroupColumns];    // with the format's offset taken off: Q4_0 -8..7
  float scale = 0;              // d, or d * sc for Q4_K and Q5_K
  float minimum = 0;            // m, or -(dmin * mn); 0 where the format has none
  int half_scales[2] = {1, 1};  // Q6_K: integer scales of the two halves of 16 columns
};

// Row `row` of the matrix, columns 32 * group and up. The format is a quantised one.
PackedGroup ReadPackedGroup(const PackedMatrix& matrix, int row, int group);

// An element of a matrix of a float format.
float ReadPackedFloat(const PackedMatrix& matrix, int row, int column);

}  // namespace quire
