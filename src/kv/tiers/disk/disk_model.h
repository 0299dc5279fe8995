// The files of an engine's model in a directory of the disk tier: opened, watched, refreshed and
// opened anew where somebody has deleted them. What the two kinds of users do, a writer and a
// reader beside it, is the tier's affair (disk_tier.cc).
// Used by one thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kv/tiers/disk/disk_directory.h"
#include "kv/tiers/disk/disk_space.h"
#include "kv/tiers/disk/disk_tier.h"
#include "kv/tiers/disk/slot_files.h"
#include "kv/tiers/record_codec.h"

namespace quire {

// What another model has stored, to tell a prompt's owner why it missed.
struct ModelBeside {
  Digest fingerprint{};
  std::string_view difference{};    // the ingredient: a literal
  std::vector<RecordName> names{};  // sorted; of group 0
};

class DiskModel {
 public:
  struct Opened {
    std::shared_ptr<SlotFiles> files{};
    SlotContents contents{};
  };

  static Result<DiskModel> Open(const RecordCodec& codec, const DiskTierOptions& options);

  FileOps& ops() const { return *ops_; }
  const DiskDirectory& directory() const { return directory_; }
  const DiskSpace& space() const { return space_; }
  SealDemand demand() const { return demand_; }
  const Digest& fingerprint() const { return header_.fingerprint; }

  // The writer: makes room below the cap first, and whatever is missing. Becomes the writer again
  // where the directory or its LOCK went away.
  Result<Opened> OpenToWrite();
  // A reader: kNotFound where no writer has made the files yet.
  Result<Opened> OpenToRead();

  // Reads the indexes of the other models.
  std::vector<ModelBeside> ReadOthers() const;

 private:
  DiskModel(const RecordCodec& codec, const DiskTierOptions& options, FileOps& ops,
            DiskDirectory directory);
  Status BecomeWriter();
  void RemoveLeftovers() const;

  FileOps* ops_;
  std::filesystem::path path_;
  DiskDirectory directory_;
  DiskSpace space_;
  IndexHeader header_;
  uint64_t max_bytes_;
  SealDemand demand_ = SealDemand::kNone;
};

}  // namespace quire
