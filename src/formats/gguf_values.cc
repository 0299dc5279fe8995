#include <array>
#include <cmath>

#include "formats/gguf.h"
#include "formats/printable.h"

namespace quire {

std::string_view KindOf(const GgufValue& value) {
  constexpr std::array<std::string_view, 5> kScalars = {"unsigned integer", "signed integer",
                                                        "float", "boolean", "string"};
  constexpr std::array<std::string_view, 4> kLists = {
      "list of unsigned integers", "list of signed integers", "list of floats", "list of strings"};
  if (const auto* list = std::get_if<GgufList>(&value)) return kLists[list->index()];
  return kScalars[value.index()];
}

namespace {

std::optional<uint64_t> AsUint(const GgufValue& value) {
  if (const auto* number = std::get_if<uint64_t>(&value)) return *number;
  if (const auto* number = std::get_if<int64_t>(&value); number != nullptr && *number >= 0) {
    return static_cast<uint64_t>(*number);
  }
  return std::nullopt;
}

std::optional<double> AsFinite(const GgufValue& value) {
  if (const auto* number = std::get_if<uint64_t>(&value)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<int64_t>(&value)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<double>(&value); number && std::isfinite(*number)) {
    return *number;
  }
  return std::nullopt;
}

// What a getter expected and did not get, with the number itself where there is one.
std::string Shown(const GgufValue& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return fmt::format("{}", *number);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("float {}", *number);
  return std::string(KindOf(value));
}

}  // namespace

Error GgufFile::WrongKind(std::string_view key, std::string_view expected,
                          const GgufValue& value) const {
  return MakeError(ErrorCode::kCorrupt, "{}: key \"{}\": expected {}, got {}",
                   part_paths_[0].string(), Printable(key), expected, Shown(value));
}

Result<const GgufValue*> GgufFile::RequireValue(std::string_view key) const {
  const GgufValue* value = FindValue(key);
  if (value != nullptr) return value;
  return MakeError(ErrorCode::kNotFound, "{}: key \"{}\" is missing", part_paths_[0].string(),
                   Printable(key));
}

Result<uint64_t> GgufFile::GetUint(std::string_view key) const {
  QUIRE_ASSIGN_OR_RETURN(const GgufValue* value, RequireValue(key));
  if (const auto number = AsUint(*value)) return *number;
  return WrongKind(key, "an unsigned integer", *value);
}

Result<double> GgufFile::GetFloat(std::string_view key) const {
  QUIRE_ASSIGN_OR_RETURN(const GgufValue* value, RequireValue(key));
  if (const auto number = AsFinite(*value)) return *number;
  return WrongKind(key, "a finite number", *value);
}

Result<bool> GgufFile::GetBool(std::string_view key) const {
  QUIRE_ASSIGN_OR_RETURN(const GgufValue* value, RequireValue(key));
  if (const auto* boolean = std::get_if<bool>(value)) return *boolean;
  return WrongKind(key, "a boolean", *value);
}

Result<std::string_view> GgufFile::GetString(std::string_view key) const {
  QUIRE_ASSIGN_OR_RETURN(const GgufValue* value, RequireValue(key));
  if (const auto* text = std::get_if<std::string_view>(value)) return *text;
  return WrongKind(key, "a string", *value);
}

Result<const std::vector<std::string_view>*> GgufFile::GetStrings(std::string_view key) const {
  QUIRE_ASSIGN_OR_RETURN(const GgufValue* value, RequireValue(key));
  if (const auto* list = std::get_if<GgufList>(value)) {
    if (const auto* strings = std::get_if<std::vector<std::string_view>>(list)) return strings;
  }
  return WrongKind(key, "a list of strings", *value);
}

Result<uint64_t> GgufFile::GetUintOr(std::string_view key, uint64_t fallback) const {
  return FindValue(key) == nullptr ? Result<uint64_t>(fallback) : GetUint(key);
}

Result<double> GgufFile::GetFloatOr(std::string_view key, double fallback) const {
  return FindValue(key) == nullptr ? Result<double>(fallback) : GetFloat(key);
}

Result<bool> GgufFile::GetBoolOr(std::string_view key, bool fallback) const {
  return FindValue(key) == nullptr ? Result<bool>(fallback) : GetBool(key);
}

Result<std::string_view> GgufFile::GetStringOr(std::string_view key,
                                               std::string_view fallback) const {
  return FindValue(key) == nullptr ? Result<std::string_view>(fallback) : GetString(key);
}

Result<std::vector<uint64_t>> GgufFile::GetUintPerLayer(std::string_view key, size_t count) const {
  QUIRE_ASSIGN_OR_RETURN(const GgufValue* value, RequireValue(key));
  if (count > kMaxGgufLayers) {
    return MakeError(ErrorCode::kUnsupported, "{}: {} layers (Quire reads up to {})",
                     part_paths_[0].string(), count, kMaxGgufLayers);
  }
  if (const auto number = AsUint(*value)) return std::vector<uint64_t>(count, *number);
  const auto* list = std::get_if<GgufList>(value);
  if (list == nullptr) return WrongKind(key, "an unsigned integer or a list of them", *value);

  std::vector<uint64_t> numbers;
  if (const auto* unsigned_list = std::get_if<std::vector<uint64_t>>(list)) {
    numbers = *unsigned_list;
  } else if (const auto* signed_list = std::get_if<std::vector<int64_t>>(list)) {
    for (int64_t number : *signed_list) {
      if (number < 0) return WrongKind(key, "numbers of 0 or more", GgufValue(number));
      numbers.push_back(static_cast<uint64_t>(number));
    }
  } else {
    return WrongKind(key, "an unsigned integer or a list of them", *value);
  }
  if (numbers.size() != count) {
    return MakeError(ErrorCode::kCorrupt,
                     "{}: key \"{}\" has {} elements (expected one for each of {} layers)",
                     part_paths_[0].string(), Printable(key), numbers.size(), count);
  }
  return numbers;
}

}  // namespace quire
