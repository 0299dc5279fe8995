#include "cli/find_shape.h"

#include "cli/catalogue.h"
#include "cli/model_path.h"
#include "formats/gguf.h"
#include "plan/presets.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

Result<FoundShape> ShapeOfConfig(const fs::path& path) {
  QUIRE_ASSIGN_OR_RETURN(const HfConfig config, ReadHfConfig(path));
  return FoundShape{.shape = ShapeOfHfConfig(config, path.string()), .source = path.string()};
}

bool IsConfig(const fs::path& path) {
  std::error_code error;
  return path.extension() == ".json" ||
         (fs::is_directory(path, error) && fs::exists(path / "config.json", error));
}

}  // namespace

Result<FoundShape> FindShape(const std::string& model) {
  if (IsConfig(model)) return ShapeOfConfig(model);
  const Result<fs::path> path = ResolveModel(model);
  if (!path.ok()) {
    if (auto preset = FindPreset(model)) {
      return FoundShape{.shape = *std::move(preset),
                        .source = "the published shape of this name; no file was read"};
    }
    if (path.error().code == ErrorCode::kNotFound && FindInCatalogue(model) == nullptr) {
      return MakeError(ErrorCode::kNotFound, "{}; known shapes: {}", path.error().message,
                       fmt::join(PresetNames(), ", "));
    }
    return path.error();
  }
  QUIRE_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(*path));
  QUIRE_ASSIGN_OR_RETURN(ModelShape shape, ShapeOfFile(file));
  return FoundShape{std::move(shape), path->string(), *path};
}

}  // namespace quire
