#include "kv/tiers/disk/disk_catalogue.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <unordered_map>
#include <utility>

#include "kv/tiers/disk/disk_directory.h"
#include "kv/tiers/disk/disk_space.h"
#include "kv/tiers/disk/disk_tier.h"
#include "kv/tiers/disk/eviction_order.h"
#include "kv/tiers/disk/slot_files.h"

namespace quire {
namespace {

double NowS() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Used longest ago first; and none before what builds on it, since that is of no use alone.
void SortForRemoval(std::vector<CataloguedRecord>& records) {
  std::sort(records.begin(), records.end(),
            [](const auto& a, const auto& b) { return a.entry > b.entry; });
  std::unordered_map<RecordName, double, NameHash> used_behind;
  for (CataloguedRecord& record : records) {
    const auto behind = used_behind.find(record.name);
    if (behind != used_behind.end()) {
      record.last_use_s = std::max(record.last_use_s, behind->second);
    }
    double& used = used_behind[record.parent];
    used = std::max(used, record.last_use_s);
  }
  std::sort(records.begin(), records.end(), [](const auto& a, const auto& b) {
    return std::pair(a.last_use_s, -a.entry) < std::pair(b.last_use_s, -b.entry);
  });
}

class Catalogue final : public DiskCatalogue {
 public:
  Catalogue(DiskDirectory directory, CatalogueMode mode)
      : ops_(FileOps::System()), directory_(std::move(directory)), mode_(mode) {}

  Status Fill();

  std::vector<CataloguedModel> models() const override;
  std::vector<CataloguedRecord> records() const override;
  uint64_t bytes() const override { return DiskDirectory::BytesOf(directory_.List()); }
  Result<std::vector<std::byte>> Read(const CataloguedRecord& record) override;
  Result<std::vector<CatalogueFault>> Verify(
      const KeyRing* keys,
      const std::function<bool(int64_t done, int64_t total)>& progress) override;
  Status Remove(const std::vector<CataloguedRecord>& records) override;
  Result<bool> Add(std::span<const std::byte> record, uint64_t max_bytes) override;
  Result<uint64_t> Collect(const Digest* keep, uint64_t max_bytes) override;

 private:
  struct Model {
    std::shared_ptr<SlotFiles> files{};
    std::vector<std::optional<IndexEntry>> entries{};  // [num_slots]
    std::unordered_map<RecordName, int64_t, NameHash> by_name{};
    int64_t free_from = 0;  // no slot before it is free

    int64_t num_slots() const { return static_cast<int64_t>(entries.size()); }
    int64_t EndOfListed() const;
  };

  SlotFilesMode files_mode() const {
    return mode_ == CatalogueMode::kWrite ? SlotFilesMode::kWrite : SlotFilesMode::kRead;
  }
  CataloguedRecord RecordOf(const Model& model, int64_t slot) const;
  Status NeedsWrite() const;
  Error Failed(int fault) const;
  Result<Model*> Find(const CataloguedRecord& record);
  Status RemoveOne(Model& model, int64_t slot);
  Result<Model*> ModelFor(const RecordHead& head, uint64_t record_bytes, uint64_t max_bytes);
  Result<int64_t> FreeSlot(Model& model, uint64_t max_bytes);
  Status RemoveModel(const Digest& fingerprint);
  Status RemoveLeftovers();
  Status GiveBackTails();
  Status Compact(Model& model);
  Status ShrinkTo(uint64_t max_bytes);

