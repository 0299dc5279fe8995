// The file names of split GGUF models: NAME-00001-of-0000N.gguf, numbered from 1.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

struct GgufSplitName {
  std::string base;  // NAME
  int number = 0;    // from 1, if the name is right; at most 99999
  int count = 0;

  // NAME-<number>-of-<count>.gguf
  std::string FileName(int part_number) const;
};

// Nothing for a name of another form.
std::optional<GgufSplitName> ParseGgufSplitName(std::string_view file_name);

// A file of the only model in a directory: the *.gguf files must be one file, or parts of one set
// (whether all of the set are there is for the reader of the parts).
Result<std::filesystem::path> FindGgufInDirectory(const std::filesystem::path& directory);

}  // namespace quire
