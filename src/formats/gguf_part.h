// One GGUF file taken apart: the bytes of a model's only part, or of one part of a split set.
//
// Pure function of the bytes; the strings and tensor data it hands out point into them. Memory
// stays within a small multiple of the file's size, whatever its counts claim: a count is compared
// with the bytes that are left before anything is reserved.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/gguf.h"

namespace quire {

// Beyond these a file is refused as unsupported: real models stay far below, and a hostile file of
// many gigabytes of header cannot ask for a multiple of that in memory.
inline constexpr uint64_t kMaxGgufKeys = uint64_t{1} << 16;
inline constexpr uint64_t kMaxGgufTensors = uint64_t{1} << 20;
inline constexpr uint64_t kMaxGgufListElements = uint64_t{1} << 26;  // all lists together

struct GgufPart {
  int version = 0;
  std::map<std::string, GgufValue, std::less<>> metadata;  // no key twice
  std::vector<GgufTensor> tensors;  // in file order, no two overlap; names may repeat; part is 0
};

// `file` names the bytes in errors. Bytes that are not GGUF are refused saying what they look like.
Result<GgufPart> ParseGgufPart(std::string_view file, std::span<const std::byte> bytes);

}  // namespace quire