  FileOps& ops_;
  DiskDirectory directory_;
  CatalogueMode mode_;
  std::map<Digest, Model> models_;
};

int64_t Catalogue::Model::EndOfListed() const {
  int64_t end = num_slots();
  while (end > 0 && !entries[static_cast<size_t>(end - 1)].has_value()) --end;
  return end;
}

Status Catalogue::Fill() {
  for (const auto& file : directory_.List()) {
    const auto fingerprint = DiskDirectory::SlabOf(file.name);
    if (!fingerprint.has_value()) continue;
    const auto header = SlotFiles::Identify(ops_, directory_, *fingerprint);
    // Nobody's: Collect removes it.
    if (!header.has_value()) continue;
    SlotContents contents;
    auto files = SlotFiles::Open(ops_, directory_, *header, files_mode(), UINT64_MAX, &contents);
    if (!files.ok()) return files.error();
    Model model = {.files = std::move(*files), .entries = std::move(contents.entries)};
    for (int64_t slot = 0; slot < model.num_slots(); ++slot) {
      auto& entry = model.entries[static_cast<size_t>(slot)];
      if (!entry.has_value() || model.by_name.emplace(entry->name, slot).second) continue;
      entry.reset();
      contents.unwritten.push_back(slot);
    }
    if (mode_ == CatalogueMode::kWrite) {
      for (const int64_t slot : contents.unwritten) {
        const auto& entry = model.entries[static_cast<size_t>(slot)];
        const int fault = model.files->WriteEntry(slot, entry.has_value() ? &*entry : nullptr);
        if (fault != 0) return Failed(fault);
      }
    }
    models_.emplace(*fingerprint, std::move(model));
  }
  return {};
}

Error Catalogue::Failed(int fault) const {
  return MakeError(fault == ENOSPC ? ErrorCode::kResourceExhausted : ErrorCode::kIo,
                   "{}: cannot be written: {}", directory_.path().string(), std::strerror(fault));
}

Status Catalogue::NeedsWrite() const {
  if (mode_ == CatalogueMode::kWrite) return {};
  return MakeError(ErrorCode::kInvalidArgument, "{}: was opened to be read",
                   directory_.path().string());
}

std::vector<CataloguedModel> Catalogue::models() const {
  std::vector<CataloguedModel> models;
  const auto files = directory_.List();
  for (const auto& [fingerprint, model] : models_) {
    CataloguedModel it = {.fingerprint = fingerprint,
                          .ingredients = model.files->header().ingredients,
                          .type = model.files->header().type,
                          .num_slots = model.num_slots()};
    for (const auto& entry : model.entries) {
      if (!entry.has_value()) continue;
      ++it.num_records;
      it.last_use_s = std::max(it.last_use_s, entry->last_use_s);
    }
    for (const auto& file : files) {
      const bool is_its = DiskDirectory::SlabOf(file.name) == fingerprint ||
                          DiskDirectory::IndexOf(file.name) == fingerprint;
      it.bytes += is_its ? file.bytes : 0;
    }
    models.push_back(std::move(it));
  }
  return models;
}

CataloguedRecord Catalogue::RecordOf(const Model& model, int64_t slot) const {
  const IndexEntry& entry = *model.entries[static_cast<size_t>(slot)];
  return {.fingerprint = model.files->header().fingerprint,
          .name = entry.name,
          .parent = entry.parent,
          .tenant = entry.tenant,
          .group = entry.group,
          .entry = entry.entry,
          .slot = slot,
          .last_use_s = entry.last_use_s,
          .hits = entry.hits,
          .bytes = model.files->slot_bytes()};
}

std::vector<CataloguedRecord> Catalogue::records() const {
  std::vector<CataloguedRecord> records;
  for (const auto& [fingerprint, model] : models_) {
    for (int64_t slot = 0; slot < model.num_slots(); ++slot) {
      if (model.entries[static_cast<size_t>(slot)].has_value()) {
        records.push_back(RecordOf(model, slot));
      }
    }
  }
  return records;
}

Result<Catalogue::Model*> Catalogue::Find(const CataloguedRecord& record) {
  const auto model = models_.find(record.fingerprint);
  const bool is_there =
      model != models_.end() && record.slot >= 0 && record.slot < model->second.num_slots() &&
      model->second.entries[static_cast<size_t>(record.slot)].has_value() &&
      model->second.entries[static_cast<size_t>(record.slot)]->name == record.name;
  if (!is_there) {
    return MakeError(ErrorCode::kNotFound, "{}: no such record", directory_.path().string());
  }
  return &model->second;
}

Result<std::vector<std::byte>> Catalogue::Read(const CataloguedRecord& record) {
  QUIRE_ASSIGN_OR_RETURN(Model * model, Find(record));
  std::vector<std::byte> bytes(model->entries[static_cast<size_t>(record.slot)]->record_bytes);
  const iovec part = PartOf(std::span<std::byte>(bytes));
  const RecordFault fault = model->files->Read(record.slot, {&part, 1});
  if (fault != RecordFault::kNone) {
    return MakeError(ErrorCode::kIo, "{}: slot {} of model {} cannot be read: {}",
                     directory_.path().string(), record.slot, ToHex(record.fingerprint),
                     NameOf(fault));
  }
  return bytes;
}

Result<std::vector<CatalogueFault>> Catalogue::Verify(
    const KeyRing* keys, const std::function<bool(int64_t done, int64_t total)>& progress) {
  std::vector<CatalogueFault> faults;
  const auto all = records();
  const auto total = static_cast<int64_t>(all.size());
  for (int64_t i = 0; i < total; ++i) {
    const CataloguedRecord& record = all[static_cast<size_t>(i)];
    const auto bytes = Read(record);
    RecordFault fault = RecordFault::kIo;
    if (bytes.ok()) {
      fault = VerifyRecord(*bytes, keys, SealDemand::kNone);
      RecordHead head;
      const bool is_read =
          fault == RecordFault::kNone && ReadHead(*bytes, &head) == RecordFault::kNone;
      if (is_read && head.fingerprint != record.fingerprint) fault = RecordFault::kOtherModel;
      if (is_read && head.name != record.name) fault = RecordFault::kOtherBlock;
    }
    if (fault != RecordFault::kNone) faults.push_back({.record = record, .fault = fault});
    if (progress && !progress(i + 1, total)) break;
  }
  return faults;
}

// Unlisted first; then what was there is written over, so that nobody finds it by its header, or
// reads it from the file.
Status Catalogue::RemoveOne(Model& model, int64_t slot) {
  auto& entry = model.entries[static_cast<size_t>(slot)];
  int fault = model.files->WriteEntry(slot, nullptr);
  if (fault == 0) fault = model.files->NextGeneration();
  if (fault == 0) fault = model.files->Write(slot, std::vector<std::byte>(entry->record_bytes));
  if (fault != 0) return Failed(fault);
  model.by_name.erase(entry->name);
  model.free_from = std::min(model.free_from, slot);
  entry.reset();
  return {};
}

Status Catalogue::Remove(const std::vector<CataloguedRecord>& records) {
  QUIRE_RETURN_IF_ERROR(NeedsWrite());
  for (const CataloguedRecord& record : records) {
    QUIRE_ASSIGN_OR_RETURN(Model * model, Find(record));
    QUIRE_RETURN_IF_ERROR(RemoveOne(*model, record.slot));
  }
  return {};
}

Result<Catalogue::Model*> Catalogue::ModelFor(const RecordHead& head, uint64_t record_bytes,
                                              uint64_t max_bytes) {
  const auto known = models_.find(head.fingerprint);
  if (known != models_.end()) {
    if (record_bytes > known->second.files->slot_bytes()) {
      return MakeError(ErrorCode::kUnsupported,
                       "a record of {} bytes does not fit the slots of {} bytes that its model "
                       "has in {}",
                       record_bytes, known->second.files->slot_bytes(), directory_.path().string());
    }
    return &known->second;
  }
  const uint64_t longest = std::max(record_bytes, kRecordHeaderBytes + head.payload_bytes);
  if (FingerprintOf(head.ingredients) != head.fingerprint || longest > kMaxSlotBytes) {
    return MakeError(ErrorCode::kCorrupt, "a record's header contradicts itself");
  }
  const IndexHeader header = {.fingerprint = head.fingerprint,
                              .ingredients = head.ingredients,
                              .type = head.type,
                              .slot_bytes = SlotBytesFor(longest)};
  const DiskSpace space(ops_, max_bytes, DiskTierOptions{}.min_free_bytes);
  if (space.Room(directory_, DiskSpace::Limit::kCapAndFree) <
      SlotFiles::BytesFor(1, header.slot_bytes)) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "{}: {} bytes, and 1 GiB that stays free on the file system, leave no "
                     "room for a record",
                     directory_.path().string(), max_bytes);
  }
  SlotContents contents;
  QUIRE_ASSIGN_OR_RETURN(
      auto files, SlotFiles::Open(ops_, directory_, header, files_mode(), UINT64_MAX, &contents));
  Model model = {.files = std::move(files), .entries = std::move(contents.entries)};
  return &models_.emplace(head.fingerprint, std::move(model)).first->second;
}

