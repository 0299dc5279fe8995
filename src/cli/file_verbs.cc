// `quire pull`, `models` and `inspect`: what concerns model files and computes nothing.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/catalogue.h"
#include "cli/inspect.h"
#include "cli/model_list.h"
#include "cli/model_path.h"
#include "cli/progress.h"
#include "cli/pull.h"
#include "cli/verbs.h"

namespace quire {
namespace {

Status Pull(const std::string& name) {
  const CatalogueEntry* entry = FindInCatalogue(name);
  if (entry == nullptr) {
    return MakeError(ErrorCode::kNotFound, "no model is called '{}'; Quire can pull {}", name,
                     CatalogueNames());
  }
  QUIRE_ASSIGN_OR_RETURN(const std::filesystem::path directory, ModelsDirectory());
  {
    ProgressLine line;
    QUIRE_RETURN_IF_ERROR(PullModel(*entry, directory, [&](const PullProgress& progress) {
      line.Update(progress.step, progress.done_bytes, progress.total_bytes);
    }));
  }
  fmt::print("{}\n", (directory / entry->file).string());
  return {};
}

Status List(bool json) {
  QUIRE_ASSIGN_OR_RETURN(const std::filesystem::path directory, ModelsDirectory());
  const std::vector<ModelListing> models = ListModels(directory);
  fmt::print("{}", json ? FormatModelsJson(models) : FormatModelsText(models));
  return {};
}

Status Inspect(const std::string& model, bool json) {
  QUIRE_ASSIGN_OR_RETURN(const std::filesystem::path path, ResolveModel(model));
  QUIRE_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
  QUIRE_ASSIGN_OR_RETURN(const std::string text, json ? InspectAsJson(file) : InspectAsText(file));
  fmt::print("{}", text);
  return {};
}

}  // namespace

void AddPullVerb(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("pull", "Fetch a model by name, with its digest checked");
  auto name = std::make_shared<std::string>(kDefaultModel);
  verb->add_option("NAME", *name, "one of: " + CatalogueNames())->capture_default_str();
  verb->callback([name, &exit_code] { exit_code = Report(Pull(*name)); });
}

void AddModelsVerb(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("models", "List the models that can be pulled or are there");
  auto json = std::make_shared<bool>(false);
  verb->add_flag("--json", *json, "for programs");
  verb->callback([json, &exit_code] { exit_code = Report(List(*json)); });
}

void AddInspectVerb(CLI::App& app, int& exit_code) {
  CLI::App* verb =
      app.add_subcommand("inspect", "Print a model file's metadata, tensors and KV bytes a token");
  auto model = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  verb->add_option("MODEL", *model, "a GGUF file, or a name that `quire models` lists")->required();
  verb->add_flag("--json", *json, "for programs");
  verb->callback([model, json, &exit_code] { exit_code = Report(Inspect(*model, *json)); });
}

}  // namespace quire
