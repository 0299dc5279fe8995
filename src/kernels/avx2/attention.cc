// Attention of kernels/generic/attention-inl.h in this instruction set.
#include <cstddef>

#include "base/exact_math.h"
#include "kernels/avx2/byte_vector.h"
#include "kernels/avx2/kernels.h"
#include "kernels/avx2/vector.h"

namespace quire::avx2 {

using ByteVectors = Avx2;

#include "kernels/generic/exp-inl.h"
// After exp-inl.h.
#include "kernels/generic/attention-inl.h"

void AttendSpan(const AttentionSpanJob& job) { AttendSpanOfAnyType(job); }

}  // namespace quire::avx2