Result<int64_t> Catalogue::FreeSlot(Model& model, uint64_t max_bytes) {
  for (int64_t& slot = model.free_from; slot < model.num_slots(); ++slot) {
    if (!model.entries[static_cast<size_t>(slot)].has_value()) return slot;
  }
  const uint64_t slot_bytes = model.files->slot_bytes();
  const DiskSpace space(ops_, max_bytes, DiskTierOptions{}.min_free_bytes);
  const uint64_t room = space.Room(directory_, DiskSpace::Limit::kCapAndFree);
  const int64_t added = std::min(space.SlotsOfExtent(slot_bytes),
                                 static_cast<int64_t>(room / (slot_bytes + kIndexEntryBytes)));
  if (added == 0) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "{}: {} bytes, and 1 GiB that stays free on the file system, leave no "
                     "room for a record",
                     directory_.path().string(), max_bytes);
  }
  const int64_t slot = model.num_slots();
  if (const int fault = model.files->Grow(slot, slot + added); fault != 0) return Failed(fault);
  model.entries.resize(static_cast<size_t>(slot + added));
  return slot;
}

Result<bool> Catalogue::Add(std::span<const std::byte> record, uint64_t max_bytes) {
  QUIRE_RETURN_IF_ERROR(NeedsWrite());
  RecordHead head;
  const RecordFault fault = ReadHead(record, &head);
  if (fault != RecordFault::kNone) {
    return MakeError(ErrorCode::kCorrupt, "not a record: {}", NameOf(fault));
  }
  QUIRE_ASSIGN_OR_RETURN(Model * model, ModelFor(head, record.size(), max_bytes));
  if (model->by_name.contains(head.name)) return false;
  QUIRE_ASSIGN_OR_RETURN(const int64_t slot, FreeSlot(*model, max_bytes));
  IndexEntry entry = {.name = head.name,
                      .tenant = head.tenant,
                      .group = head.group,
                      .entry = head.entry,
                      .last_use_s = NowS(),
                      .record_bytes = static_cast<uint32_t>(record.size())};
  StoredBlock block;
  std::vector<std::byte> payload;
  // The names of sealed records are keyed: who loads one will tell what comes before it.
  if (!head.is_sealed && FingerprintOf(head.ingredients) == head.fingerprint &&
      OpenRecord(record, nullptr, SealDemand::kNone, &block, &payload) == RecordFault::kNone) {
    const StoredModel its_model = {
        .fingerprint = head.fingerprint,
        .ingredients = head.ingredients,
        .type = head.type,
        .group_bytes = std::vector<size_t>(static_cast<size_t>(head.group) + 1, payload.size())};
    entry.parent =
        RecordCodec(its_model, nullptr, false).NameOf({.id = block.parent, .group = block.group});
  }
  int failed = model->files->WriteEntry(slot, nullptr);
  if (failed == 0) failed = model->files->Write(slot, record);
  if (failed == 0) failed = model->files->WriteEntry(slot, &entry);
  if (failed == 0) failed = model->files->NextGeneration();
  if (failed != 0) return Failed(failed);
  model->entries[static_cast<size_t>(slot)] = entry;
  model->by_name[entry.name] = slot;
  return true;
}

