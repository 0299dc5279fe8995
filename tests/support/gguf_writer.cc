#include "support/gguf_writer.h"

#include <fstream>

namespace quire::testing {

void GgufWriter::AddString(std::string_view key, std::string_view value) {
  GgufBytes bytes;
  bytes.String(value);
  AddRaw(key, static_cast<uint32_t>(GgufValueType::kString), bytes.str());
}

void GgufWriter::AddStrings(std::string_view key, const std::vector<std::string>& values) {
  GgufBytes bytes;
  bytes.Number(static_cast<uint32_t>(GgufValueType::kString));
  bytes.Number(uint64_t{values.size()});
  for (const std::string& value : values) bytes.String(value);
  AddRaw(key, static_cast<uint32_t>(GgufValueType::kArray), bytes.str());
}

void GgufWriter::AddRaw(std::string_view key, uint32_t type, std::string_view value) {
  keys_.String(key);
  keys_.Number(type);
  keys_.Raw(value);
  ++num_keys_;
}

void GgufWriter::AddTensor(std::string_view name, uint32_t ggml_type,
                           const std::vector<uint64_t>& dimensions, std::string_view data) {
  AddTensorInfo(name, ggml_type, dimensions, data_.str().size());
  data_.Raw(data);
  data_.PadTo(alignment_);
}

void GgufWriter::AddTensorF32(std::string_view name, const std::vector<uint64_t>& dimensions,
                              std::span<const float> values) {
  AddTensor(name, 0, dimensions,
            {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}

void GgufWriter::AddTensorInfo(std::string_view name, uint32_t ggml_type,
                               const std::vector<uint64_t>& dimensions, uint64_t offset) {
  tensors_.String(name);
  tensors_.Number(static_cast<uint32_t>(dimensions.size()));
  for (uint64_t dimension : dimensions) tensors_.Number(dimension);
  tensors_.Number(ggml_type);
  tensors_.Number(offset);
  ++num_tensors_;
}

void GgufWriter::SetAlignment(uint32_t alignment) {
  Add("general.alignment", alignment);
  alignment_ = alignment;
}

std::string GgufWriter::Header() const {
  GgufBytes bytes;
  bytes.Raw("GGUF");
  bytes.Number(version_);
  bytes.Number(claimed_tensors_ == kNotClaimed ? num_tensors_ : claimed_tensors_);
  bytes.Number(claimed_keys_ == kNotClaimed ? num_keys_ : claimed_keys_);
  bytes.Raw(keys_.str());
  bytes.Raw(tensors_.str());
  return bytes.str();
}

std::string GgufWriter::Bytes() const {
  GgufBytes bytes;
  bytes.Raw(Header());
  if (num_tensors_ > 0) bytes.PadTo(alignment_);
  bytes.Raw(data_.str());
  return bytes.str();
}

bool GgufWriter::Write(const std::filesystem::path& path) const {
  return WriteBytes(path, Bytes());
}

void AddSplitKeys(GgufWriter& writer, uint16_t part_idx, uint16_t num_parts, int32_t num_tensors) {
  writer.Add("split.no", part_idx);
  writer.Add("split.count", num_parts);
  writer.Add("split.tensors.count", num_tensors);
}

bool WriteBytes(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  stream.close();
  return stream.good();
}

}  // namespace quire::testing
