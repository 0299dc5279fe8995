#include "tensor/dtype.h"

#include <array>

#include "base/check.h"

namespace quire {
namespace {

constexpr std::array kDTypes = {
    DTypeInfo{DType::kF32, "F32", 1, 4},       DTypeInfo{DType::kF16, "F16", 1, 2},
    DTypeInfo{DType::kQ4_0, "Q4_0", 32, 18},   DTypeInfo{DType::kQ4_1, "Q4_1", 32, 20},
    DTypeInfo{DType::kQ5_0, "Q5_0", 32, 22},   DTypeInfo{DType::kQ5_1, "Q5_1", 32, 24},
    DTypeInfo{DType::kQ8_0, "Q8_0", 32, 34},   DTypeInfo{DType::kQ4_K, "Q4_K", 256, 144},
    DTypeInfo{DType::kQ5_K, "Q5_K", 256, 176}, DTypeInfo{DType::kQ6_K, "Q6_K", 256, 210},
    DTypeInfo{DType::kBF16, "BF16", 1, 2},
};

// By id; ids 4, 5 and 31 to 33 and 36 to 38 were withdrawn from the format.
constexpr std::array<std::string_view, 40> kGgmlNames = {
    "F32",   "F16",        "Q4_0",       "Q4_1",       "Q4_2",     "Q4_3",     "Q5_0",
    "Q5_1",  "Q8_0",       "Q8_1",       "Q2_K",       "Q3_K",     "Q4_K",     "Q5_K",
    "Q6_K",  "Q8_K",       "IQ2_XXS",    "IQ2_XS",     "IQ3_XXS",  "IQ1_S",    "IQ4_NL",
    "IQ3_S", "IQ2_S",      "IQ4_XS",     "I8",         "I16",      "I32",      "I64",
    "F64",   "IQ1_M",      "BF16",       "Q4_0_4_4",   "Q4_0_4_8", "Q4_0_8_8", "TQ1_0",
    "TQ2_0", "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4"};

}  // namespace

std::optional<DTypeInfo> FindDType(uint32_t ggml_type_id) {
  for (const DTypeInfo& info : kDTypes) {
    if (static_cast<uint32_t>(info.dtype) == ggml_type_id) return info;
  }
  return std::nullopt;
}

std::string_view GgmlTypeName(uint32_t ggml_type_id) {
  return ggml_type_id < kGgmlNames.size() ? kGgmlNames[ggml_type_id] : "unknown";
}

const DTypeInfo& InfoOf(DType dtype) {
  for (const DTypeInfo& info : kDTypes) {
    if (info.dtype == dtype) return info;
  }
  QUIRE_CHECK(false, "dtype {}", static_cast<uint32_t>(dtype));
  return kDTypes[0];
}

}  // namespace quire
