#include "formats/gguf_split.h"

#include <map>
#include <vector>

namespace quire {
namespace {

constexpr std::string_view kExtension = ".gguf";
constexpr std::string_view kOf = "-of-";
constexpr size_t kDigits = 5;
constexpr size_t kMaxModelsNamed = 8;

std::optional<int> ParseDigits(std::string_view text) {
  int value = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

}  // namespace

std::string GgufSplitName::FileName(int part_number) const {
  return fmt::format("{}-{:05}-of-{:05}.gguf", base, part_number, count);
}

std::optional<GgufSplitName> ParseGgufSplitName(std::string_view file_name) {
  constexpr size_t kSuffixBytes = 1 + kDigits + kOf.size() + kDigits;
  if (!file_name.ends_with(kExtension)) return std::nullopt;
  file_name.remove_suffix(kExtension.size());
  if (file_name.size() < kSuffixBytes) return std::nullopt;
  const std::string_view suffix = file_name.substr(file_name.size() - kSuffixBytes);
  if (suffix[0] != '-' || suffix.substr(1 + kDigits, kOf.size()) != kOf) return std::nullopt;
  const auto number = ParseDigits(suffix.substr(1, kDigits));
  const auto count = ParseDigits(suffix.substr(suffix.size() - kDigits));
  if (!number || !count) return std::nullopt;
  return GgufSplitName{.base = std::string(file_name.substr(0, file_name.size() - kSuffixBytes)),
                       .number = *number,
                       .count = *count};
}

Result<std::filesystem::path> FindGgufInDirectory(const std::filesystem::path& directory) {
  std::map<std::string, std::filesystem::path> models;  // by name, with the first part or file
  std::error_code error;
  std::filesystem::directory_iterator entries(directory, error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    const std::string file_name = entries->path().filename().string();
    if (!file_name.ends_with(kExtension)) continue;
    const auto split = ParseGgufSplitName(file_name);
    auto& file = models[split ? split->FileName(1) : file_name];
    if (file.empty() || entries->path() < file) file = entries->path();
  }
  if (error) {
    return MakeError(ErrorCode::kIo, "{}: {}", directory.string(), error.message());
  }
  if (models.empty()) {
    return MakeError(ErrorCode::kNotFound, "{}: no .gguf file in this directory",
                     directory.string());
  }
  if (models.size() > 1) {
    std::vector<std::string> names;
    for (const auto& [name, path] : models) {
      if (names.size() < kMaxModelsNamed) names.push_back(path.filename().string());
    }
    return MakeError(ErrorCode::kInvalidArgument,
                     "{}: the directory holds {} models ({}{}); name one of the files",
                     directory.string(), models.size(), fmt::join(names, ", "),
                     models.size() > names.size() ? ", ..." : "");
  }
  return models.begin()->second;
}

}  // namespace quire
