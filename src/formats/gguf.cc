#include "formats/gguf.h"

#include <utility>

#include "formats/gguf_part.h"
#include "formats/gguf_split.h"
#include "formats/printable.h"

namespace quire {
namespace {

constexpr std::string_view kSplitNumber = "split.no";  // from 0, while file names count from 1
constexpr std::string_view kSplitCount = "split.count";
constexpr std::string_view kSplitTensors = "split.tensors.count";

struct LoadedPart {
  std::filesystem::path path;
  MappedFile file;
  GgufPart content;  // points into file
};

// Opening waits on a pipe and would succeed on a device, so what is no file is refused first.
Result<LoadedPart> LoadPart(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    return MakeError(ErrorCode::kIo, "{}: not a regular file", path.string());
  }
  QUIRE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  QUIRE_ASSIGN_OR_RETURN(GgufPart content, ParseGgufPart(path.string(), file.bytes()));
  return LoadedPart{.path = path, .file = std::move(file), .content = std::move(content)};
}

// An integer among a part's split keys, which writers store signed or unsigned.
Result<uint64_t> SplitKey(const LoadedPart& part, std::string_view key, uint64_t fallback) {
  const auto found = part.content.metadata.find(key);
  if (found == part.content.metadata.end()) return fallback;
  if (const auto* value = std::get_if<uint64_t>(&found->second)) return *value;
  if (const auto* value = std::get_if<int64_t>(&found->second)) {
    if (*value >= 0) return static_cast<uint64_t>(*value);
    return MakeError(ErrorCode::kCorrupt, "{}: key \"{}\" is {} (expected 0 or more)",
                     part.path.string(), key, *value);
  }
  return MakeError(ErrorCode::kCorrupt, "{}: key \"{}\": expected an unsigned integer, got {}",
                   part.path.string(), key, KindOf(found->second));
}

// Whether the part's name and its own account of itself agree; `name` is the name's account.
Status CheckPlace(const LoadedPart& part, const GgufSplitName& name) {
  QUIRE_ASSIGN_OR_RETURN(const uint64_t count, SplitKey(part, kSplitCount, 0));
  QUIRE_ASSIGN_OR_RETURN(const uint64_t number, SplitKey(part, kSplitNumber, 0));
  if (count == static_cast<uint64_t>(name.count) &&
      number + 1 == static_cast<uint64_t>(name.number)) {
    return {};
  }
  return MakeError(ErrorCode::kCorrupt,
                   "{}: the name says part {} of {}, but split.no is {} and split.count {} "
                   "(expected {} and {}; split.no counts from 0); was the file renamed?",
                   part.path.string(), name.number, name.count, number, count, name.number - 1,
                   name.count);
}

// Later parts carry split keys; what else they carry has to agree with the first part.
Status CheckMetadata(const LoadedPart& first, const LoadedPart& part) {
  for (const auto& [key, value] : part.content.metadata) {
    if (key.starts_with("split.") || key == "general.alignment") continue;
    const auto found = first.content.metadata.find(key);
    if (found != first.content.metadata.end() && found->second == value) continue;
    return MakeError(ErrorCode::kCorrupt,
                     "{}: key \"{}\" {} {}; the parts belong to different models",
                     part.path.string(), Printable(key),
                     found == first.content.metadata.end() ? "is missing from" : "differs from",
                     first.path.string());
  }
  return {};
}

Status CheckTensorCount(const std::vector<LoadedPart>& parts) {
  uint64_t total = 0;
  for (const LoadedPart& part : parts) total += part.content.tensors.size();
  for (const LoadedPart& part : parts) {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t expected, SplitKey(part, kSplitTensors, total));
    if (expected == total) continue;
    return MakeError(ErrorCode::kCorrupt,
                     "{}: split.tensors.count is {}, but the parts hold {} tensors",
                     part.path.string(), expected, total);
  }
  return {};
}

