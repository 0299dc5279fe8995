// What attention does row by row, in this instruction set: storing keys and values, merging spans.
#include <cstddef>

#include "base/exact_math.h"
#include "kernels/avx512/kernels.h"
#include "kernels/avx512/vector.h"

namespace quire::avx512 {

#include "kernels/generic/exp-inl.h"
#include "kernels/generic/store_kv-inl.h"
// After exp-inl.h.
#include "kernels/generic/merge_span-inl.h"

}  // namespace quire::avx512
