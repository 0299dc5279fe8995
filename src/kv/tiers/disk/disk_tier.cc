#include "kv/tiers/disk/disk_tier.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "kv/tiers/disk/disk_model.h"
#include "kv/tiers/disk/disk_speed.h"
#include "kv/tiers/disk/slot_table.h"

namespace quire {
namespace {

using Clock = std::chrono::steady_clock;

// A reader looks for what the writer has done no more often.
constexpr double kLookAgainS = 0.5;
// Uses are written down no more often, but for Flush.
constexpr double kProgressS = 5;
constexpr size_t kProgressAtOnce = 1024;
// After so many failed writes in a row there are none for a while, twice as long each time.
constexpr int kFailuresToRest = 3;
constexpr double kFirstRestS = 1;
constexpr double kLongestRestS = 60;
// A file that could not grow is not asked to again for so long.
constexpr double kNoGrowthS = 5;

double SystemNow() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double MsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// mutex_ guards what is in memory and is never held over I/O; work_mutex_ is the right to do what
// one thread may do at a time: to write, or a reader's look at the index.
class DiskTier final : public Tier {
 public:
  DiskTier(std::shared_ptr<const RecordCodec> codec, DiskTierOptions options, DiskModel model)
      : codec_(std::move(codec)),
        options_(std::move(options)),
        model_(std::move(model)),
        table_(TableOptions()) {}

  Status Start();

  TierKind kind() const override { return TierKind::kDisk; }
  TierStatus status() const override;
  TierState state() const override;
  bool MayHold(const BlockKey& key) const override;
  bool KnowsAll() const override { return !options_.read_only; }
  Status Find(std::span<const BlockKey> keys, TierDeadline deadline,
              std::vector<bool>& found) override;
  void Load(std::span<const BlockLoad> loads, TierDeadline deadline,
            const std::function<bool()>& cancelled,
            const std::function<void(size_t idx, RecordFault fault)>& done) override;
  StoreOutcome Store(const StoredBlock& block, std::span<const std::byte> payload,
                     TierDeadline deadline) override;
  void Touch(std::span<const BlockKey> keys) override;
  Status Flush(TierDeadline deadline) override;
  std::optional<TierSpeed> Measure(TierDeadline deadline) override;
  std::optional<std::string_view> OtherModel(std::string_view salt,
                                             std::span<const int32_t> tokens) const override;

 private:
  SlotTable::Options TableOptions() const {
    return {.by_tenant = options_.tenant_max_bytes > 0, .cost = options_.cost};
  }
  double Now() const { return options_.now_s ? options_.now_s() : SystemNow(); }
  std::shared_ptr<SlotFiles> files() const {
    const std::lock_guard lock(mutex_);
    return files_;
  }

  // Reading.
  RecordFault LoadOne(const BlockLoad& load);
  RecordFault ReadAndProve(const SlotFiles& files, int64_t slot, const BlockLoad& load) const;
  RecordFault TellFault(const SlotTable::Found& found, const SlotFiles* files, RecordFault fault);
  SlotFiles::Condition LookAtFiles();
  void LookAgain(bool is_urgent);

  // Writing; with work_mutex_.
  Status Adopt(Result<DiskModel::Opened> opened);
  bool IsReady(double now_s);
  void Mend(SlotFiles::Condition condition);
  std::optional<SlotTable::Found> Reserve(const std::shared_ptr<SlotFiles>& files,
                                          const IndexEntry& entry, StoreOutcome* outcome);
  bool Grow(const std::shared_ptr<SlotFiles>& files);
  int WriteRecord(SlotFiles& files, const SlotTable::Found& slot, const IndexEntry& entry,
                  std::span<const std::byte> body);
  int WriteProgress(size_t max);
  void Succeed();
  void Fail(std::string_view what, int fault);
  void UpdateBytes();

  std::shared_ptr<const RecordCodec> codec_;
  const DiskTierOptions options_;

  std::mutex work_mutex_;
  DiskModel model_;
  // Of the record in hand: see RecordCodec::Encode.
  std::array<std::byte, kRecordHeaderBytes> header_;
  std::vector<std::byte> made_;
  double progress_written_s_ = 0;
  double no_growth_until_s_ = 0;
  double looked_s_ = -1;
  uint64_t seen_generation_ = 0;

