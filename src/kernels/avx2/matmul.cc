// The products of AVX2: kernels/generic/matmul_tile-inl.h tells their cost, and
// kernels/generic/matmul_strip-inl.h that of many rows.
#include "kernels/avx2/byte_vector.h"
#include "kernels/avx2/kernels.h"
#include "kernels/generic/matmul_float-inl.h"

namespace quire::avx2 {

void Matmul(const MatmulJob& job, int row_block_begin, int row_block_end) {
  MatmulOf<Avx2>(job, row_block_begin, row_block_end);
}

}  // namespace quire::avx2
