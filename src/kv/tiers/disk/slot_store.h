// The slots of the model in hand: the files that hold them and the table of what they hold, kept in
// step.
//
// The lock guards what is in memory and is never held over I/O. So files may be found deleted while
// somebody is about to use them: a verb that goes on with `files` takes those that its caller has
// begun with, and does nothing where they are no longer the ones.
//
// Invariants:
//   1. The table is that of the open files; without files it is empty.
//   2. A slot is unlisted on the disk before it is written, and listed after.
//   3. A slot that is pinned is not written.
// Verbs under "writing" are one thread's at a time; the others any thread's.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kv/tiers/disk/slot_files.h"
#include "kv/tiers/disk/slot_table.h"

namespace quire {

class SlotStore {
 public:
  using Found = SlotTable::Found;
  using Files = std::shared_ptr<SlotFiles>;

  // A slot that is being read, and the files it is in.
  struct Pinned {
    Found found{};
    Files files{};
  };
  struct Sample {
    Files files{};
    std::vector<int64_t> slots{};  // listed
  };
  // Since the start, but for num_listed.
  struct Tally {
    int64_t num_listed = 0;
    int64_t evictions = 0;
    FaultCounts faults{};
  };

  // mode: who it is for, a writer or a reader beside one.
  SlotStore(SlotFilesMode mode, SlotTable::Options options)
      : mode_(mode), options_(std::move(options)), table_(options_) {}

  Files files() const;  // null: gone, or not there yet
  bool is_open() const { return files() != nullptr; }
  Tally tally() const;
  void Count(RecordFault fault);

  // --- Reading.

  bool Holds(const RecordName& name) const;
  // Nothing where the name is not listed. Every one is followed by Unpin.
  std::optional<Pinned> Pin(const RecordName& name);
  void Unpin(const Found& found);
  // What was pinned is still listed, in the files that are open.
  bool IsStill(const Pinned& pinned) const;
  // What was found was used, unless it has changed hands since.
  void Use(const Found& found, double now_s, const RecordName& parent);
  // The name was used; false where it is not listed. parent: where the caller knows it.
  bool Use(const RecordName& name, double now_s, const RecordName* parent);
  // What the name's slot held is not what it ought to be: counts, and is a miss from here on.
  // kAbsent where it has changed hands meanwhile, and was never wrong.
  RecordFault Lose(const RecordName& name, const Found& found, RecordFault fault);
  // At most so many, from all over the slab.
  Sample SomeListed(size_t max) const;
  // Notices files that somebody else has deleted or cut, before they are used.
  SlotFiles::Condition Look();

  // --- Writing.

  // These files, in the place of those that there were.
  void Adopt(Files files, SlotContents contents);
  void Forget();
  // Looks, and makes files that were cut or made longer as long as they ought to be, if that can be
  // done: 0 or an errno. The index may have stayed cut.
  int Mend();
  bool is_index_cut() const;

  // Nothing where these files are no longer the ones.
  std::optional<int64_t> NumSlots(const Files& files) const;
  int64_t NumSlotsOf(const TenantTag& tenant) const;
  // A free slot, or that of what is worth least (SlotTable::TakeWorst): reserved.
  std::optional<Found> TakeFree(const Files& files);
  std::optional<Found> TakeWorst(const Files& files, const IndexEntry& candidate,
                                 const TenantTag* tenant);
  // The files have grown from so many slots to so many. False where that is no longer true.
  bool Extend(const Files& files, int64_t from, int64_t to);

  // A reserved slot is written and listed. 0, or an errno: it is then free.
  int Write(SlotFiles& files, const Found& reserved, const IndexEntry& entry,
            std::span<const std::byte> header, std::span<const std::byte> body);
  // Writes down at most so many uses, and clears what is listed no more; all where the index was
  // cut. 0 or an errno.
  int WriteUses(size_t max);

 private:
  const SlotFilesMode mode_;
  const SlotTable::Options options_;

  mutable std::mutex mutex_;
  Files files_;
  SlotTable table_;
  bool is_index_cut_ = false;
  int64_t evictions_ = 0;
  FaultCounts faults_{};
};

}  // namespace quire