  mutable std::mutex mutex_;
  std::shared_ptr<SlotFiles> files_;  // null: gone, or not there yet
  SlotTable table_;
  std::vector<ModelBeside> others_;
  TierCounters counters_;
  bool is_index_cut_ = false;
  int num_failures_ = 0;  // in a row
  double rest_s_ = kFirstRestS;
  double resting_since_s_ = 0;
  double rests_until_s_ = 0;
  std::string reason_;
  uint64_t bytes_ = 0;
};

Status DiskTier::Start() {
  const std::lock_guard work(work_mutex_);
  others_ = model_.ReadOthers();
  if (!options_.read_only) return Adopt(model_.OpenToWrite());
  auto opened = model_.OpenToRead();
  // No file yet: the writer will make them.
  if (opened.ok()) return Adopt(std::move(opened));
  UpdateBytes();
  return opened.error().code == ErrorCode::kNotFound ? Status() : opened.error();
}

Status DiskTier::Adopt(Result<DiskModel::Opened> opened) {
  if (!opened.ok()) return opened.error();
  // Built beside the one in use, which nobody has to wait for.
  SlotTable table(TableOptions());
  table.Fill(std::move(opened->contents.entries), opened->contents.unwritten);
  seen_generation_ = opened->files->Generation().value_or(0);
  {
    const std::lock_guard lock(mutex_);
    table.GoOnFrom(table_);
    std::swap(table_, table);
    files_ = std::move(opened->files);
    is_index_cut_ = false;
    for (size_t i = 0; i < counters_.faults.size(); ++i) {
      // A reader looks again and again, and would count what is there as often.
      if (!options_.read_only) counters_.faults[i] += opened->contents.faults[i];
    }
  }
  UpdateBytes();
  return {};
}

void DiskTier::UpdateBytes() {
  const uint64_t bytes = DiskDirectory::BytesOf(model_.directory().List());
  const std::lock_guard lock(mutex_);
  bytes_ = bytes;
}

TierStatus DiskTier::status() const {
  TierStatus status = {.kind = TierKind::kDisk,
                       .place = options_.directory.string(),
                       .is_read_only = options_.read_only,
                       .state = state(),
                       .max_bytes = options_.max_bytes};
  const std::lock_guard lock(mutex_);
  status.counters = counters_;
  status.num_records = table_.num_listed();
  status.bytes = bytes_;
  return status;
}

TierState DiskTier::state() const {
  const double now_s = Now();
  const std::lock_guard lock(mutex_);
  const bool rests = now_s < rests_until_s_;
  if (!rests) return {};
  return {.is_up = files_ != nullptr,
          .reason = reason_,
          .down_for_ms = std::max(0.0, (now_s - resting_since_s_) * 1e3)};
}

bool DiskTier::MayHold(const BlockKey& key) const {
  const RecordName name = codec_->NameOf(key);
  const std::lock_guard lock(mutex_);
  return table_.Holds(name);
}

Status DiskTier::Find(std::span<const BlockKey> keys, TierDeadline, std::vector<bool>& found) {
  if (options_.read_only) LookAgain(false);
  found.assign(keys.size(), false);
  for (size_t i = 0; i < keys.size(); ++i) found[i] = MayHold(keys[i]);
  const std::lock_guard lock(mutex_);
  counters_.names_asked += static_cast<int64_t>(keys.size());
  counters_.names_found += std::count(found.begin(), found.end(), true);
  return {};
}

void DiskTier::Load(std::span<const BlockLoad> loads, TierDeadline deadline,
                    const std::function<bool()>& cancelled,
                    const std::function<void(size_t idx, RecordFault fault)>& done) {
  if (options_.read_only) {
    LookAgain(false);
  } else {
    LookAtFiles();
  }
  for (size_t i = 0; i < loads.size(); ++i) {
    RecordFault fault = RecordFault::kNone;
    if (cancelled && cancelled()) {
      fault = RecordFault::kCancelled;
    } else if (Clock::now() >= deadline) {
      fault = RecordFault::kTimeout;
      const std::lock_guard lock(mutex_);
      ++counters_.faults[static_cast<size_t>(fault)];
    } else {
      fault = LoadOne(loads[i]);
    }
    done(i, fault);
  }
}

RecordFault DiskTier::LoadOne(const BlockLoad& load) {
  const auto start = Clock::now();
  const RecordName name = codec_->NameOf(load.block.key());
  std::shared_ptr<SlotFiles> files;
  std::optional<SlotTable::Found> found;
  {
    const std::lock_guard lock(mutex_);
    files = files_;
    found = table_.Pin(name);
  }
  if (!found.has_value()) return RecordFault::kAbsent;
  const RecordFault fault =
      files == nullptr ? RecordFault::kAbsent : ReadAndProve(*files, found->slot, load);
  const double now_s = Now();
  {
    const std::lock_guard lock(mutex_);
    if (fault == RecordFault::kNone) {
      ++counters_.blocks_loaded;
      counters_.bytes_loaded += static_cast<int64_t>(load.payload.size());
      counters_.load_ms += MsSince(start);
      if (table_.IsStill(*found)) {
        const RecordName parent =
            codec_->NameOf({.id = load.block.parent, .group = load.block.group});
        table_.Use(found->slot, now_s, &parent);
      }
    }
    table_.Unpin(*found);
  }
  return fault == RecordFault::kNone ? fault : TellFault(*found, files.get(), fault);
}

RecordFault DiskTier::ReadAndProve(const SlotFiles& files, int64_t slot,
                                   const BlockLoad& load) const {
  const auto& group_bytes = codec_->model().group_bytes;
  const auto group = static_cast<size_t>(load.block.group);
  QUIRE_CHECK(group < group_bytes.size() && load.payload.size() == group_bytes[group],
              "{} bytes for a block of group {}", load.payload.size(), load.block.group);
  std::array<std::byte, kRecordHeaderBytes> header;
  const std::array<iovec, 2> parts = {PartOf(std::span<std::byte>(header)), PartOf(load.payload)};
  RecordFault fault = files.Read(slot, parts);
  if (fault != RecordFault::kNone) return fault;
  RecordHead head;
  fault = ReadHead(header, &head);
  if (fault != RecordFault::kNone) return fault;
  if (head.body_bytes > load.payload.size()) return RecordFault::kOtherBlock;
  const auto body = load.payload.first(static_cast<size_t>(head.body_bytes));
  if (!head.is_packed) {
    return codec_->Decode(header, body, load.block, model_.demand(), load.payload);
  }
  std::vector<std::byte> packed(body.begin(), body.end());
  return codec_->Decode(header, packed, load.block, model_.demand(), load.payload);
}

// A fault of what is still there counts, and what was there is a miss from here on. What has
// changed hands while it was read was never wrong.
RecordFault DiskTier::TellFault(const SlotTable::Found& found, const SlotFiles* files,
                                RecordFault fault) {
  RecordName name;
  {
    const std::lock_guard lock(mutex_);
    if (files == nullptr || files != files_.get() || !table_.IsStill(found)) {
      return RecordFault::kAbsent;
    }
    name = table_.entry(found.slot).name;
  }
  if (options_.read_only) LookAgain(true);
  const std::lock_guard lock(mutex_);
  const auto still = table_.Find(name);
  if (!still.has_value() || still->slot != found.slot) return RecordFault::kAbsent;
  if (!options_.read_only && still->version != found.version) return RecordFault::kAbsent;
  ++counters_.faults[static_cast<size_t>(fault)];
  table_.Drop(found.slot);
  return fault;
}

// Files that were deleted or cut by somebody else are noticed before they are used.
SlotFiles::Condition DiskTier::LookAtFiles() {
  std::shared_ptr<SlotFiles> files;
  int64_t num_slots = 0;
  {
    const std::lock_guard lock(mutex_);
    files = files_;
    num_slots = table_.num_slots();
  }
  if (files == nullptr) return SlotFiles::Condition::kGone;
  int64_t num_whole = 0;
  const auto condition = files->Look(num_slots, &num_whole);
  const bool is_harmed =
      condition == SlotFiles::Condition::kGone || condition == SlotFiles::Condition::kCut;
  const std::lock_guard lock(mutex_);
  // What has grown meanwhile is looked at the next time.
  if (!is_harmed || files != files_ || num_slots != table_.num_slots()) return condition;
  if (condition == SlotFiles::Condition::kGone) {
    table_.Clear();
    files_ = nullptr;
  } else if (num_whole < num_slots) {
    ++counters_.faults[static_cast<size_t>(RecordFault::kTruncated)];
    table_.Resize(num_whole);
  } else if (!is_index_cut_) {
    is_index_cut_ = true;
    ++counters_.faults[static_cast<size_t>(RecordFault::kTruncated)];
    for (const int64_t slot : table_.ListedSlots()) table_.MarkUnwritten(slot);
  }
  return condition;
}

void DiskTier::LookAgain(bool is_urgent) {
  const std::lock_guard work(work_mutex_);
  const double now_s = Now();
  const bool is_early = now_s >= looked_s_ && now_s < looked_s_ + kLookAgainS;
  if (is_early && !is_urgent) return;
  looked_s_ = now_s;
  const auto files = this->files();
  int64_t num_whole = 0;
  const bool is_there =
      files != nullptr && files->Look(0, &num_whole) != SlotFiles::Condition::kGone;
  // The generation follows the entries: who has met a slot in the making looks at them themselves.
  if (is_there && !is_urgent && files->Generation() == seen_generation_) return;
  if (Adopt(model_.OpenToRead()).ok()) return;
  const std::lock_guard lock(mutex_);
  table_.Clear();
  files_ = nullptr;
}

void DiskTier::Touch(std::span<const BlockKey> keys) {
  const double now_s = Now();
  for (const BlockKey& key : keys) {
    const RecordName name = codec_->NameOf(key);
    const std::lock_guard lock(mutex_);
    if (const auto found = table_.Find(name)) table_.Use(found->slot, now_s, nullptr);
  }
}

// Whether there are files to write to. Opens them anew where they were deleted.
bool DiskTier::IsReady(double now_s) {
  {
    const std::lock_guard lock(mutex_);
    if (now_s < rests_until_s_ && now_s >= resting_since_s_) return false;
  }
  Mend(LookAtFiles());
  const auto open = this->files();
  if (!model_.directory().HoldsLock() || (open != nullptr && !open->IsInPlace())) {
    const std::lock_guard lock(mutex_);
    table_.Clear();
    files_ = nullptr;
  }
  if (files() != nullptr) {
    const std::lock_guard lock(mutex_);
    return !is_index_cut_;
  }
  const Status status = Adopt(model_.OpenToWrite());
  if (status.ok()) return true;
  Fail(status.error().message, 0);
  return false;
}

// Files that somebody has cut or made longer are as long as they ought to be, if that can be done.
void DiskTier::Mend(SlotFiles::Condition condition) {
  const auto files = this->files();
  if (files == nullptr) return;
  int64_t num_slots = 0;
  bool is_cut = false;
  {
    const std::lock_guard lock(mutex_);
    num_slots = table_.num_slots();
    is_cut = is_index_cut_;
  }
  // Nothing of ours lies there, and the cap knows nothing of it.
  int fault = condition == SlotFiles::Condition::kLong ? files->Shrink(num_slots) : 0;
  if (fault == 0 && is_cut) fault = WriteProgress(SIZE_MAX);
  if (fault != 0) Fail("cannot be written", fault);
}

void DiskTier::Succeed() {
  const std::lock_guard lock(mutex_);
  num_failures_ = 0;
  rest_s_ = kFirstRestS;
  rests_until_s_ = 0;
}

void DiskTier::Fail(std::string_view what, int fault) {
  const double now_s = Now();
  const std::lock_guard lock(mutex_);
  ++counters_.faults[static_cast<size_t>(RecordFault::kIo)];
  if (++num_failures_ < kFailuresToRest) return;
  ++counters_.times_down;
  if (rest_s_ == kFirstRestS) resting_since_s_ = now_s;
  rests_until_s_ = now_s + rest_s_;
  rest_s_ = std::min(2 * rest_s_, kLongestRestS);
  reason_ = fault == 0 ? std::string(what)
                       : fmt::format("{}: {}: {}", options_.directory.string(), what,
                                     std::strerror(fault));
}

StoreOutcome DiskTier::Store(const StoredBlock& block, std::span<const std::byte> payload,
                             TierDeadline deadline) {
  if (options_.read_only) return StoreOutcome::kDown;
  const auto start = Clock::now();
  const std::lock_guard work(work_mutex_);
  const double now_s = Now();
  if (Clock::now() >= deadline) return StoreOutcome::kDown;
  IndexEntry entry = {.name = codec_->NameOf(block.key()),
                      .parent = codec_->NameOf({.id = block.parent, .group = block.group}),
                      .tenant = codec_->TagOf(block.root),
                      .group = block.group,
                      .entry = block.entry,
                      .last_use_s = std::max(0.0, now_s)};
  if (!IsReady(now_s)) {
    const TierState state = this->state();
    return state.reason.empty() ? StoreOutcome::kFailed : StoreOutcome::kDown;
  }
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = table_.Find(entry.name)) {
      table_.Use(found->slot, now_s, &entry.parent);
      return StoreOutcome::kHeld;
    }
  }
  const auto body = codec_->Encode(block, payload, Packing::kNone, header_, made_);
  const size_t record_bytes = header_.size() + body.size();
  entry.record_bytes = static_cast<uint32_t>(record_bytes);
  StoreOutcome outcome = StoreOutcome::kNoRoom;
  // A thread that reads may find meanwhile that they were deleted.
  const auto files = this->files();
  if (files == nullptr) return StoreOutcome::kFailed;
  const auto slot = Reserve(files, entry, &outcome);
  if (!slot.has_value()) {
    const std::lock_guard lock(mutex_);
    ++counters_.stores_refused;
    return outcome;
  }
  const int fault = WriteRecord(*files, *slot, entry, body);
  if (fault != 0) {
    Fail("cannot be written", fault);
    return StoreOutcome::kFailed;
  }
  Succeed();
  if (now_s < progress_written_s_ || now_s >= progress_written_s_ + kProgressS) {
    progress_written_s_ = now_s;
    if (const int late = WriteProgress(kProgressAtOnce); late != 0) {
      Fail("cannot be written", late);
    }
  }
  const std::lock_guard lock(mutex_);
  ++counters_.blocks_stored;
  counters_.bytes_stored += static_cast<int64_t>(record_bytes);
  counters_.store_ms += MsSince(start);
  return StoreOutcome::kStored;
}

