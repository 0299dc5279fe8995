#include "cli/inspect.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <variant>

#include "base/bytes.h"
#include "base/utf8.h"
#include "formats/printable.h"
#include "tensor/dtype.h"

namespace quire {
namespace {

constexpr size_t kListElementsShown = 6;
constexpr size_t kStringBytesShown = 96;
constexpr size_t kElementBytesShown = 24;
constexpr uint64_t kF16Bytes = 2;

struct Totals {
  uint64_t file_bytes = 0;
  uint64_t tensor_bytes = 0;
  uint64_t parameters = 0;
  std::map<std::string_view, uint64_t> bytes_by_type;
  std::optional<uint64_t> kv_bytes_per_token;  // in f16, all layers; nothing: the file does not say
  std::string kv_unknown_because;              // when it does not
};

uint64_t ParametersOf(const GgufTensor& tensor) {
  uint64_t product = 1;  // fits: the reader checked it
  for (uint64_t dimension : tensor.dimensions) product *= dimension;
  return product;
}

std::vector<uint64_t> ShapeOf(const GgufTensor& tensor) {
  return {tensor.dimensions.rbegin(), tensor.dimensions.rend()};
}

// Elements of a key or value per head: the file's number, or embedding_length / heads.
Result<std::vector<uint64_t>> HeadDims(const GgufFile& file, const std::string& prefix,
                                       std::string_view key, const std::vector<uint64_t>& heads) {
  const std::string full_key = prefix + std::string(key);
  if (file.FindValue(full_key) != nullptr) return file.GetUintPerLayer(full_key, heads.size());
  QUIRE_ASSIGN_OR_RETURN(const uint64_t embedding, file.GetUint(prefix + "embedding_length"));
  std::vector<uint64_t> dims;
  for (uint64_t num_heads : heads) {
    if (num_heads != 0 && embedding % num_heads != 0) {
      return MakeError(
          ErrorCode::kCorrupt,
          "{}: \"{}embedding_length\" is {}, not a multiple of {} heads, and \"{}\" is "
          "missing",
          file.part_paths()[0].string(), Printable(prefix), embedding, num_heads,
          Printable(full_key));
    }
    dims.push_back(num_heads == 0 ? 0 : embedding / num_heads);
  }
  return dims;
}

// The sum over layers of kv_heads * (key_dim + value_dim) f16 elements.
Result<uint64_t> KvBytesPerToken(const GgufFile& file) {
  QUIRE_ASSIGN_OR_RETURN(const std::string_view architecture,
                         file.GetString("general.architecture"));
  const std::string prefix = std::string(architecture) + ".";
  const std::string kv_heads_key = prefix + "attention.head_count_kv";
  QUIRE_ASSIGN_OR_RETURN(const uint64_t num_layers, file.GetUint(prefix + "block_count"));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<uint64_t> heads,
                         file.GetUintPerLayer(prefix + "attention.head_count", num_layers));
  std::vector<uint64_t> kv_heads = heads;
  if (file.FindValue(kv_heads_key) != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(kv_heads, file.GetUintPerLayer(kv_heads_key, num_layers));
  }
  QUIRE_ASSIGN_OR_RETURN(const auto keys, HeadDims(file, prefix, "attention.key_length", heads));
  QUIRE_ASSIGN_OR_RETURN(const auto values,
                         HeadDims(file, prefix, "attention.value_length", heads));
  uint64_t total = 0;
  for (size_t layer = 0; layer < num_layers; ++layer) {
    const auto dims = CheckedAdd(keys[layer], values[layer]);
    const auto elements = dims ? CheckedMul(kv_heads[layer], *dims) : std::nullopt;
    const auto bytes = elements ? CheckedMul(*elements, kF16Bytes) : std::nullopt;
    const auto sum = bytes ? CheckedAdd(total, *bytes) : std::nullopt;
    if (!sum) {
      return MakeError(ErrorCode::kCorrupt,
                       "{}: layer {} has {} heads of {} + {} elements of keys and values, whose "
                       "size overflows",
                       file.part_paths()[0].string(), layer, kv_heads[layer], keys[layer],
                       values[layer]);
    }
    total = *sum;
  }
  return total;
}

Result<Totals> TotalsOf(const GgufFile& file) {
  Totals totals;
  for (const MappedFile& part : file.parts()) totals.file_bytes += part.bytes().size();
  for (const GgufTensor& tensor : file.tensors()) {
    totals.tensor_bytes += tensor.data.size();
    totals.parameters += ParametersOf(tensor);
    totals.bytes_by_type[GgmlTypeName(tensor.ggml_type)] += tensor.data.size();
  }
  const auto kv_bytes = KvBytesPerToken(file);
  if (kv_bytes.ok()) {
    totals.kv_bytes_per_token = *kv_bytes;
  } else if (kv_bytes.error().code == ErrorCode::kNotFound) {
    totals.kv_unknown_because = kv_bytes.error().message;
  } else {
    return kv_bytes.error();
  }
  return totals;
}

// 98362432 as "98,362,432".
std::string Grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t end = text.size(); end > 3; end -= 3) text.insert(end - 3, ",");
  return text;
}

