// `quire pull`, `models` and `inspect`: what concerns model files and computes nothing.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/bring_model.h"
#include "cli/catalogue.h"
#include "cli/inspect.h"
#include "cli/model_list.h"
#include "cli/model_path.h"
#include "cli/verbs.h"

namespace quire {
namespace {

Status Pull(const std::string& name, const std::string& sha256) {
  QUIRE_ASSIGN_OR_RETURN(const std::filesystem::path file, BringModel(name, sha256));
  fmt::print("{}\n", file.string());
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
  CLI::App* verb = app.add_subcommand("pull", "Fetch a model, resumable, with its digest checked");
  auto name = std::make_shared<std::string>(kDefaultModel);
  auto sha256 = std::make_shared<std::string>();
  verb->add_option("MODEL", *name,
                   "one of: " + CatalogueNames() +
                       "; or hf:OWNER/REPO/FILE.gguf (HF_ENDPOINT and HF_TOKEN are read), or "
                       "https://HOST/PATH/FILE.gguf; all files of a split one")
      ->capture_default_str();
  verb->add_option("--sha256", *sha256,
                   "64 hexadecimal digits that the file must have (default: those that its hub "
                   "tells, if it does)")
      ->check([](const std::string& text) {
        const bool is_digest =
            text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
        return is_digest ? "" : "expected 64 lower-case hexadecimal digits";
      });
  verb->callback([name, sha256, &exit_code] { exit_code = Report(Pull(*name, *sha256)); });
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
