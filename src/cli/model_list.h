// What `quire models` shows: the catalogue and what the models directory holds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace quire {

enum class ModelState { kReady, kPartlyPulled, kNotPulled };

struct ModelListing {
  std::string
      name;  // of the catalogue; hf:... for one from a hub, else the path below the directory
  std::filesystem::path file;
  uint64_t size_bytes = 0;
  ModelState state = ModelState::kNotPulled;
  std::string licence;  // empty for files that are not of the catalogue
};

// The catalogue in its order, then other GGUF files by name: those of the directory and those that
// came from elsewhere (cli/download/remote_model.h). A directory that
// cannot be read counts as empty.
std::vector<ModelListing> ListModels(const std::filesystem::path& models_dir);

// A table for people, a line each.
std::string FormatModelsText(const std::vector<ModelListing>& models);
// {"models": [{"name", "file", "bytes", "state", "licence"}, ...]}
std::string FormatModelsJson(const std::vector<ModelListing>& models);

}  // namespace quire
