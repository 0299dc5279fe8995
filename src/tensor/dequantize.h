// Rows as files store them, widened to floats: the plain meaning of each format.
#pragma once

#include <cstddef>

#include "tensor/dtype.h"

namespace quire {

// out [num_elements]; num_elements is a multiple of the format's block_elements. Each value is
// d * q + m (or its integer scales) in binary32, as the format's definition in GGML has it.
void DequantizeRow(DType dtype, const std::byte* row, size_t num_elements, float* out);

}  // namespace quire
