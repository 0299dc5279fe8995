// Attention of kernels/generic/attention-inl.h without VNNI instructions.
#include <cstddef>

#include "base/exact_math.h"
#include "kernels/avx512/byte_vector.h"
#include "kernels/avx512/kernels.h"
#include "kernels/avx512/vector.h"

namespace quire::avx512 {

using ByteVectors = Avx512Pairs;

#include "kernels/generic/exp-inl.h"
// After exp-inl.h.
#include "kernels/generic/attention-inl.h"

void AttendSpanWithoutVnni(const AttentionSpanJob& job) { AttendSpanOfAnyType(job); }

}  // namespace quire::avx512