Status Catalogue::RemoveModel(const Digest& fingerprint) {
  models_.erase(fingerprint);
  const int fault = SlotFiles::GiveUp(ops_, directory_, fingerprint, UINT64_MAX / 2);
  if (fault != 0) return Failed(fault);
  return {};
}

// Files of no model, and an index without its slab.
Status Catalogue::RemoveLeftovers() {
  for (const auto& file : directory_.List()) {
    auto fingerprint = DiskDirectory::SlabOf(file.name);
    if (!fingerprint.has_value()) fingerprint = DiskDirectory::IndexOf(file.name);
    if (fingerprint.has_value() && !models_.contains(*fingerprint) &&
        ops_.Unlink((directory_.path() / file.name).c_str()) != 0 && errno != ENOENT) {
      return Failed(errno);
    }
  }
  return {};
}

// Slots are given back from the end alone: records move from there to where it is free.
Status Catalogue::Compact(Model& model) {
  int64_t hole = 0;
  std::vector<std::byte> bytes;
  for (int64_t last = model.EndOfListed() - 1; last > hole; last = model.EndOfListed() - 1) {
    while (hole < last && model.entries[static_cast<size_t>(hole)].has_value()) ++hole;
    if (hole == last) break;
    const IndexEntry entry = *model.entries[static_cast<size_t>(last)];
    bytes.resize(entry.record_bytes);
    const iovec part = PartOf(std::span<std::byte>(bytes));
    int failed = model.files->Read(last, {&part, 1}) == RecordFault::kNone ? 0 : EIO;
    if (failed == 0) failed = model.files->Write(hole, bytes);
    if (failed == 0) failed = model.files->WriteEntry(last, nullptr);
    if (failed == 0) failed = model.files->WriteEntry(hole, &entry);
    if (failed == 0) failed = model.files->NextGeneration();
    if (failed != 0) return Failed(failed);
    model.entries[static_cast<size_t>(hole)] = entry;
    model.entries[static_cast<size_t>(last)].reset();
    model.by_name[entry.name] = hole;
  }
  return {};
}