// A slot for the block: of its tenant's where that has used up its quota, else a free one, else one
// of a longer file, else of what is worth least.
std::optional<SlotTable::Found> DiskTier::Reserve(const std::shared_ptr<SlotFiles>& files,
                                                  const IndexEntry& entry, StoreOutcome* outcome) {
  if (options_.tenant_max_bytes > 0) {
    const uint64_t quota = options_.tenant_max_bytes / files->slot_bytes();
    const std::lock_guard lock(mutex_);
    if (files != files_) return std::nullopt;
    if (static_cast<uint64_t>(table_.num_slots_of(entry.tenant)) >= quota) {
      *outcome = StoreOutcome::kQuota;
      const auto slot = table_.TakeWorst(entry, &entry.tenant);
      counters_.evictions += slot.has_value() ? 1 : 0;
      return slot;
    }
  }
  {
    const std::lock_guard lock(mutex_);
    if (files != files_) return std::nullopt;
    if (const auto slot = table_.TakeFree()) return slot;
  }
  const bool has_grown = Grow(files);
  const std::lock_guard lock(mutex_);
  if (files != files_) return std::nullopt;
  if (has_grown) return table_.TakeFree();
  const auto slot = table_.TakeWorst(entry, nullptr);
  counters_.evictions += slot.has_value() ? 1 : 0;
  return slot;
}