// The whole set that `chosen` is one part of, in order.
Result<std::vector<LoadedPart>> LoadSet(LoadedPart chosen, uint64_t count) {
  auto name = ParseGgufSplitName(chosen.path.filename().string());
  if (!name) {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t number, SplitKey(chosen, kSplitNumber, 0));
    return MakeError(
        ErrorCode::kCorrupt,
        "{}: holds a part of a split model (split.no {}, split.count {}), but its name "
        "does not lead to the others (expected NAME-{:05}-of-{:05}.gguf); was it "
        "renamed?",
        chosen.path.string(), number, count, number + 1, count);
  }
  QUIRE_RETURN_IF_ERROR(CheckPlace(chosen, *name));
  const int chosen_number = name->number;
  const auto directory = chosen.path.parent_path();
  std::vector<LoadedPart> parts;
  for (int number = 1; number <= name->count; ++number) {
    if (number == chosen_number) {
      parts.push_back(std::move(chosen));  // NOLINT(bugprone-use-after-move): moved once
    } else {
      auto part = LoadPart(directory / name->FileName(number));
      if (!part.ok() && part.error().code == ErrorCode::kNotFound) {
        return MakeError(ErrorCode::kNotFound, "part {} of {} of the split model is missing: {}",
                         number, name->count, part.error().message);
      }
      if (!part.ok()) return part.error();
      parts.push_back(std::move(*part));
      name->number = number;
      QUIRE_RETURN_IF_ERROR(CheckPlace(parts.back(), *name));
    }
    QUIRE_RETURN_IF_ERROR(CheckMetadata(parts.front(), parts.back()));
  }
  QUIRE_RETURN_IF_ERROR(CheckTensorCount(parts));
  return parts;
}

// All parts of the model that a file belongs to, in order.
Result<std::vector<LoadedPart>> LoadParts(const std::filesystem::path& path) {
  QUIRE_ASSIGN_OR_RETURN(LoadedPart chosen, LoadPart(path));
  QUIRE_ASSIGN_OR_RETURN(const uint64_t count, SplitKey(chosen, kSplitCount, 0));
  if (count > 1) return LoadSet(std::move(chosen), count);
  // A whole file, though it may once have been split (a count of 0 or 1 is left by merging).
  const auto name = ParseGgufSplitName(path.filename().string());
  if (name && name->count > 1) {
    return MakeError(ErrorCode::kCorrupt,
                     "{}: the name says part {} of {}, but split.count is {}; was it renamed?",
                     path.string(), name->number, name->count, count);
  }
  std::vector<LoadedPart> parts;
  parts.push_back(std::move(chosen));
  if (count == 1) {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t number, SplitKey(parts[0], kSplitNumber, 0));
    if (number != 0) {
      return MakeError(ErrorCode::kCorrupt, "{}: split.no is {} of a split.count of 1 (expected 0)",
                       path.string(), number);
    }
    QUIRE_RETURN_IF_ERROR(CheckTensorCount(parts));
  }
  return parts;
}

}  // namespace

Result<GgufFile> GgufFile::Open(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::path file_path = path;
  if (std::filesystem::is_directory(path, error)) {
    QUIRE_ASSIGN_OR_RETURN(file_path, FindGgufInDirectory(path));
  }
  QUIRE_ASSIGN_OR_RETURN(std::vector<LoadedPart> parts, LoadParts(file_path));

  GgufFile file;
  file.version_ = parts[0].content.version;
  file.metadata_ = std::move(parts[0].content.metadata);
  for (LoadedPart& part : parts) {
    const int part_idx = static_cast<int>(file.parts_.size());
    for (GgufTensor& tensor : part.content.tensors) {
      tensor.part = part_idx;
      if (!file.tensor_index_.try_emplace(tensor.name, file.tensors_.size()).second) {
        return MakeError(ErrorCode::kCorrupt, "{}: tensor \"{}\" appears twice", part.path.string(),
                         Printable(tensor.name));
      }
      file.tensors_.push_back(std::move(tensor));
    }
    file.parts_.push_back(std::move(part.file));
    file.part_paths_.push_back(std::move(part.path));
  }
  return file;
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

const GgufValue* GgufFile::FindValue(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

}  // namespace quire
