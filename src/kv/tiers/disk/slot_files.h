// The two files of one model: the slab with its slots, and the index that lists them.
//
// What may be believed after anything has happened to them is decided here: Open gives the entries
// that fit the slots, reading a slot's own header wherever the index does not tell. Nothing here
// knows which block is worth what, or keeps anything in memory.
// One thread writes; any may read slots meanwhile.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "kv/tiers/disk/disk_directory.h"
#include "kv/tiers/disk/file_ops.h"
#include "kv/tiers/disk/index_format.h"
#include "kv/tiers/record.h"

namespace quire {

using FaultCounts = std::array<int64_t, kNumRecordFaults>;

enum class SlotFilesMode : uint8_t { kRead, kWrite };

// What the files hold.
struct SlotContents {
  std::vector<std::optional<IndexEntry>> entries{};  // [num_slots]; nothing = free
  std::vector<int64_t> unwritten{};  // slots of which the index says something else, or nothing
  FaultCounts faults{};
};

class SlotFiles {
 public:
  // wanted: the model, and the least size of a slot. kWrite makes what is not there, and cuts the
  // slab to max_slab_bytes; kRead fails (kNotFound) where there is no slab, and does without an
  // index.
  static Result<std::shared_ptr<SlotFiles>> Open(FileOps& ops, const DiskDirectory& directory,
                                                 const IndexHeader& wanted, SlotFilesMode mode,
                                                 uint64_t max_slab_bytes, SlotContents* contents);

  // Whose files they are, as they say themselves: for who does not know the model. Nothing where
  // neither the index nor the first slot tells.
  static std::optional<IndexHeader> Identify(FileOps& ops, const DiskDirectory& directory,
                                             const Digest& fingerprint);

  // Takes at least so many bytes from the tail of a model's files, or the files. Gives the errno of
  // what failed; 0 where that much, or all, is gone.
  static int GiveUp(FileOps& ops, const DiskDirectory& directory, const Digest& fingerprint,
                    uint64_t num_bytes);

  const IndexHeader& header() const { return header_; }
  bool has_index() const { return index_.is_open(); }
  uint64_t slot_bytes() const { return header_.slot_bytes; }

  // kGone: a file was deleted. kCut: one is shorter than num_slots ask for; the slab still has
  // `num_whole`. kLong: longer.
  enum class Condition : uint8_t { kWhole, kGone, kCut, kLong };
  Condition Look(int64_t num_slots, int64_t* num_whole) const;
  // The files that have their names in the directory are these: what is stored will be found again.
  bool IsInPlace() const;
  // As read from the index: differs from the last where an entry has changed since.
  std::optional<uint64_t> Generation() const;

  // kNone, kTruncated or kIo.
  RecordFault Read(int64_t slot, std::span<const iovec> parts) const;

  // These give 0 or an errno.
  int Write(int64_t slot, std::span<const std::byte> record);
  int Write(int64_t slot, std::span<const std::byte> header, std::span<const std::byte> body);
  int WriteEntry(int64_t slot, const IndexEntry* entry);  // null: the slot is free
  int NextGeneration();
  int Sync();

  // From so many slots to so many, all of it set aside: whole or not at all (0 or an errno).
  int Grow(int64_t from, int64_t to);
  // What the slots from `to` on held is gone, from the index first.
  int Shrink(int64_t to);
  static uint64_t BytesFor(int64_t num_slots, uint64_t slot_bytes);

 private:
  SlotFiles(FileOps& ops, IndexHeader header) : ops_(ops), header_(std::move(header)) {}
  Status OpenBoth(const DiskDirectory& directory, SlotFilesMode mode);
  Result<int64_t> CountSlots(SlotFilesMode mode, uint64_t max_slab_bytes);
  void ReadEntries(int64_t num_slots, bool has_header, SlotContents* contents) const;
  std::optional<IndexEntry> EntryOfSlot(int64_t slot, double last_use_s, FaultCounts* faults) const;
  Status WriteAnew(int64_t num_slots, SlotContents* contents);
  Status Mend(int64_t num_slots, SlotContents* contents);

  FileOps& ops_;
  IndexHeader header_;
  OpenFile slab_;
  OpenFile index_;
  std::filesystem::path slab_path_;
  std::filesystem::path index_path_;
  uint64_t generation_ = 0;
};

}  // namespace quire
