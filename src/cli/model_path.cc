#include "cli/model_path.h"

#include <cstdlib>
#include <string>

#include "cli/catalogue.h"
#include "cli/download/download.h"
#include "formats/printable.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

// The variable's value; empty where it is not set.
std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

bool LooksLikeAPath(std::string_view argument) {
  return argument.find('/') != std::string_view::npos || argument.ends_with(".gguf");
}

}  // namespace

Result<fs::path> CacheDirectory() {
  if (const std::string cache = Environment("QUIRE_CACHE"); !cache.empty()) return fs::path(cache);
  // The base directory specification says to pass over relative paths here.
  if (const std::string cache = Environment("XDG_CACHE_HOME"); cache.starts_with('/')) {
    return fs::path(cache) / "quire";
  }
  const std::string home = Environment("HOME");
  if (home.empty()) {
    return MakeError(ErrorCode::kNotFound,
                     "no cache directory: neither QUIRE_CACHE nor HOME is set; set QUIRE_CACHE to "
                     "a directory");
  }
  return fs::path(home) / ".cache" / "quire";
}

Result<fs::path> ModelsDirectory() {
  QUIRE_ASSIGN_OR_RETURN(const fs::path cache, CacheDirectory());
  return cache / "models";
}

Result<fs::path> ResolveModel(std::string_view argument) {
  std::error_code error;
  const fs::path path(argument);
  if (!argument.empty() && fs::exists(path, error)) return path;
  if (IsRemoteModel(argument)) {
    QUIRE_ASSIGN_OR_RETURN(const fs::path models, ModelsDirectory());
    QUIRE_ASSIGN_OR_RETURN(const RemoteModel model, ParseRemoteModel(argument, models));
    if (IsDownloaded(model)) return model.files.front().file;
    return MakeError(ErrorCode::kNotFound, "model '{}' is not here yet; run: quire pull {}",
                     Printable(argument), Printable(argument));
  }
  const CatalogueEntry* entry = FindInCatalogue(argument);
  if (entry == nullptr) {
    // What `quire models` lists of the directory.
    if (const auto models = ModelsDirectory();
        models.ok() && path.is_relative() && fs::is_regular_file(*models / path, error)) {
      return *models / path;
    }
    if (LooksLikeAPath(argument)) {
      return MakeError(ErrorCode::kNotFound, "{}: no such file", argument);
    }
    return MakeError(ErrorCode::kNotFound,
                     "'{}' is neither a file nor a known model; known models: {}", argument,
                     CatalogueNames());
  }
  QUIRE_ASSIGN_OR_RETURN(const fs::path models, ModelsDirectory());
  const fs::path file = models / entry->file;
  if (!fs::exists(file, error)) {
    return MakeError(ErrorCode::kNotFound, "model '{}' is not here yet; run: quire pull {}",
                     entry->name, entry->name);
  }
  return file;
}

std::string ModelName(std::string_view argument) {
  const fs::path path(argument);
  return path.extension() == ".gguf" ? path.stem().string() : path.filename().string();
}

}  // namespace quire
