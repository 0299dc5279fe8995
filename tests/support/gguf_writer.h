// Writes GGUF files for tests, right ones and wrong ones: nothing is checked, so a test may write
// any key, type, shape, offset or size, and corrupt the bytes afterwards.
//
//   GgufWriter writer;
//   writer.AddString("general.architecture", "llama");
//   writer.AddTensorF32("output_norm.weight", {64}, values);
//   ASSERT_TRUE(writer.Write(path));
#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quire::testing {

// The format's ids of value types.
enum class GgufValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

template <typename T>
concept GgufNumber = std::integral<T> || std::floating_point<T>;

template <GgufNumber T>
constexpr GgufValueType GgufTypeOf() {
  if constexpr (std::same_as<T, bool>) return GgufValueType::kBool;
  if constexpr (std::same_as<T, float>) return GgufValueType::kFloat32;
  if constexpr (std::same_as<T, double>) return GgufValueType::kFloat64;
  constexpr bool kSigned = std::signed_integral<T>;
  if constexpr (sizeof(T) == 1) return kSigned ? GgufValueType::kInt8 : GgufValueType::kUint8;
  if constexpr (sizeof(T) == 2) return kSigned ? GgufValueType::kInt16 : GgufValueType::kUint16;
  if constexpr (sizeof(T) == 4) return kSigned ? GgufValueType::kInt32 : GgufValueType::kUint32;
  return kSigned ? GgufValueType::kInt64 : GgufValueType::kUint64;
}

// Little-endian bytes in the making.
class GgufBytes {
 public:
  template <GgufNumber T>
  void Number(T value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    bytes_.append(raw, sizeof(T));
  }
  void String(std::string_view text) {
    Number(uint64_t{text.size()});
    bytes_ += text;
  }
  void Raw(std::string_view bytes) { bytes_ += bytes; }
  void PadTo(uint64_t alignment) {
    while (bytes_.size() % alignment != 0) bytes_ += '\0';
  }
  const std::string& str() const { return bytes_; }

 private:
  std::string bytes_;
};

class GgufWriter {
 public:
  // The value's C++ type chooses the stored type: Add("k", uint32_t{3}) is a UINT32.
  template <GgufNumber T>
  void Add(std::string_view key, T value) {
    GgufBytes bytes;
    bytes.Number(value);
    AddRaw(key, static_cast<uint32_t>(GgufTypeOf<T>()), bytes.str());
  }
  void AddString(std::string_view key, std::string_view value);
  template <GgufNumber T>
  void AddList(std::string_view key, const std::vector<T>& values) {
    GgufBytes bytes;
    bytes.Number(static_cast<uint32_t>(GgufTypeOf<T>()));
    bytes.Number(uint64_t{values.size()});
    for (T value : values) bytes.Number(value);
    AddRaw(key, static_cast<uint32_t>(GgufValueType::kArray), bytes.str());
  }
  void AddStrings(std::string_view key, const std::vector<std::string>& values);
  // A value as the file has it, after the type id.
  void AddRaw(std::string_view key, uint32_t type, std::string_view value);

  // Dimensions innermost first. The data follows that of earlier tensors, aligned.
  void AddTensor(std::string_view name, uint32_t ggml_type, const std::vector<uint64_t>& dimensions,
                 std::string_view data);
  void AddTensorF32(std::string_view name, const std::vector<uint64_t>& dimensions,
                    std::span<const float> values);
  // Only the entry in the header, with an offset of the caller's choice.
  void AddTensorInfo(std::string_view name, uint32_t ggml_type,
                     const std::vector<uint64_t>& dimensions, uint64_t offset);

  void set_version(uint32_t version) { version_ = version; }
  // Also writes general.alignment; before any tensor is added.
  void SetAlignment(uint32_t alignment);
  // What the header claims, in place of what was added.
  void set_claimed_keys(uint64_t count) { claimed_keys_ = count; }
  void set_claimed_tensors(uint64_t count) { claimed_tensors_ = count; }

  // Magic to the last tensor entry, without padding or data.
  std::string Header() const;
  // The whole file.
  std::string Bytes() const;
  bool Write(const std::filesystem::path& path) const;

 private:
  static constexpr uint64_t kNotClaimed = ~uint64_t{0};

  uint32_t version_ = 3;
  uint64_t alignment_ = 32;
  uint64_t num_keys_ = 0;
  uint64_t num_tensors_ = 0;
  uint64_t claimed_keys_ = kNotClaimed;
  uint64_t claimed_tensors_ = kNotClaimed;
  GgufBytes keys_;
  GgufBytes tensors_;
  GgufBytes data_;
};

// The three keys of part `part_idx` (from 0) of a split set.
void AddSplitKeys(GgufWriter& writer, uint16_t part_idx, uint16_t num_parts, int32_t num_tensors);

bool WriteBytes(const std::filesystem::path& path, std::string_view bytes);

}  // namespace quire::testing
