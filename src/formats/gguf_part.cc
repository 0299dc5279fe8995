#include "formats/gguf_part.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/bytes.h"
#include "base/utf8.h"
#include "formats/gguf_signature.h"
#include "formats/printable.h"
#include "tensor/dtype.h"

namespace quire {
namespace {

// The format's own bound on keys, and ours on tensor names (the format says 64).
constexpr uint64_t kMaxKeyBytes = 65535;
constexpr uint64_t kMaxNameBytes = 1024;
constexpr uint64_t kMaxDimensions = 4;
// The smallest entries a header can hold: a key of one byte with a one-byte value, a name of one
// byte with one dimension.
constexpr uint64_t kMinKeyEntryBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorEntryBytes = 8 + 1 + 4 + 8 + 4 + 8;
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMinAlignment = 8;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 20;

// The ids of metadata value types.
enum : uint32_t {
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

// The widest type of a stored number's kind.
template <typename T>
using Widened = std::conditional_t<std::is_floating_point_v<T>, double,
                                   std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;

// Reads one file from front to back. Every function leaves with an error at the first fault.
class PartReader {
 public:
  PartReader(std::string_view file, std::span<const std::byte> bytes)
      : file_(file), bytes_(bytes), reader_(bytes) {}

  Result<GgufPart> Read() {
    QUIRE_RETURN_IF_ERROR(CheckGgufSignature(file_, bytes_));
    QUIRE_RETURN_IF_ERROR(ReadCounts());
    for (uint64_t i = 0; i < num_keys_; ++i) QUIRE_RETURN_IF_ERROR(ReadKey(i));
    QUIRE_RETURN_IF_ERROR(ReadAlignment());
    QUIRE_RETURN_IF_ERROR(CheckCount("tensors", num_tensors_, kMinTensorEntryBytes));
    for (uint64_t i = 0; i < num_tensors_; ++i) QUIRE_RETURN_IF_ERROR(ReadTensorInfo(i));
    QUIRE_RETURN_IF_ERROR(PlaceTensors());
    QUIRE_RETURN_IF_ERROR(CheckOverlaps());
    return std::move(part_);
  }

 private:
  template <typename... Args>
  Error Corrupt(fmt::format_string<Args...> format, Args&&... args) const {
    return MakeError(ErrorCode::kCorrupt, "{}: {}", file_,
                     fmt::format(format, std::forward<Args>(args)...));
  }

  // After a read that found too few bytes.
  Error Truncated(std::string_view what) const {
    return Corrupt(
        "data beyond end of file: {} at byte {} needs {} bytes, {} are left; the file is "
        "truncated or damaged",
        what, reader_.position(), needed_, reader_.remaining());
  }

  template <typename T>
  std::optional<T> Take() {
    needed_ = sizeof(T);
    return reader_.Read<T>();
  }

