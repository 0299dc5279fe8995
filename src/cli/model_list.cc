#include "cli/model_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <string_view>

#include "cli/catalogue.h"
#include "cli/download/remote_model.h"
#include "cli/pull.h"
#include "formats/gguf_split.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

// Folders within folders that are looked into: owner, repository, revision and a few of its own.
constexpr int kMaxFolders = 8;

std::string_view NameOf(ModelState state) {
  switch (state) {
    case ModelState::kReady:
      return "ready";
    case ModelState::kPartlyPulled:
      return "partly pulled";
    case ModelState::kNotPulled:
      return "not pulled";
  }
  return "";
}

bool IsCatalogueFile(const std::string& file) {
  return std::ranges::any_of(Catalogue(),
                             [&](const CatalogueEntry& entry) { return entry.file == file; });
}

ModelListing ListingOf(const CatalogueEntry& entry, const fs::path& models_dir) {
  ModelListing listing{.name = entry.name,
                       .file = models_dir / entry.file,
                       .size_bytes = entry.size_bytes,
                       .state = ModelState::kNotPulled,
                       .licence = entry.licence};
  std::error_code error;
  if (IsPulled(entry, models_dir)) {
    listing.state = ModelState::kReady;
  } else if (fs::exists(PartsDirectory(entry, models_dir), error)) {
    listing.state = ModelState::kPartlyPulled;
  }
  return listing;
}

// Adds the model files that lie in a folder, under the name that a verb takes: of a split one the
// first file.
void AddFilesOf(const fs::path& folder, const fs::path& models_dir,
                std::vector<ModelListing>& models) {
  std::error_code error;
  for (fs::directory_iterator item(folder, error), end; !error && item != end;
       item.increment(error)) {
    const std::string file = item->path().filename().string();
    std::error_code file_error;
    if (item->path().extension() != ".gguf" || IsCatalogueFile(file)) continue;
    const auto split = ParseGgufSplitName(file);
    if (split && split->number != 1) continue;
    if (!item->is_regular_file(file_error)) continue;
    const uint64_t size_bytes = item->file_size(file_error);
    if (file_error) continue;
    models.push_back({.name = RemoteNameOf(item->path().lexically_relative(models_dir)),
                      .file = item->path(),
                      .size_bytes = size_bytes,
                      .state = ModelState::kReady,
                      .licence = ""});
  }
}

}  // namespace

std::vector<ModelListing> ListModels(const fs::path& models_dir) {
  std::vector<ModelListing> models;
  for (const CatalogueEntry& entry : Catalogue()) models.push_back(ListingOf(entry, models_dir));
  const auto num_catalogued = static_cast<ptrdiff_t>(models.size());
  AddFilesOf(models_dir, models_dir, models);
  std::error_code error;
  for (const char* folder : {"hf", "web"}) {
    for (fs::recursive_directory_iterator item(models_dir / folder, error), end;
         !error && item != end; item.increment(error)) {
      std::error_code file_error;
      if (item.depth() > kMaxFolders) item.disable_recursion_pending();
      if (item->is_directory(file_error)) AddFilesOf(item->path(), models_dir, models);
    }
  }
  std::ranges::sort(models.begin() + num_catalogued, models.end(), {}, &ModelListing::name);
  return models;
}

std::string FormatModelsText(const std::vector<ModelListing>& models) {
  size_t width = 0;
  for (const ModelListing& model : models) width = std::max(width, model.name.size());
  std::string text;
  for (const ModelListing& model : models) {
    text += fmt::format("{:<{}}  {:>8.1f} MiB  {:<13}  {}\n", model.name, width,
                        static_cast<double>(model.size_bytes) / (1024.0 * 1024.0),
                        NameOf(model.state), model.licence.empty() ? "-" : model.licence);
  }
  return text;
}

std::string FormatModelsJson(const std::vector<ModelListing>& models) {
  boost::json::array list;
  for (const ModelListing& model : models) {
    list.push_back(boost::json::object{{"name", model.name},
                                       {"file", model.file.string()},
                                       {"bytes", model.size_bytes},
                                       {"state", std::string(NameOf(model.state))},
                                       {"licence", model.licence}});
  }
  return boost::json::serialize(boost::json::object{{"models", std::move(list)}}) + "\n";
}

}  // namespace quire
