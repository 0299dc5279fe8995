#include "kv/tiers/disk/disk_tier.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "kv/tiers/disk/disk_model.h"
#include "kv/tiers/disk/disk_speed.h"
#include "kv/tiers/disk/slot_store.h"
#include "kv/tiers/disk/slot_supply.h"
#include "kv/tiers/disk/write_rest.h"

namespace quire {
namespace {

using Clock = std::chrono::steady_clock;

// A reader looks for what the writer has done no more often.
constexpr double kLookAgainS = 0.5;
// Uses are written down no more often, but for Flush.
constexpr double kUsesS = 5;
constexpr size_t kUsesAtOnce = 1024;

double SystemNow() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double MsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// work_mutex_ is the right to do what one thread may do at a time: to write, or a reader's look at
// the index. mutex_ guards what is counted and told; it is never held over I/O.
class DiskTier final : public Tier {
 public:
  DiskTier(std::shared_ptr<const RecordCodec> codec, DiskTierOptions options, DiskModel model)
      : codec_(std::move(codec)),
        options_(std::move(options)),
        model_(std::move(model)),
        slots_(options_.read_only ? SlotFilesMode::kRead : SlotFilesMode::kWrite,
               {.by_tenant = options_.tenant_max_bytes > 0, .cost = options_.cost}),
        supply_(model_, slots_, options_.tenant_max_bytes) {}

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
  double Now() const { return options_.now_s ? options_.now_s() : SystemNow(); }

  // Reading.
  RecordFault LoadOne(const BlockLoad& load);
  RecordFault ReadAndProve(const SlotFiles& files, int64_t slot, const BlockLoad& load) const;
  RecordFault TellFault(const RecordName& name, const SlotStore::Pinned& pinned, RecordFault fault);
  void LookAgain(bool is_urgent);

  // Writing; with work_mutex_.
  Status Adopt(Result<DiskModel::Opened> opened);
  bool IsReady(double now_s);
  void Fail(std::string_view what, int fault);
  void UpdateBytes();

  std::shared_ptr<const RecordCodec> codec_;
  const DiskTierOptions options_;

  std::mutex work_mutex_;
  DiskModel model_;
  // Of the record in hand: see RecordCodec::Encode.
  std::array<std::byte, kRecordHeaderBytes> header_;
  std::vector<std::byte> made_;
  double uses_written_s_ = 0;
  double looked_s_ = -1;
  uint64_t seen_generation_ = 0;

  SlotStore slots_;
  SlotSupply supply_;                // work_mutex_
  std::vector<ModelBeside> others_;  // never changed after the start

  mutable std::mutex mutex_;
  TierCounters counters_;  // without what slots_ counts: faults and evictions
  WriteRest rest_;
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
  seen_generation_ = opened->files->Generation().value_or(0);
  slots_.Adopt(std::move(opened->files), std::move(opened->contents));
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
  const SlotStore::Tally tally = slots_.tally();
  const std::lock_guard lock(mutex_);
  status.counters = counters_;
  status.counters.faults = tally.faults;
  status.counters.evictions = tally.evictions;
  status.num_records = tally.num_listed;
  status.bytes = bytes_;
  return status;
}

TierState DiskTier::state() const {
  const double now_s = Now();
  const std::lock_guard lock(mutex_);
  if (rest_.MayWrite(now_s)) return {};
  // Without files there is nothing to read either.
  return {.is_up = slots_.is_open(), .reason = rest_.reason(), .down_for_ms = rest_.ForMs(now_s)};
}

bool DiskTier::MayHold(const BlockKey& key) const { return slots_.Holds(codec_->NameOf(key)); }

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
    slots_.Look();
  }
  for (size_t i = 0; i < loads.size(); ++i) {
    RecordFault fault = RecordFault::kNone;
    if (cancelled && cancelled()) {
      fault = RecordFault::kCancelled;
    } else if (Clock::now() >= deadline) {
      fault = RecordFault::kTimeout;
      slots_.Count(fault);
    } else {
      fault = LoadOne(loads[i]);
    }
    done(i, fault);
  }
}