// The shortest digits that give the number back, as binary32 where that is what the file held.
std::string NumberText(double number) {
  const float narrow = static_cast<float>(number);
  return double{narrow} == number ? fmt::format("{}", narrow) : fmt::format("{}", number);
}

std::string ElementText(uint64_t element) { return std::to_string(element); }
std::string ElementText(int64_t element) { return std::to_string(element); }
std::string ElementText(double element) { return NumberText(element); }
std::string ElementText(std::string_view element) {
  return fmt::format("\"{}\"", Printable(element, kElementBytesShown));
}

template <typename T>
std::string ListText(const std::vector<T>& list) {
  std::string text = "[";
  for (size_t i = 0; i < std::min(list.size(), kListElementsShown); ++i) {
    text += (i == 0 ? "" : ", ") + ElementText(list[i]);
  }
  return text + (list.size() > kListElementsShown
                     ? fmt::format(", ...] ({} elements)", Grouped(list.size()))
                     : "]");
}

std::string ValueText(const GgufValue& value) {
  if (const auto* text = std::get_if<std::string_view>(&value)) {
    return fmt::format("\"{}\"", Printable(*text, kStringBytesShown));
  }
  if (const auto* boolean = std::get_if<bool>(&value)) return *boolean ? "true" : "false";
  if (const auto* number = std::get_if<double>(&value)) return NumberText(*number);
  if (const auto* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
  if (const auto* number = std::get_if<uint64_t>(&value)) return std::to_string(*number);
  return std::visit([](const auto& list) { return ListText(list); }, std::get<GgufList>(value));
}

boost::json::value NumberJson(double number) {
  if (std::isfinite(number)) return number;
  return boost::json::string(std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf");
}

boost::json::value ElementJson(uint64_t element) { return element; }
boost::json::value ElementJson(int64_t element) { return element; }
boost::json::value ElementJson(double element) { return NumberJson(element); }
boost::json::value ElementJson(bool element) { return element; }
boost::json::value ElementJson(std::string_view element) {
  return boost::json::string(RepairUtf8(element));
}
boost::json::value ElementJson(const GgufList& list) {
  boost::json::array array;
  std::visit(
      [&](const auto& elements) {
        for (const auto& element : elements) array.push_back(ElementJson(element));
      },
      list);
  return array;
}

boost::json::object TensorJson(const GgufTensor& tensor) {
  boost::json::array shape;
  for (uint64_t dimension : ShapeOf(tensor)) shape.push_back(dimension);
  return {{"name", std::string(tensor.name)},
          {"type", std::string(GgmlTypeName(tensor.ggml_type))},
          {"shape", std::move(shape)},
          {"bytes", tensor.data.size()},
          {"part", tensor.part}};
}

std::string TensorTable(const GgufFile& file) {
  constexpr size_t kNameBytesShown = 64;
  size_t width = 4;
  for (const GgufTensor& tensor : file.tensors()) {
    width = std::max(width, Printable(tensor.name, kNameBytesShown).size());
  }
  std::string text;
  for (const GgufTensor& tensor : file.tensors()) {
    text +=
        fmt::format("  {:<{}}  {:<5} {:>15} bytes  [{}]\n", Printable(tensor.name, kNameBytesShown),
                    width, GgmlTypeName(tensor.ggml_type), Grouped(tensor.data.size()),
                    fmt::join(ShapeOf(tensor), ", "));
  }
  return text;
}

}  // namespace

Result<std::string> InspectAsText(const GgufFile& file) {
  QUIRE_ASSIGN_OR_RETURN(const Totals totals, TotalsOf(file));
  std::string text;
  const auto out = std::back_inserter(text);
  for (size_t part = 0; part < file.parts().size(); ++part) {
    fmt::format_to(out, "file        {} ({} bytes)\n",
                   Printable(file.part_paths()[part].string(), 4096),
                   Grouped(file.parts()[part].bytes().size()));
  }
  fmt::format_to(out, "format      GGUF version {}\n\nmetadata    {} keys\n", file.version(),
                 file.metadata().size());
  for (const auto& [key, value] : file.metadata()) {
    fmt::format_to(out, "  {} = {}\n", Printable(key), ValueText(value));
  }
  fmt::format_to(out, "\ntensors     {}, shapes outermost first\n{}\n", file.tensors().size(),
                 TensorTable(file));
  fmt::format_to(out, "tensors     {} bytes", Grouped(totals.tensor_bytes));
  const char* separator = ": ";
  for (const auto& [type, bytes] : totals.bytes_by_type) {
    fmt::format_to(out, "{}{} {}", separator, type, Grouped(bytes));
    separator = ", ";
  }
  fmt::format_to(out, "\nparameters  {}\n", Grouped(totals.parameters));
  if (totals.kv_bytes_per_token) {
    fmt::format_to(out, "KV cache    {} bytes a token in f16, all layers\n",
                   Grouped(*totals.kv_bytes_per_token));
  } else {
    fmt::format_to(out, "KV cache    unknown: {}\n", totals.kv_unknown_because);
  }
  return text;
}

Result<std::string> InspectAsJson(const GgufFile& file) {
  QUIRE_ASSIGN_OR_RETURN(const Totals totals, TotalsOf(file));
  boost::json::array files;
  for (size_t part = 0; part < file.parts().size(); ++part) {
    files.push_back(boost::json::object{{"path", RepairUtf8(file.part_paths()[part].string())},
                                        {"bytes", file.parts()[part].bytes().size()}});
  }
  boost::json::object metadata;
  for (const auto& [key, value] : file.metadata()) {
    metadata[key] = std::visit([](const auto& held) { return ElementJson(held); }, value);
  }
  boost::json::array tensors;
  for (const GgufTensor& tensor : file.tensors()) tensors.push_back(TensorJson(tensor));
  boost::json::object bytes_by_type;
  for (const auto& [type, bytes] : totals.bytes_by_type) {
    bytes_by_type[boost::json::string_view(type.data(), type.size())] = bytes;
  }
  boost::json::object report{
      {"files", std::move(files)},           {"format", "GGUF"},
      {"version", file.version()},           {"metadata", std::move(metadata)},
      {"tensors", std::move(tensors)},       {"file_bytes", totals.file_bytes},
      {"tensor_bytes", totals.tensor_bytes}, {"tensor_bytes_by_type", std::move(bytes_by_type)},
      {"parameters", totals.parameters},     {"kv_bytes_per_token_f16", nullptr}};
  if (totals.kv_bytes_per_token) report["kv_bytes_per_token_f16"] = *totals.kv_bytes_per_token;
  return boost::json::serialize(report);
}

}  // namespace quire
