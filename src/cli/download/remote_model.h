// Models that are named by where they come from.
//
//   hf:OWNER/REPO/FILE.gguf            a file of a Hugging Face repository, branch main
//   hf:OWNER/REPO@REVISION/FILE.gguf   of a branch, tag or commit; FILE may lie in folders
//   https://HOST/PATH/FILE.gguf        any web server
//
// A file named NAME-0000n-of-0000N.gguf stands for all N of its set, whichever of them is named.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

struct RemoteFile {
  std::string url{};
  std::filesystem::path file{};  // where it goes
};

struct RemoteModel {
  std::string name{};  // as it was asked for
  // In order; the first is what an engine opens.
  std::vector<RemoteFile> files{};
  std::string bearer_token{};  // for the host of the urls alone; empty = none
};

// Whether an argument has one of the forms.
bool IsRemoteModel(std::string_view argument);

// What it stands for; files are below `models_dir`/hf/OWNER/REPO or `models_dir`/web/HOST. Reads
// HF_ENDPOINT and HF_TOKEN. kInvalidArgument for what is not in one of the forms, and for names
// that would leave the directory.
Result<RemoteModel> ParseRemoteModel(std::string_view argument,
                                     const std::filesystem::path& models_dir);

// What the file at this path below the models directory is called: "hf:OWNER/REPO/FILE.gguf" for
// one that came from a hub, else the path.
std::string RemoteNameOf(const std::filesystem::path& path);

}  // namespace quire
