#include "cli/config_file.h"

#include <CLI/CLI.hpp>
#include <fstream>
#include <set>
#include <sstream>

#include "formats/printable.h"

namespace quire {
namespace {

// Nobody writes so much by hand; a wrong path may lead to a model.
constexpr std::streamoff kLargestFile = 1 << 20;

CLI::Option* FindOption(CLI::App& app, const CLI::ConfigItem& item) {
  if (!item.parents.empty()) return nullptr;
  CLI::Option* option = app.get_option_no_throw("--" + item.name);
  if (option == nullptr && item.name == "model") option = app.get_option_no_throw("MODEL");
  return option != nullptr && option->get_configurable() ? option : nullptr;
}

// Throws CLI::Error for a value that the option refuses.
void Apply(CLI::Option& option, const CLI::ConfigItem& item) {
  if (option.get_expected_min() == 0) {
    const std::string value = CLI::ConfigBase().to_flag(item);
    if (value != "true" && value != "false") {
      throw CLI::ValidationError(value + " is neither true nor false");
    }
    if (value == "true") option.add_result("true");
  } else {
    if (item.inputs.empty()) throw CLI::ValidationError("a value is missing");
    option.add_result(item.inputs);
  }
  if (option.count() > 0) option.run_callback();
}

// A flag that another one, set as well, does not go with, or one that is missing beside it.
std::string Conflict(const CLI::Option& option) {
  for (const CLI::Option* other : option.get_excludes()) {
    if (other->count() > 0) return "cannot be set together with " + other->get_name();
  }
  for (const CLI::Option* other : option.get_needs()) {
    if (other->count() == 0) return "needs " + other->get_name();
  }
  return {};
}

Result<std::string> ReadConfig(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return MakeError(ErrorCode::kNotFound, "{}: no such file (--config)", path.string());
  }
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = stream.tellg();
  if (!stream || size < 0) return MakeError(ErrorCode::kIo, "{}: cannot be read", path.string());
  if (size > kLargestFile) {
    return MakeError(ErrorCode::kInvalidArgument, "{}: {} bytes; expected {} at most",
                     path.string(), size, kLargestFile);
  }
  std::string text(static_cast<size_t>(size), '\0');
  stream.seekg(0);
  if (!stream.read(text.data(), size)) {
    return MakeError(ErrorCode::kIo, "{}: cannot be read", path.string());
  }
  return text;
}

}  // namespace

Status ApplyConfigFile(CLI::App& app, const std::filesystem::path& path) {
  QUIRE_ASSIGN_OR_RETURN(const std::string text, ReadConfig(path));
  std::vector<CLI::ConfigItem> items;
  try {
    std::istringstream stream(text);
    items = CLI::ConfigBase().from_config(stream);
  } catch (const CLI::Error& error) {
    return MakeError(ErrorCode::kInvalidArgument, "{}: {}", path.string(), error.what());
  }
  std::set<const CLI::Option*> seen;
  for (const CLI::ConfigItem& item : items) {
    // How the reader marks where a section begins and ends.
    if (item.name == "++" || item.name == "--") continue;
    const std::string key = Printable(item.fullname(), 80);
    CLI::Option* option = FindOption(app, item);
    if (option == nullptr) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "{}: key '{}' is none of the flags; `quire {} --help` lists them",
                       path.string(), key, app.get_name());
    }
    if (!seen.insert(option).second) {
      return MakeError(ErrorCode::kInvalidArgument, "{}: key '{}' sets what an earlier one has set",
                       path.string(), key);
    }
    if (option->count() > 0) continue;
    try {
      Apply(*option, item);
    } catch (const CLI::Error& error) {
      return MakeError(ErrorCode::kInvalidArgument, "{}: key '{}': {}", path.string(), key,
                       Printable(error.what(), 400));
    }
  }
  for (const CLI::Option* option : seen) {
    if (option->count() == 0) continue;
    if (const std::string conflict = Conflict(*option); !conflict.empty()) {
      return MakeError(ErrorCode::kInvalidArgument, "{}: {} {}", path.string(), option->get_name(),
                       conflict);
    }
  }
  return {};
}

}  // namespace quire
