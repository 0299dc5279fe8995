// Attention of kernels/generic/attention-inl.h with VNNI, where it makes a difference: in q8_0.
#include <cstddef>

#include "base/exact_math.h"
#include "kernels/avx512/byte_vector.h"
#include "kernels/avx512/kernels.h"
#include "kernels/avx512/vector.h"

namespace quire::avx512 {

using ByteVectors = Avx512Vnni;

#include "kernels/generic/exp-inl.h"
// After exp-inl.h.
#include "kernels/generic/attention-inl.h"

void AttendSpan(const AttentionSpanJob& job) {
  return job.type == KvType::kQ8_0 ? AttendSpanOf<int8_t>(job) : AttendSpanWithoutVnni(job);
}

}  // namespace quire::avx512
