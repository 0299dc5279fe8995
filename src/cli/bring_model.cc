#include "cli/bring_model.h"

#include "cli/catalogue.h"
#include "cli/download/download.h"
#include "cli/model_path.h"
#include "cli/progress.h"
#include "cli/pull.h"
#include "formats/printable.h"

namespace quire {

Result<std::filesystem::path> BringModel(const std::string& argument, const std::string& sha256) {
  QUIRE_ASSIGN_OR_RETURN(const std::filesystem::path directory, ModelsDirectory());
  ProgressLine line;
  const auto show = [&](const PullProgress& progress) {
    line.Update(progress.step, progress.done_bytes, progress.total_bytes);
  };
  if (IsRemoteModel(argument)) {
    QUIRE_ASSIGN_OR_RETURN(const RemoteModel model, ParseRemoteModel(argument, directory));
    QUIRE_RETURN_IF_ERROR(Download(model, show, {.sha256 = sha256}));
    return model.files.front().file;
  }
  const CatalogueEntry* entry = FindInCatalogue(argument);
  if (entry == nullptr) {
    return MakeError(ErrorCode::kNotFound,
                     "no model is called '{}'; Quire can pull {}, hf:OWNER/REPO/FILE.gguf and "
                     "https://HOST/PATH/FILE.gguf",
                     Printable(argument), CatalogueNames());
  }
  if (!sha256.empty() && sha256 != entry->sha256) {
    return MakeError(ErrorCode::kInvalidArgument, "'{}' has SHA-256 {}, and {} is asked for",
                     entry->name, entry->sha256, Printable(sha256));
  }
  QUIRE_RETURN_IF_ERROR(PullModel(*entry, directory, show));
  return directory / entry->file;
}

}  // namespace quire