RecordFault DiskTier::LoadOne(const BlockLoad& load) {
  const auto start = Clock::now();
  const RecordName name = codec_->NameOf(load.block.key());
  const auto pinned = slots_.Pin(name);
  if (!pinned.has_value()) return RecordFault::kAbsent;
  const RecordFault fault = ReadAndProve(*pinned->files, pinned->found.slot, load);
  if (fault == RecordFault::kNone) {
    slots_.Use(pinned->found, Now(),
               codec_->NameOf({.id = load.block.parent, .group = load.block.group}));
    const std::lock_guard lock(mutex_);
    ++counters_.blocks_loaded;
    counters_.bytes_loaded += static_cast<int64_t>(load.payload.size());
    counters_.load_ms += MsSince(start);
  }
  slots_.Unpin(pinned->found);
  return fault == RecordFault::kNone ? fault : TellFault(name, *pinned, fault);
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
RecordFault DiskTier::TellFault(const RecordName& name, const SlotStore::Pinned& pinned,
                                RecordFault fault) {
  if (!slots_.IsStill(pinned)) return RecordFault::kAbsent;
  if (options_.read_only) LookAgain(true);
  return slots_.Lose(name, pinned.found, fault);
}

void DiskTier::LookAgain(bool is_urgent) {
  const std::lock_guard work(work_mutex_);
  const double now_s = Now();
  const bool is_early = now_s >= looked_s_ && now_s < looked_s_ + kLookAgainS;
  if (is_early && !is_urgent) return;
  looked_s_ = now_s;
  const auto files = slots_.files();
  int64_t num_whole = 0;
  const bool is_there =
      files != nullptr && files->Look(0, &num_whole) != SlotFiles::Condition::kGone;
  // The generation follows the entries: who has met a slot in the making looks at them themselves.
  if (is_there && !is_urgent && files->Generation() == seen_generation_) return;
  if (!Adopt(model_.OpenToRead()).ok()) slots_.Forget();
}

void DiskTier::Touch(std::span<const BlockKey> keys) {
  const double now_s = Now();
  for (const BlockKey& key : keys) (void)slots_.Use(codec_->NameOf(key), now_s, nullptr);
}

// Whether there are files to write to. Opens them anew where they were deleted.
bool DiskTier::IsReady(double now_s) {
  {
    const std::lock_guard lock(mutex_);
    if (!rest_.MayWrite(now_s)) return false;
  }
  if (const int fault = slots_.Mend(); fault != 0) Fail("cannot be written", fault);
  const auto open = slots_.files();
  if (!model_.directory().HoldsLock() || (open != nullptr && !open->IsInPlace())) slots_.Forget();
  if (slots_.is_open()) return !slots_.is_index_cut();
  const Status status = Adopt(model_.OpenToWrite());
  if (status.ok()) return true;
  Fail(status.error().message, 0);
  return false;
}

void DiskTier::Fail(std::string_view what, int fault) {
  const double now_s = Now();
  std::string reason = fault == 0 ? std::string(what)
                                  : fmt::format("{}: {}: {}", options_.directory.string(), what,
                                                std::strerror(fault));
  slots_.Count(RecordFault::kIo);
  const std::lock_guard lock(mutex_);
  counters_.times_down += rest_.Fail(now_s, std::move(reason)) ? 1 : 0;
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
  if (slots_.Use(entry.name, now_s, &entry.parent)) return StoreOutcome::kHeld;
  const auto body = codec_->Encode(block, payload, Packing::kNone, header_, made_);
  const size_t record_bytes = header_.size() + body.size();
  entry.record_bytes = static_cast<uint32_t>(record_bytes);
  // A thread that reads may find meanwhile that they were deleted.
  const auto files = slots_.files();
  if (files == nullptr) return StoreOutcome::kFailed;
  const SlotSupply::Supplied supplied = supply_.Take(files, entry, Now());
  if (supplied.has_grown) UpdateBytes();
  if (!supplied.slot.has_value()) {
    const std::lock_guard lock(mutex_);
    ++counters_.stores_refused;
    return supplied.refusal;
  }
  const int fault = slots_.Write(*files, *supplied.slot, entry, header_, body);
  if (fault != 0) {
    Fail("cannot be written", fault);
    return StoreOutcome::kFailed;
  }
  {
    const std::lock_guard lock(mutex_);
    rest_.Succeed();
  }
  if (now_s < uses_written_s_ || now_s >= uses_written_s_ + kUsesS) {
    uses_written_s_ = now_s;
    if (const int late = slots_.WriteUses(kUsesAtOnce); late != 0) {
      Fail("cannot be written", late);
    }
  }
  const std::lock_guard lock(mutex_);
  ++counters_.blocks_stored;
  counters_.bytes_stored += static_cast<int64_t>(record_bytes);
  counters_.store_ms += MsSince(start);
  return StoreOutcome::kStored;
}

Status DiskTier::Flush(TierDeadline) {
  if (options_.read_only) return {};
  const std::lock_guard work(work_mutex_);
  // Whoever has deleted LOCK may have let another writer in.
  if (!model_.directory().HoldsLock()) return {};
  slots_.Look();
  const auto files = slots_.files();
  if (files == nullptr) return {};
  int fault = slots_.WriteUses(SIZE_MAX);
  if (fault == 0) fault = files->Sync();
  if (fault == 0) return {};
  Fail("cannot be written", fault);
  return MakeError(ErrorCode::kIo, "{}: cannot be flushed: {}", options_.directory.string(),
                   std::strerror(fault));
}

std::optional<TierSpeed> DiskTier::Measure(TierDeadline deadline) {
  const std::lock_guard work(work_mutex_);
  const auto [files, slots] = slots_.SomeListed(DiskSpeedTrial::kSlots);
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
