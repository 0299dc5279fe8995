// The sizes of a model by what a person calls it, without its weights: a file, a name, a published
// configuration.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "plan/model_shape.h"

namespace quire {

// A shape and where it comes from.
struct FoundShape {
  ModelShape shape{};
  std::string source{};          // for people
  std::filesystem::path file{};  // with the weights; empty where there is none
};

// `model`: a GGUF file, a name that `quire models` lists, a config.json or a folder with one, or a
// published shape (plan/presets.h). A file comes before a published shape of the same name: it says
// what its weights take.
Result<FoundShape> FindShape(const std::string& model);

}  // namespace quire
