// Between the file's rows and the packed row blocks of tensor/packed_matrix.h.
#pragma once

#include <cstddef>

#include "tensor/packed_matrix.h"

namespace quire {

// Writes the row block of num_rows (1..16) consecutive rows of a file's tensor, row_bytes apart,
// to out [PackedRowBlockBytes(dtype, num_cols)]; rows past num_rows are zero. Every byte of out is
// written.
void PackRowBlock(DType dtype, const std::byte* rows, size_t row_bytes, int num_rows, int num_cols,
                  std::byte* out);

// One row as floats, out [num_cols]: exactly the values that the matmul uses (token embeddings).
void UnpackRow(const PackedMatrix& matrix, int row, float* out);

}  // namespace quire
