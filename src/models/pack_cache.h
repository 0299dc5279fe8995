// The folder of pack files: found by the source they were made of, named by their digest, bounded.
//
//   DIGEST.pack       the pack of the tensors with this digest
//   IDENTITY.source   its digest, for the model file whose size, time and inode hash to IDENTITY
//
// Everything in the folder may be deleted at any time; a missing pack is made again. Nothing here
// is trusted: a pack that does not match the model file's tensors is not used. Thread-compatible.
// Several processes may share a folder: files appear whole, by renaming.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "models/pack.h"

namespace quire {

class PackCache {
 public:
  // Files beyond max_bytes are deleted, least recently used first.
  static constexpr uint64_t kDefaultMaxBytes = uint64_t{32} << 30;

  explicit PackCache(std::filesystem::path directory, uint64_t max_bytes = kDefaultMaxBytes)
      : directory_(std::move(directory)), max_bytes_(max_bytes) {}

  const std::filesystem::path& directory() const { return directory_; }

  // The stored pack of this file's weights, or nothing. Marks it as used.
  std::optional<Pack> Find(const GgufFile& file, const WeightPlan& plan, ThreadPool& pool) const;

  // Stores a pack, after making room for it. kResourceExhausted, and nothing written, when it does
  // not fit under the bound or when less than a tenth of the disk or 1 GiB would stay free.
  Status Store(const GgufFile& file, const WeightPlan& plan, const Pack& pack,
               const std::function<bool()>& cancelled) const;

  struct Entry {
    std::string digest;  // in hexadecimal
    uint64_t bytes = 0;
    std::filesystem::file_time_type last_used;
  };
  // Most recently used first; empty where there is no folder.
  std::vector<Entry> List() const;

  // Deletes one pack by its digest (or an unambiguous beginning of it), or all of them.
  Status Remove(std::string_view digest_prefix) const;
  Status RemoveAll() const;

 private:
  std::filesystem::path PackPath(std::string_view digest) const;
  std::filesystem::path SourcePath(const GgufFile& file) const;
  Status MakeRoom(uint64_t bytes) const;
  // Deletes what processes that are gone left half written.
  void RemoveLeftovers() const;

  std::filesystem::path directory_;
  uint64_t max_bytes_;
};

}  // namespace quire