// Whether there are more slots: where the cap leaves no room, in the place of other models' ones.
bool DiskTier::Grow(const std::shared_ptr<SlotFiles>& files) {
  const double now_s = Now();
  if (now_s < no_growth_until_s_ && now_s >= no_growth_until_s_ - kNoGrowthS) return false;
  no_growth_until_s_ = now_s + kNoGrowthS;
  const uint64_t slot_bytes = files->slot_bytes();
  const int64_t extent = model_.space().SlotsOfExtent(slot_bytes);
  const uint64_t least = slot_bytes + kIndexEntryBytes;
  const DiskSpace& space = model_.space();
  while (space.Room(model_.directory(), DiskSpace::Limit::kCapAlone) < least) {
    const uint64_t wanted = static_cast<uint64_t>(extent) * least;
    if (!space.TakeFromOthers(model_.directory(), model_.fingerprint(), wanted)) return false;
  }
  const uint64_t room = space.Room(model_.directory(), DiskSpace::Limit::kCapAndFree);
  const int64_t added = std::min(extent, static_cast<int64_t>(room / least));
  int64_t num_slots = 0;
  {
    const std::lock_guard lock(mutex_);
    if (files != files_) return false;
    num_slots = table_.num_slots();
  }
  if (added == 0 || num_slots + added > kMaxSlots) return false;
  int fault = files->Grow(num_slots, num_slots + added);
  if (fault == 0 && space.IsOver(model_.directory())) {
    // The file system takes more beside the files than was left for it.
    (void)files->Shrink(num_slots);
    fault = ENOSPC;
  }
  if (fault != 0) {
    const std::lock_guard lock(mutex_);
    ++counters_.faults[static_cast<size_t>(RecordFault::kIo)];
    return false;
  }
  UpdateBytes();
  no_growth_until_s_ = 0;
  const std::lock_guard lock(mutex_);
  if (files != files_ || table_.num_slots() != num_slots) return false;
  table_.Resize(num_slots + added);
  return true;
}

