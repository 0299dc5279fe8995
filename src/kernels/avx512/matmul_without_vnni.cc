// The products of AVX-512 without VNNI: kernels/generic/matmul_tile-inl.h tells their cost, and
// kernels/generic/matmul_strip-inl.h that of many rows.
#include "kernels/avx512/byte_vector.h"
#include "kernels/avx512/kernels.h"
#include "kernels/generic/matmul_float-inl.h"

namespace quire::avx512 {

void MatmulWithoutVnni(const MatmulJob& job, int row_block_begin, int row_block_end) {
  MatmulOf<Avx512Pairs>(job, row_block_begin, row_block_end);
}

}  // namespace quire::avx512
