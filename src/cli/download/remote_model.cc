#include "cli/download/remote_model.h"

#include <algorithm>
#include <cstdlib>
#include <span>

#include "formats/gguf_split.h"
#include "formats/printable.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHfScheme = "hf:";
constexpr std::string_view kDefaultEndpoint = "https://huggingface.co";
// Files of one set: 1,000 of the usual 2 to 50 GB are beyond any machine.
constexpr int kMaxParts = 1000;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

bool IsWebAddress(std::string_view argument) {
  return argument.starts_with("http://") || argument.starts_with("https://");
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// A name that is one step of a path and nothing else.
bool IsPlainName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.size() <= 255 &&
         std::ranges::all_of(name, [](char c) {
           return c > ' ' && c != 0x7F && c != '/' && c != '\\' && c != '?' && c != '#';
         });
}

// Percent-encoding of RFC 3986 for one step of a path.
std::string Encoded(std::string_view name) {
  std::string encoded;
  for (const char c : name) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') ||
                          std::string_view("-._~").find(c) != std::string_view::npos;
    encoded += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<uint8_t>(c));
  }
  return encoded;
}

Error NotAnAddress(std::string_view argument, std::string_view reason) {
  return MakeError(ErrorCode::kInvalidArgument,
                   "{}: {}; expected hf:OWNER/REPO/FILE.gguf, hf:OWNER/REPO@REVISION/FILE.gguf or "
                   "https://HOST/PATH/FILE.gguf",
                   Printable(argument), reason);
}

// The names of all files of the set that `file_name` belongs to.
Result<std::vector<std::string>> FilesOfSet(std::string_view argument, std::string_view file_name) {
  const auto split = ParseGgufSplitName(file_name);
  if (!split) return std::vector<std::string>{std::string(file_name)};
  if (split->count < 1 || split->count > kMaxParts || split->number < 1 ||
      split->number > split->count) {
    return NotAnAddress(argument, fmt::format("part {} of {} is none of a set of 1 to {} files",
                                              split->number, split->count, kMaxParts));
  }
  std::vector<std::string> names;
  for (int number = 1; number <= split->count; ++number) names.push_back(split->FileName(number));
  return names;
}

// Adds the set that `file_name` belongs to. `folder_url` ends in a slash.
Status AddFiles(std::string_view argument, std::string_view file_name,
                const std::string& folder_url, std::string_view query, const fs::path& folder,
                RemoteModel& model) {
  if (!file_name.ends_with(".gguf")) {
    return NotAnAddress(argument, "the file's name does not end in .gguf");
  }
  QUIRE_ASSIGN_OR_RETURN(const auto names, FilesOfSet(argument, file_name));
  for (const std::string& name : names) {
    model.files.push_back(
        {.url = fmt::format("{}{}{}", folder_url, name, query), .file = folder / name});
  }
  return {};
}

Result<RemoteModel> ParseHfModel(std::string_view argument, const fs::path& models_dir) {
  std::vector<std::string_view> steps = Split(argument.substr(kHfScheme.size()), '/');
  if (steps.size() < 3) return NotAnAddress(argument, "owner, repository and file are needed");
  std::string_view revision = "main";
  if (const size_t at = steps[1].find('@'); at != std::string_view::npos) {
    revision = steps[1].substr(at + 1);
    steps[1] = steps[1].substr(0, at);
  }
  if (!std::ranges::all_of(steps, IsPlainName) || !IsPlainName(revision)) {
    return NotAnAddress(argument, "a name in it is empty or holds what a file's name cannot");
  }
  std::string endpoint = Environment("HF_ENDPOINT");
  while (endpoint.ends_with('/')) endpoint.pop_back();
  if (endpoint.empty()) endpoint = kDefaultEndpoint;
  if (!IsWebAddress(endpoint)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "HF_ENDPOINT must begin with https:// or http://, got '{}'",
                     Printable(endpoint));
  }
  RemoteModel model{.name = std::string(argument), .bearer_token = Environment("HF_TOKEN")};
  if (!std::ranges::all_of(model.bearer_token, [](char c) { return c > ' ' && c < 0x7F; })) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "HF_TOKEN holds what a token cannot: spaces or "
                     "control characters");
  }
  // A revision is another content: it has its own folder.
  fs::path directory = models_dir / "hf" / steps[0] / steps[1];
  if (revision != "main") directory /= "@" + std::string(revision);
  std::string folder_url = fmt::format("{}/{}/{}/resolve/{}/", endpoint, Encoded(steps[0]),
                                       Encoded(steps[1]), Encoded(revision));
  for (const std::string_view step : std::span(steps).subspan(2, steps.size() - 3)) {
    folder_url += Encoded(step) + "/";
    directory /= step;
  }
  QUIRE_RETURN_IF_ERROR(
      AddFiles(argument, Encoded(steps.back()), folder_url, "", directory, model));
  return model;
}

Result<RemoteModel> ParseWebModel(std::string_view argument, const fs::path& models_dir) {
  std::string_view address = argument;
  std::string_view suffix;
  address = address.substr(0, address.find('#'));
  if (const size_t query = address.find('?'); query != std::string_view::npos) {
    suffix = address.substr(query);
    address = address.substr(0, query);
  }
  const size_t host_begin = address.find("://") + 3;
  std::vector<std::string_view> steps = Split(address.substr(host_begin), '/');
  if (steps.size() < 2 || !std::ranges::all_of(steps, IsPlainName)) {
    return NotAnAddress(argument, "host and file are needed, without empty steps between");
  }
  if (!std::ranges::all_of(suffix, [](char c) { return c > ' ' && c < 0x7F; })) {
    return NotAnAddress(argument, "the query holds spaces or control characters");
  }
  // Never a password in the name of a directory.
  const std::string_view host = steps[0].substr(steps[0].find('@') + 1);
  if (!IsPlainName(host)) return NotAnAddress(argument, "the host is missing");
  RemoteModel model{.name = std::string(argument)};
  fs::path folder = models_dir / "web" / host;
  for (const std::string_view step : std::span(steps).subspan(1, steps.size() - 2)) folder /= step;
  const std::string folder_url(address.substr(0, address.size() - steps.back().size()));
  QUIRE_RETURN_IF_ERROR(AddFiles(argument, steps.back(), folder_url, suffix, folder, model));
  return model;
}

}  // namespace

bool IsRemoteModel(std::string_view argument) {
  return argument.starts_with(kHfScheme) || IsWebAddress(argument);
}

Result<RemoteModel> ParseRemoteModel(std::string_view argument, const fs::path& models_dir) {
  if (argument.starts_with(kHfScheme)) return ParseHfModel(argument, models_dir);
  if (IsWebAddress(argument)) return ParseWebModel(argument, models_dir);
  return NotAnAddress(argument, "it names no place");
}

std::string RemoteNameOf(const fs::path& path) {
  std::vector<std::string> steps;
  for (const fs::path& step : path) steps.push_back(step.string());
  if (steps.size() < 4 || steps[0] != "hf") return path.string();
  std::string name = fmt::format("{}{}/{}", kHfScheme, steps[1], steps[2]);
  for (size_t i = 3; i < steps.size(); ++i) {
    const bool is_revision = i == 3 && steps[i].starts_with('@') && steps.size() > 4;
    name += (is_revision ? "" : "/") + steps[i];
  }
  return name;
}

}  // namespace quire