// Unlists what the slot held, writes the record, lists it: in this order, so that a process that
// dies in between leaves a slot that nobody looks into. 0, or an errno: the slot is then free.
int DiskTier::WriteRecord(SlotFiles& files, const SlotTable::Found& slot, const IndexEntry& entry,
                          std::span<const std::byte> body) {
  bool is_listed = false;
  {
    const std::lock_guard lock(mutex_);
    is_listed = slot.slot < table_.num_slots() && table_.is_listed_on_disk(slot.slot);
  }
  int fault = is_listed ? files.WriteEntry(slot.slot, nullptr) : 0;
  if (fault == 0) {
    is_listed = false;
    fault = files.Write(slot.slot, header_, body);
  }
  if (fault == 0) {
    is_listed = true;
    fault = files.WriteEntry(slot.slot, &entry);
    if (fault == 0) fault = files.NextGeneration();
  }
  const std::lock_guard lock(mutex_);
  if (slot.slot >= table_.num_slots()) return fault;
  table_.SetWritten(slot.slot, is_listed);
  if (fault == 0) {
    (void)table_.List(slot, entry);
  } else {
    table_.GiveBack(slot);
    table_.MarkUnwritten(slot.slot);
  }
  return fault;
}

// Writes down uses, and clears what is listed no more.
int DiskTier::WriteProgress(size_t max) {
  const auto files = this->files();
  if (files == nullptr) return 0;
  std::vector<std::pair<int64_t, std::optional<IndexEntry>>> entries;
  int64_t num_slots = 0;
  bool is_cut = false;
  {
    const std::lock_guard lock(mutex_);
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

Status DiskTier::Flush(TierDeadline) {
  if (options_.read_only) return {};
  const std::lock_guard work(work_mutex_);
  // Whoever has deleted LOCK may have let another writer in.
  if (!model_.directory().HoldsLock()) return {};
  LookAtFiles();
  const auto files = this->files();
  if (files == nullptr) return {};
  int fault = WriteProgress(SIZE_MAX);
  if (fault == 0) fault = files->Sync();
  if (fault == 0) return {};
  Fail("cannot be written", fault);
  return MakeError(ErrorCode::kIo, "{}: cannot be flushed: {}", options_.directory.string(),
                   std::strerror(fault));
}

std::optional<TierSpeed> DiskTier::Measure(TierDeadline deadline) {
  const std::lock_guard work(work_mutex_);
  std::shared_ptr<SlotFiles> files;
  std::vector<int64_t> slots;
  {
    const std::lock_guard lock(mutex_);
    files = files_;
    slots = table_.SomeListed(DiskSpeedTrial::kSlots);
  }
  if (files == nullptr) return std::nullopt;
  DiskSpeedTrial trial(model_.ops(), deadline);
  if (!slots.empty()) return trial.OfSlots(*files, slots);
  if (options_.read_only) return std::nullopt;
  const bool has_room =
      model_.space().Room(model_.directory(), DiskSpace::Limit::kCapAndFree) >= files->slot_bytes();
  return has_room ? trial.OfDirectory(model_.directory().path(), *codec_) : std::nullopt;
}

std::optional<std::string_view> DiskTier::OtherModel(std::string_view salt,
                                                     std::span<const int32_t> tokens) const {
  const size_t num_blocks = tokens.size() / kBlockSlots;
  if (num_blocks == 0) return std::nullopt;
  // Never changed after the start.
  for (const ModelBeside& other : others_) {
    IdentityChain chain(RootOf(other.fingerprint, salt));
    chain.Extend(tokens.first(num_blocks * kBlockSlots));
    const RecordName name = codec_->NameOf({.id = chain.ids().back(), .group = 0});
    if (std::binary_search(other.names.begin(), other.names.end(), name)) return other.difference;
  }
  return std::nullopt;
}

}  // namespace

Result<std::unique_ptr<Tier>> OpenDiskTier(std::shared_ptr<const RecordCodec> codec,
                                           const DiskTierOptions& options) {
  QUIRE_CHECK(codec != nullptr, "no codec");
  QUIRE_ASSIGN_OR_RETURN(DiskModel model, DiskModel::Open(*codec, options));
  auto tier = std::make_unique<DiskTier>(std::move(codec), options, std::move(model));
  QUIRE_RETURN_IF_ERROR(tier->Start());
  return std::unique_ptr<Tier>(std::move(tier));
}

}  // namespace quire
