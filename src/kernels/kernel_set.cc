#include "kernels/kernel_set.h"

#include <array>
#include <string>
#include <vector>

#include "kernels/avx2/kernels.h"
#include "kernels/avx512/kernels.h"
#include "kernels/reference/kernels.h"

namespace quire {
namespace {

#define QUIRE_KERNEL_SET(isa, matmul_function, attend_function)                                   \
  KernelSet {                                                                                     \
    .name = #isa, .quantize_groups = isa::QuantizeGroups, .matmul = matmul_function,              \
    .rms_norm = isa::RmsNorm, .layer_norm = isa::LayerNorm, .all_finite = isa::AllFinite,         \
    .add = isa::Add, .scale = isa::Scale, .silu_mul = isa::SiluMul, .gelu_mul = isa::GeluMul,     \
    .relu = isa::Relu, .rope = isa::Rope, .store_key = isa::StoreKey,                             \
    .store_value = isa::StoreValue, .attend_span = attend_function, .merge_span = isa::MergeSpan, \
    .finish_attention = isa::FinishAttention                                                      \
  }

constexpr KernelSet kReference =
    QUIRE_KERNEL_SET(reference, reference::Matmul, reference::AttendSpan);
constexpr KernelSet kAvx2 = QUIRE_KERNEL_SET(avx2, avx2::Matmul, avx2::AttendSpan);
constexpr KernelSet kAvx512 = QUIRE_KERNEL_SET(avx512, avx512::Matmul, avx512::AttendSpan);
constexpr KernelSet kAvx512WithoutVnni =
    QUIRE_KERNEL_SET(avx512, avx512::MatmulWithoutVnni, avx512::AttendSpanWithoutVnni);

#undef QUIRE_KERNEL_SET

std::vector<const KernelSet*> DetectKernels() {
  std::vector<const KernelSet*> sets = {&kReference};
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("f16c");
  if (!avx2) return sets;
  sets.push_back(&kAvx2);
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (!avx512) return sets;
  sets.push_back(__builtin_cpu_supports("avx512vnni") ? &kAvx512 : &kAvx512WithoutVnni);
  return sets;
}

}  // namespace

std::span<const KernelSet* const> AvailableKernels() {
  static const std::vector<const KernelSet*> sets = DetectKernels();
  return sets;
}

Result<const KernelSet*> SelectKernels(std::string_view name) {
  const auto available = AvailableKernels();
  if (name.empty()) return available.back();
  std::string names;
  for (const KernelSet* set : available) {
    if (set->name == name) return set;
    names += names.empty() ? "" : ", ";
    names += set->name;
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "kernel set '{}' is unknown or not for this processor, which runs: {}", name,
                   names);
}

}  // namespace quire
