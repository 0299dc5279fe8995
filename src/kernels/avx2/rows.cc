// The row functions of kernels/generic/rows-inl.h in this instruction set.
#include <cstddef>

#include "base/exact_math.h"
#include "kernels/avx2/kernels.h"
#include "kernels/avx2/vector.h"

namespace quire::avx2 {

#include "kernels/generic/exp-inl.h"
// After exp-inl.h.
#include "kernels/generic/rows-inl.h"

}  // namespace quire::avx2
