// GGUF model files, versions 2 and 3, little-endian, in one part or many.
//
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Everything in the file is
// untrusted: counts, lengths, offsets, alignments, types and products of dimensions are checked
// before use, and an error names the file, the key or tensor, what was expected and what was found.
//
// A GgufFile owns the mappings of its parts; the spans and string views it hands out live as long
// as it does. Move-only. Const after Open: any number of threads may read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"

namespace quire {

// Lists by element type: unsigned integers and booleans widen to uint64, signed ones to int64.
using GgufList = std::variant<std::vector<uint64_t>, std::vector<int64_t>, std::vector<double>,
                              std::vector<std::string_view>>;
// A metadata value. Integers keep their signedness; both float widths become double.
using GgufValue = std::variant<uint64_t, int64_t, double, bool, std::string_view, GgufList>;

// "unsigned integer", "list of strings": for messages.
std::string_view KindOf(const GgufValue& value);

struct GgufTensor {
  std::string_view name;
  uint32_t ggml_type = 0;            // see tensor/dtype.h
  std::vector<uint64_t> dimensions;  // innermost (contiguous) first, as in the file; 1 to 4 of them
  std::span<const std::byte> data;   // whole and inside its part
  int part = 0;                      // index into GgufFile::parts()
};

// More layers than this are refused by GetUintPerLayer, since a count from a file is untrusted.
inline constexpr size_t kMaxGgufLayers = 4096;

class GgufFile {
 public:
  // Opens a file, any part of a set "NAME-00001-of-0000N.gguf", or a directory that holds exactly
  // one model; the other parts are found by name.
  static Result<GgufFile> Open(const std::filesystem::path& path);

  int version() const { return version_; }
  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const std::vector<MappedFile>& parts() const { return parts_; }
  const std::vector<std::filesystem::path>& part_paths() const { return part_paths_; }

  // Null when there is no such tensor or key.
  const GgufTensor* FindTensor(std::string_view name) const;
  const GgufValue* FindValue(std::string_view key) const;

  // A value of a given kind. Fails when the key is missing (kNotFound) or of another type
  // (kCorrupt), naming file and key. Any integer type serves GetUint when it is not negative.
  Result<uint64_t> GetUint(std::string_view key) const;
  Result<double> GetFloat(std::string_view key) const;  // any float or integer type
  Result<bool> GetBool(std::string_view key) const;
  Result<std::string_view> GetString(std::string_view key) const;
  Result<const std::vector<std::string_view>*> GetStrings(std::string_view key) const;
  // The same with a default for a missing key; a key of a wrong type still fails.
  Result<uint64_t> GetUintOr(std::string_view key, uint64_t fallback) const;
  Result<double> GetFloatOr(std::string_view key, double fallback) const;
  Result<bool> GetBoolOr(std::string_view key, bool fallback) const;
  Result<std::string_view> GetStringOr(std::string_view key, std::string_view fallback) const;
  // One number a layer: an array of exactly `count` integers, or one integer for all of them.
  // `count` is at most kMaxGgufLayers, whatever the file says.
  Result<std::vector<uint64_t>> GetUintPerLayer(std::string_view key, size_t count) const;

 private:
  GgufFile() = default;

  Error WrongKind(std::string_view key, std::string_view expected, const GgufValue& value) const;
  Result<const GgufValue*> RequireValue(std::string_view key) const;

  int version_ = 0;
  std::vector<MappedFile> parts_;
  std::vector<std::filesystem::path> part_paths_;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string_view, size_t> tensor_index_;
};

}  // namespace quire
