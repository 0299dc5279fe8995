#include "kernels/matmul_scratch.h"

#include "kernels/kernel_set.h"

namespace quire {

size_t MatmulScratchBytes(int num_rows) {
  return kExpandedBytes + static_cast<size_t>(num_rows) * kPartialRowBytes;
}

}  // namespace quire
