// Attention of kernels/generic/attention-inl.h in this instruction set.
#include <cstddef>

#include "base/exact_math.h"
#include "kernels/avx512/kernels.h"
#include "kernels/avx512/vector.h"

namespace quire::avx512 {

#include "kernels/generic/exp-inl.h"
// After exp-inl.h.
#include "kernels/generic/attention-inl.h"

}  // namespace quire::avx512
