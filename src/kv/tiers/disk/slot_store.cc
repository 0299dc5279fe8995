#include "kv/tiers/disk/slot_store.h"

#include <algorithm>
#include <utility>

namespace quire {

SlotStore::Files SlotStore::files() const {
  const std::lock_guard lock(mutex_);
  return files_;
}

SlotStore::Tally SlotStore::tally() const {
  const std::lock_guard lock(mutex_);
  return {.num_listed = table_.num_listed(), .evictions = evictions_, .faults = faults_};
}

void SlotStore::Count(RecordFault fault) {
  const std::lock_guard lock(mutex_);
  ++faults_[static_cast<size_t>(fault)];
}

// --- Reading.

bool SlotStore::Holds(const RecordName& name) const {
  const std::lock_guard lock(mutex_);
  return table_.Holds(name);
}

std::optional<SlotStore::Pinned> SlotStore::Pin(const RecordName& name) {
  const std::lock_guard lock(mutex_);
  const auto found = table_.Pin(name);
  if (!found.has_value()) return std::nullopt;
  return Pinned{.found = *found, .files = files_};
}

void SlotStore::Unpin(const Found& found) {
  const std::lock_guard lock(mutex_);
  table_.Unpin(found);
}

bool SlotStore::IsStill(const Pinned& pinned) const {
  const std::lock_guard lock(mutex_);
  return pinned.files == files_ && table_.IsStill(pinned.found);
}

void SlotStore::Use(const Found& found, double now_s, const RecordName& parent) {
  const std::lock_guard lock(mutex_);
  if (table_.IsStill(found)) table_.Use(found.slot, now_s, &parent);
}

bool SlotStore::Use(const RecordName& name, double now_s, const RecordName* parent) {
  const std::lock_guard lock(mutex_);
  const auto found = table_.Find(name);
  if (found.has_value()) table_.Use(found->slot, now_s, parent);
  return found.has_value();
}

RecordFault SlotStore::Lose(const RecordName& name, const Found& found, RecordFault fault) {
  const std::lock_guard lock(mutex_);
  const auto still = table_.Find(name);
  if (!still.has_value() || still->slot != found.slot) return RecordFault::kAbsent;
  // A reader has looked at the index once more, and in that table every version is another.
  const bool tells_version = mode_ == SlotFilesMode::kWrite;
  if (tells_version && still->version != found.version) return RecordFault::kAbsent;
  ++faults_[static_cast<size_t>(fault)];
  table_.Drop(found.slot);
  return fault;
}

SlotStore::Sample SlotStore::SomeListed(size_t max) const {
  const std::lock_guard lock(mutex_);
  return {.files = files_, .slots = table_.SomeListed(max)};
}

SlotFiles::Condition SlotStore::Look() {
  using Condition = SlotFiles::Condition;
  Files files;
  int64_t num_slots = 0;
  {
    const std::lock_guard lock(mutex_);
    files = files_;
    num_slots = table_.num_slots();
  }
  if (files == nullptr) return Condition::kGone;
  int64_t num_whole = 0;
  const Condition condition = files->Look(num_slots, &num_whole);
  const bool is_harmed = condition == Condition::kGone || condition == Condition::kCut;
  const std::lock_guard lock(mutex_);
  // What has grown meanwhile is looked at the next time.
  if (!is_harmed || files != files_ || num_slots != table_.num_slots()) return condition;
  if (condition == Condition::kGone) {
    table_.Clear();
    files_ = nullptr;
  } else if (num_whole < num_slots) {
    ++faults_[static_cast<size_t>(RecordFault::kTruncated)];
    table_.Resize(num_whole);
  } else if (!is_index_cut_) {
    is_index_cut_ = true;
    ++faults_[static_cast<size_t>(RecordFault::kTruncated)];
    for (const int64_t slot : table_.ListedSlots()) table_.MarkUnwritten(slot);
  }
  return condition;
}

// --- Writing.

void SlotStore::Adopt(Files files, SlotContents contents) {
  // Built beside the one in use, which nobody has to wait for.
  SlotTable table(options_);
  table.Fill(std::move(contents.entries), contents.unwritten);
  const std::lock_guard lock(mutex_);
  table.GoOnFrom(table_);
  std::swap(table_, table);
  std::swap(files_, files);
  is_index_cut_ = false;
  // A reader looks again and again, and would count what is there as often.
  if (mode_ == SlotFilesMode::kRead) return;
  for (size_t i = 0; i < faults_.size(); ++i) faults_[i] += contents.faults[i];
}

void SlotStore::Forget() {
  const std::lock_guard lock(mutex_);
  table_.Clear();
  files_ = nullptr;
}

int SlotStore::Mend() {
  const SlotFiles::Condition condition = Look();
  Files files;
  int64_t num_slots = 0;
  bool is_cut = false;
  {
    const std::lock_guard lock(mutex_);
    files = files_;
    num_slots = table_.num_slots();
    is_cut = is_index_cut_;
  }
  if (files == nullptr) return 0;
  // Nothing of ours lies there, and the cap knows nothing of it.
  const int fault = condition == SlotFiles::Condition::kLong ? files->Shrink(num_slots) : 0;
  return fault == 0 && is_cut ? WriteUses(SIZE_MAX) : fault;
}

bool SlotStore::is_index_cut() const {
  const std::lock_guard lock(mutex_);
  return is_index_cut_;
}

std::optional<int64_t> SlotStore::NumSlots(const Files& files) const {
  const std::lock_guard lock(mutex_);
  return files == files_ ? std::optional(table_.num_slots()) : std::nullopt;
}

int64_t SlotStore::NumSlotsOf(const TenantTag& tenant) const {
  const std::lock_guard lock(mutex_);
  return table_.num_slots_of(tenant);
}

std::optional<SlotStore::Found> SlotStore::TakeFree(const Files& files) {
  const std::lock_guard lock(mutex_);
  return files == files_ ? table_.TakeFree() : std::nullopt;
}

std::optional<SlotStore::Found> SlotStore::TakeWorst(const Files& files,
                                                     const IndexEntry& candidate,
                                                     const TenantTag* tenant) {
  const std::lock_guard lock(mutex_);
  if (files != files_) return std::nullopt;
  const auto slot = table_.TakeWorst(candidate, tenant);
  evictions_ += slot.has_value() ? 1 : 0;
  return slot;
}

bool SlotStore::Extend(const Files& files, int64_t from, int64_t to) {
  const std::lock_guard lock(mutex_);
  if (files != files_ || table_.num_slots() != from) return false;
  table_.Resize(to);
  return true;
}

// A process that dies in between leaves a slot that nobody looks into.
int SlotStore::Write(SlotFiles& files, const Found& reserved, const IndexEntry& entry,
                     std::span<const std::byte> header, std::span<const std::byte> body) {
  const int64_t slot = reserved.slot;
  bool is_listed = false;
  {
    const std::lock_guard lock(mutex_);
    is_listed = slot < table_.num_slots() && table_.is_listed_on_disk(slot);
  }
  int fault = is_listed ? files.WriteEntry(slot, nullptr) : 0;
  if (fault == 0) {
    is_listed = false;
    fault = files.Write(slot, header, body);
  }
  if (fault == 0) {
    is_listed = true;
    fault = files.WriteEntry(slot, &entry);
    if (fault == 0) fault = files.NextGeneration();
  }
  const std::lock_guard lock(mutex_);
  if (slot >= table_.num_slots()) return fault;
  table_.SetWritten(slot, is_listed);
  if (fault == 0) {
    (void)table_.List(reserved, entry);
  } else {
    table_.GiveBack(reserved);
    table_.MarkUnwritten(slot);
  }
  return fault;
}

int SlotStore::WriteUses(size_t max) {
  Files files;
  std::vector<std::pair<int64_t, std::optional<IndexEntry>>> entries;
  int64_t num_slots = 0;
  bool is_cut = false;
  {
    const std::lock_guard lock(mutex_);
    if (files_ == nullptr) return 0;
    files = files_;
    num_slots = table_.num_slots();
    is_cut = is_index_cut_;
    for (const int64_t slot : table_.TakeUnwritten(is_cut ? SIZE_MAX : max)) {
      entries.emplace_back(slot, table_.ListedEntry(slot));
    }
  }
  // In ascending order: an index that was cut grows by what is known, without holes in it that
  // would say that there is nothing.
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  int fault = 0;
  size_t num_written = 0;
  while (fault == 0 && num_written < entries.size()) {
    const auto& [slot, entry] = entries[num_written];
    fault = files->WriteEntry(slot, entry.has_value() ? &*entry : nullptr);
    if (fault == 0) ++num_written;
  }
  if (fault == 0 && is_cut) fault = files->Grow(num_slots, num_slots);
  if (fault == 0 && !entries.empty()) fault = files->NextGeneration();
  const std::lock_guard lock(mutex_);
  if (files != files_) return fault;
  if (fault == 0 && is_cut) is_index_cut_ = false;
  for (size_t i = 0; i < entries.size(); ++i) {
    const int64_t slot = entries[i].first;
    if (slot >= table_.num_slots()) continue;
    if (i < num_written) {
      table_.SetWritten(slot, entries[i].second.has_value());
    } else {
      table_.MarkUnwritten(slot);
    }
  }
  return fault;
}

}  // namespace quire