  std::optional<std::string_view> TakeString() {
    const auto length = Take<uint64_t>();
    if (!length) return std::nullopt;
    needed_ = *length;
    const auto bytes = reader_.ReadBytes(*length);
    if (!bytes) return std::nullopt;
    return std::string_view(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  }

  Status ReadCounts() {
    part_.version = static_cast<int>(*ByteReader(bytes_.subspan(4)).Read<uint32_t>());
    reader_.ReadBytes(8);
    const auto num_tensors = Take<uint64_t>();
    const auto num_keys = num_tensors ? Take<uint64_t>() : std::nullopt;
    if (!num_keys) return Truncated("the header");
    num_tensors_ = *num_tensors;
    num_keys_ = *num_keys;
    QUIRE_RETURN_IF_ERROR(CheckCount("tensors", num_tensors_, kMinTensorEntryBytes));
    QUIRE_RETURN_IF_ERROR(CheckCount("metadata keys", num_keys_, kMinKeyEntryBytes));
    QUIRE_RETURN_IF_ERROR(CheckLimit("tensors", num_tensors_, kMaxGgufTensors));
    return CheckLimit("metadata keys", num_keys_, kMaxGgufKeys);
  }

  // Whether `count` entries of at least `min_bytes` can follow.
  Status CheckCount(std::string_view what, uint64_t count, uint64_t min_bytes) const {
    if (count <= reader_.remaining() / min_bytes) return {};
    return Corrupt(
        "data beyond end of file: the header declares {} {} of at least {} bytes each, "
        "{} bytes are left; the file is truncated or damaged",
        count, what, min_bytes, reader_.remaining());
  }

  Status CheckLimit(std::string_view what, uint64_t count, uint64_t limit) const {
    if (count <= limit) return {};
    return MakeError(ErrorCode::kUnsupported, "{}: {} {} (Quire reads up to {})", file_, count,
                     what, limit);
  }

  Status ReadKey(uint64_t key_idx) {
    const auto key = TakeString();
    if (!key) return Truncated(fmt::format("metadata key {}", key_idx));
    if (key->empty() || key->size() > kMaxKeyBytes) {
      return Corrupt("metadata key {} has {} bytes (expected 1 to {})", key_idx, key->size(),
                     kMaxKeyBytes);
    }
    if (!IsWellFormedUtf8(*key)) {
      return Corrupt("metadata key {} is not valid UTF-8: \"{}\"", key_idx, Printable(*key));
    }
    key_ = *key;
    const auto type = Take<uint32_t>();
    if (!type) return Truncated(fmt::format("the type of key \"{}\"", Printable(key_)));
    QUIRE_ASSIGN_OR_RETURN(GgufValue value, ReadValue(*type));
    if (!part_.metadata.try_emplace(std::string(key_), std::move(value)).second) {
      return Corrupt("metadata key \"{}\" appears twice", Printable(key_));
    }
    return {};
  }

  Result<GgufValue> ReadValue(uint32_t type) {
    switch (type) {
      case kUint8:
        return ReadNumber<uint8_t>();
      case kInt8:
        return ReadNumber<int8_t>();
      case kUint16:
        return ReadNumber<uint16_t>();
      case kInt16:
        return ReadNumber<int16_t>();
      case kUint32:
        return ReadNumber<uint32_t>();
      case kInt32:
        return ReadNumber<int32_t>();
      case kUint64:
        return ReadNumber<uint64_t>();
      case kInt64:
        return ReadNumber<int64_t>();
      case kFloat32:
        return ReadNumber<float>();
      case kFloat64:
        return ReadNumber<double>();
      case kBool: {
        const auto value = Take<uint8_t>();
        if (!value) return TruncatedValue();
        if (*value > 1) return BadBool(*value);
        return GgufValue(*value == 1);
      }
      case kString: {
        const auto value = TakeString();
        if (!value) return TruncatedValue();
        return GgufValue(*value);
      }
      case kArray:
        return ReadArray();
      default:
        return Corrupt("key \"{}\" has value type {} (expected 0 to 12)", Printable(key_), type);
    }
  }

  Result<GgufValue> ReadArray() {
    const auto type = Take<uint32_t>();
    const auto count = type ? Take<uint64_t>() : std::nullopt;
    if (!count) return TruncatedValue();
    switch (*type) {
      case kUint8:
        return ReadList<uint8_t>(*count);
      case kInt8:
        return ReadList<int8_t>(*count);
      case kUint16:
        return ReadList<uint16_t>(*count);
      case kInt16:
        return ReadList<int16_t>(*count);
      case kUint32:
        return ReadList<uint32_t>(*count);
      case kInt32:
        return ReadList<int32_t>(*count);
      case kUint64:
        return ReadList<uint64_t>(*count);
      case kInt64:
        return ReadList<int64_t>(*count);
      case kFloat32:
        return ReadList<float>(*count);
      case kFloat64:
        return ReadList<double>(*count);
      case kBool:
        return ReadBoolList(*count);
      case kString:
        return ReadStringList(*count);
      case kArray:
        return MakeError(ErrorCode::kUnsupported,
                         "{}: key \"{}\" is an array of arrays, which Quire does not read", file_,
                         Printable(key_));
      default:
        return Corrupt("key \"{}\" is an array of value type {} (expected 0 to 12)",
                       Printable(key_), *type);
    }
  }

  Error TruncatedValue() const {
    return Truncated(fmt::format("the value of key \"{}\"", Printable(key_)));
  }

  Error BadBool(uint8_t value) const {
    return Corrupt("key \"{}\" holds a boolean of {} (expected 0 or 1)", Printable(key_), value);
  }

  template <typename T>
  Result<GgufValue> ReadNumber() {
    const auto value = Take<T>();
    if (!value) return TruncatedValue();
    return GgufValue(static_cast<Widened<T>>(*value));
  }

  // Whether a list of `count` elements of at least `min_bytes` can follow.
  Status CheckList(uint64_t count, uint64_t min_bytes) {
    if (count > reader_.remaining() / min_bytes) {
      return Corrupt(
          "data beyond end of file: key \"{}\" declares an array of {} elements of at "
          "least {} bytes, {} bytes are left; the file is truncated or damaged",
          Printable(key_), count, min_bytes, reader_.remaining());
    }
    num_list_elements_ += count;
    return CheckLimit("array elements in metadata", num_list_elements_, kMaxGgufListElements);
  }

  template <typename T>
  Result<GgufValue> ReadList(uint64_t count) {
    QUIRE_RETURN_IF_ERROR(CheckList(count, sizeof(T)));
    std::vector<Widened<T>> list(count);
    for (auto& element : list) element = static_cast<Widened<T>>(*Take<T>());
    return GgufValue(GgufList(std::move(list)));
  }

  Result<GgufValue> ReadBoolList(uint64_t count) {
    QUIRE_RETURN_IF_ERROR(CheckList(count, 1));
    std::vector<uint64_t> list(count);
    for (uint64_t& element : list) {
      const uint8_t value = *Take<uint8_t>();
      if (value > 1) return BadBool(value);
      element = value;
    }
    return GgufValue(GgufList(std::move(list)));
  }

  Result<GgufValue> ReadStringList(uint64_t count) {
    QUIRE_RETURN_IF_ERROR(CheckList(count, sizeof(uint64_t)));
    std::vector<std::string_view> list(count);
    for (size_t i = 0; i < list.size(); ++i) {
      const auto value = TakeString();
      if (!value) {
        return Truncated(fmt::format("element {} of key \"{}\"", i, Printable(key_)));
      }
      list[i] = *value;
    }
    return GgufValue(GgufList(std::move(list)));
  }

  Status ReadAlignment() {
    const auto found = part_.metadata.find("general.alignment");
    if (found == part_.metadata.end()) return {};
    const auto* value = std::get_if<uint64_t>(&found->second);
    if (value == nullptr) {
      return Corrupt("key \"general.alignment\": expected an unsigned integer, got {}",
                     KindOf(found->second));
    }
    if (!std::has_single_bit(*value) || *value < kMinAlignment || *value > kMaxAlignment) {
      return Corrupt("general.alignment is {} (expected a power of two from {} to {})", *value,
                     kMinAlignment, kMaxAlignment);
    }
    alignment_ = *value;
    return {};
  }

  Status ReadTensorInfo(uint64_t tensor_idx) {
    const auto name = TakeString();
    if (!name) return Truncated(fmt::format("the name of tensor {}", tensor_idx));
    if (name->empty() || name->size() > kMaxNameBytes || !IsWellFormedUtf8(*name)) {
      return Corrupt("tensor {} has a name of {} bytes, \"{}\" (expected 1 to {} bytes of UTF-8)",
                     tensor_idx, name->size(), Printable(*name), kMaxNameBytes);
    }
    GgufTensor tensor;
    tensor.name = *name;
    const auto truncated = [&] {
      return Truncated(fmt::format("the header of tensor \"{}\"", Printable(*name)));
    };
    const auto num_dimensions = Take<uint32_t>();
    if (!num_dimensions) return truncated();
    if (*num_dimensions < 1 || *num_dimensions > kMaxDimensions) {
      return Corrupt("tensor \"{}\" has {} dimensions (expected 1 to {})", Printable(*name),
                     *num_dimensions, kMaxDimensions);
    }
    tensor.dimensions.resize(*num_dimensions);
    for (uint64_t& dimension : tensor.dimensions) {
      const auto value = Take<uint64_t>();
      if (!value) return truncated();
      dimension = *value;
    }
    const auto type = Take<uint32_t>();
    const auto offset = type ? Take<uint64_t>() : std::nullopt;
    if (!offset) return truncated();
    tensor.ggml_type = *type;
    offsets_.push_back(*offset);
    part_.tensors.push_back(std::move(tensor));
    return {};
  }

  Result<uint64_t> TensorBytes(const GgufTensor& tensor) const {
    const auto info = FindDType(tensor.ggml_type);
    if (!info) {
      return MakeError(ErrorCode::kUnsupported,
                       "{}: tensor \"{}\" has type {} (GGML type {}), which "
                       "Quire does not compute with",
                       file_, Printable(tensor.name), GgmlTypeName(tensor.ggml_type),
                       tensor.ggml_type);
    }
    uint64_t num_elements = 1;
    for (uint64_t dimension : tensor.dimensions) {
      const auto product = CheckedMul(num_elements, dimension);
      if (!product || *product == 0 || *product > uint64_t{INT64_MAX}) {
        return Corrupt(
            "tensor \"{}\" has shape [{}]: expected dimensions above 0 whose product fits "
            "in 63 bits",
            Printable(tensor.name), fmt::join(tensor.dimensions, ", "));
      }
      num_elements = *product;
    }
    if (tensor.dimensions[0] % info->block_elements != 0) {
      return Corrupt(
          "tensor \"{}\" has rows of {} elements (expected a multiple of {}, the block of "
          "{})",
          Printable(tensor.name), tensor.dimensions[0], info->block_elements, info->name);
    }
    const auto num_bytes = CheckedMul(num_elements / info->block_elements, info->block_bytes);
    if (!num_bytes) {
      return Corrupt("tensor \"{}\" of shape [{}] and type {}: its size overflows",
                     Printable(tensor.name), fmt::join(tensor.dimensions, ", "), info->name);
    }
    return *num_bytes;
  }

  Status PlaceTensors() {
    const uint64_t data_begin = AlignUp(reader_.position(), alignment_);
    for (size_t i = 0; i < part_.tensors.size(); ++i) {
      GgufTensor& tensor = part_.tensors[i];
      QUIRE_ASSIGN_OR_RETURN(const uint64_t num_bytes, TensorBytes(tensor));
      if (offsets_[i] % alignment_ != 0) {
        return Corrupt("tensor \"{}\" is at offset {} (expected a multiple of the alignment, {})",
                       Printable(tensor.name), offsets_[i], alignment_);
      }
      const auto begin = CheckedAdd(data_begin, offsets_[i]);
      const auto end = begin ? CheckedAdd(*begin, num_bytes) : std::nullopt;
      if (!end || *end > bytes_.size()) {
        return Corrupt(
            "data beyond end of file: tensor \"{}\" has {} bytes at offset {} of the data, "
            "which starts at byte {}; the file has {} bytes; it is truncated or damaged",
            Printable(tensor.name), num_bytes, offsets_[i], data_begin, bytes_.size());
      }
      tensor.data = bytes_.subspan(*begin, num_bytes);
    }
    return {};
  }

  Status CheckOverlaps() const {
    std::vector<size_t> order(part_.tensors.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return offsets_[a] < offsets_[b]; });
    for (size_t i = 1; i < order.size(); ++i) {
      const GgufTensor& before = part_.tensors[order[i - 1]];
      if (offsets_[order[i]] - offsets_[order[i - 1]] >= before.data.size()) continue;
      return Corrupt("tensors \"{}\" ({} bytes at offset {}) and \"{}\" (at offset {}) overlap",
                     Printable(before.name), before.data.size(), offsets_[order[i - 1]],
                     Printable(part_.tensors[order[i]].name), offsets_[order[i]]);
    }
    return {};
  }

  std::string_view file_;
  std::span<const std::byte> bytes_;
  ByteReader reader_;
  uint64_t needed_ = 0;  // bytes that the latest read asked for
  uint64_t num_tensors_ = 0;
  uint64_t num_keys_ = 0;
  uint64_t num_list_elements_ = 0;
  uint64_t alignment_ = kDefaultAlignment;
  std::string_view key_;           // whose value is being read
  std::vector<uint64_t> offsets_;  // [num_tensors], from the start of the data
  GgufPart part_;
};

}  // namespace

Result<GgufPart> ParseGgufPart(std::string_view file, std::span<const std::byte> bytes) {
  return PartReader(file, bytes).Read();
}

}  // namespace quire