// What was used longest ago goes, of a prompt its end first.
Status Catalogue::ShrinkTo(uint64_t max_bytes) {
  for (;;) {
    for (auto& [fingerprint, model] : models_) QUIRE_RETURN_IF_ERROR(Compact(model));
    QUIRE_RETURN_IF_ERROR(GiveBackTails());
    auto all = records();
    const uint64_t used = bytes();
    if (used <= max_bytes || all.empty()) return {};
    SortForRemoval(all);
    uint64_t given = 0;
    for (const CataloguedRecord& record : all) {
      if (given >= used - max_bytes) break;
      given += record.bytes;
      QUIRE_RETURN_IF_ERROR(RemoveOne(models_.at(record.fingerprint), record.slot));
    }
  }
}

// The free slots at the ends go back to the file system.
Status Catalogue::GiveBackTails() {
  for (auto& [fingerprint, model] : models_) {
    const int64_t end = model.EndOfListed();
    if (end == model.num_slots()) continue;
    if (const int fault = model.files->Shrink(end); fault != 0) return Failed(fault);
    model.entries.resize(static_cast<size_t>(end));
  }
  return {};
}

Result<uint64_t> Catalogue::Collect(const Digest* keep, uint64_t max_bytes) {
  QUIRE_RETURN_IF_ERROR(NeedsWrite());
  const uint64_t before = bytes();
  QUIRE_RETURN_IF_ERROR(RemoveLeftovers());
  if (keep != nullptr) {
    std::vector<Digest> others;
    for (const auto& [fingerprint, model] : models_) {
      if (fingerprint != *keep) others.push_back(fingerprint);
    }
    for (const Digest& fingerprint : others) QUIRE_RETURN_IF_ERROR(RemoveModel(fingerprint));
  }
  QUIRE_ASSIGN_OR_RETURN(const auto faults, Verify(nullptr, nullptr));
  for (const CatalogueFault& fault : faults) {
    QUIRE_ASSIGN_OR_RETURN(Model * model, Find(fault.record));
    QUIRE_RETURN_IF_ERROR(RemoveOne(*model, fault.record.slot));
  }
  QUIRE_RETURN_IF_ERROR(GiveBackTails());
  if (max_bytes > 0) QUIRE_RETURN_IF_ERROR(ShrinkTo(max_bytes));
  const uint64_t after = bytes();
  return before > after ? before - after : 0;
}

}  // namespace

Result<std::unique_ptr<DiskCatalogue>> DiskCatalogue::Open(const std::filesystem::path& directory,
                                                           CatalogueMode mode) {
  QUIRE_ASSIGN_OR_RETURN(DiskDirectory opened, DiskDirectory::Open(FileOps::System(), directory,
                                                                   DiskDirectory::Missing::kFail));
  if (mode == CatalogueMode::kWrite) QUIRE_RETURN_IF_ERROR(opened.Lock());
  auto catalogue = std::make_unique<Catalogue>(std::move(opened), mode);
  QUIRE_RETURN_IF_ERROR(catalogue->Fill());
  return std::unique_ptr<DiskCatalogue>(std::move(catalogue));
}

}  // namespace quire
