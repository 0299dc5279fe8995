// Element types and quantised block formats of stored tensors.
//
// The numbers are GGML's type ids, as GGUF files carry them
// (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). A quantised format stores
// block_elements consecutive elements of a row in block_bytes bytes; rows are whole blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace quire {

enum class DType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBF16 = 30,
};

struct DTypeInfo {
  DType dtype;
  std::string_view name;    // as in "Q4_K"
  uint32_t block_elements;  // 1 for the float types
  uint32_t block_bytes;
};

// Nothing for an id that Quire does not compute with.
std::optional<DTypeInfo> FindDType(uint32_t ggml_type_id);
// The GGML name of an id, also of ids Quire does not compute with ("Q2_K"); "unknown" otherwise.
std::string_view GgmlTypeName(uint32_t ggml_type_id);

const DTypeInfo& InfoOf(DType dtype);
inline bool IsQuantized(DType dtype) { return InfoOf(dtype).block_elements > 1; }

// Bytes of a row of num_elements elements, which is a multiple of block_elements.
inline uint64_t RowBytes(DType dtype, uint64_t num_elements) {
  const DTypeInfo& info = InfoOf(dtype);
  return num_elements / info.block_elements * info.block_bytes;
}

}  // namespace quire
