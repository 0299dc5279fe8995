#include "kv/tiers/disk/disk_model.h"

#include <algorithm>
#include <set>
#include <utility>

namespace quire {
namespace {

// Of all other models together: who wants to know why a prompt missed need not know all of them.
constexpr size_t kMaxNamesBeside = size_t{1} << 20;

std::string_view DifferenceBetween(const FingerprintInput& a, const FingerprintInput& b) {
  if (a.weights != b.weights) return "weights";
  if (a.architecture != b.architecture) return "architecture";
  if (a.layout != b.layout) return "kv_type or layout";
  return "numerics";
}

}  // namespace

DiskModel::DiskModel(const RecordCodec& codec, const DiskTierOptions& options, FileOps& ops,
                     DiskDirectory directory)
    : ops_(&ops),
      path_(options.directory),
      directory_(std::move(directory)),
      space_(ops, options.max_bytes, options.min_free_bytes),
      header_({.fingerprint = codec.model().fingerprint,
               .ingredients = codec.model().ingredients,
               .type = codec.model().type,
               .slot_bytes = SlotBytesFor(codec.MaxRecordBytes())}),
      max_bytes_(options.max_bytes) {}

Result<DiskModel> DiskModel::Open(const RecordCodec& codec, const DiskTierOptions& options) {
  FileOps& ops = options.files != nullptr ? *options.files : FileOps::System();
  if (SlotBytesFor(codec.MaxRecordBytes()) > kMaxSlotBytes) {
    return MakeError(ErrorCode::kUnsupported, "blocks of {} bytes are too long for the disk tier",
                     codec.MaxRecordBytes());
  }
  const auto missing =
      options.read_only ? DiskDirectory::Missing::kFail : DiskDirectory::Missing::kMake;
  QUIRE_ASSIGN_OR_RETURN(DiskDirectory directory,
                         DiskDirectory::Open(ops, options.directory, missing));
  DiskModel model(codec, options, ops, std::move(directory));
  if (!model.directory_.is_private() && !options.trust_directory) {
    if (!codec.has_key()) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "{}: others than this user may enter this KV directory, so what lies in it "
                       "is not trusted; chmod 700 it, or seal records with --kv-key-file",
                       options.directory.string());
    }
    model.demand_ = SealDemand::kDemanded;
  }
  if (!options.read_only) QUIRE_RETURN_IF_ERROR(model.directory_.Lock());
  return model;
}

Status DiskModel::BecomeWriter() {
  if (directory_.HoldsLock()) return {};
  QUIRE_ASSIGN_OR_RETURN(directory_,
                         DiskDirectory::Open(*ops_, path_, DiskDirectory::Missing::kMake));
  return directory_.Lock();
}

// An index without its slab lists nothing.
void DiskModel::RemoveLeftovers() const {
  std::set<Digest> slabs;
  const auto files = directory_.List();
  for (const auto& file : files) {
    if (const auto fingerprint = DiskDirectory::SlabOf(file.name)) slabs.insert(*fingerprint);
  }
  for (const auto& file : files) {
    const auto fingerprint = DiskDirectory::IndexOf(file.name);
    if (fingerprint.has_value() && !slabs.contains(*fingerprint)) {
      (void)ops_->Unlink((directory_.path() / file.name).c_str());
    }
  }
}

Result<DiskModel::Opened> DiskModel::OpenToWrite() {
  QUIRE_RETURN_IF_ERROR(BecomeWriter());
  RemoveLeftovers();
  const uint64_t least = SlotFiles::BytesFor(1, header_.slot_bytes);
  uint64_t max_slab_bytes = 0;
  for (;;) {
    max_slab_bytes = space_.MaxSlabBytes(directory_, header_.fingerprint, header_.slot_bytes);
    const bool has_room = max_slab_bytes >= header_.slot_bytes && !space_.IsOver(directory_);
    if (has_room) break;
    const auto extent = static_cast<uint64_t>(space_.SlotsOfExtent(header_.slot_bytes));
    if (space_.TakeFromOthers(directory_, header_.fingerprint, extent * least)) {
      continue;
    }
    if (max_slab_bytes >= header_.slot_bytes) break;
    return MakeError(ErrorCode::kResourceExhausted,
                     "{}: {} bytes (--kv-disk-max) hold no block of this model beside the other "
                     "files of the directory; expected at least {} bytes more than these take",
                     path_.string(), max_bytes_, least + DiskSpace::kMargin);
  }
  Opened opened;
  QUIRE_ASSIGN_OR_RETURN(opened.files,
                         SlotFiles::Open(*ops_, directory_, header_, SlotFilesMode::kWrite,
                                         max_slab_bytes, &opened.contents));
  return opened;
}

Result<DiskModel::Opened> DiskModel::OpenToRead() {
  Opened opened;
  QUIRE_ASSIGN_OR_RETURN(
      opened.files, SlotFiles::Open(*ops_, directory_, header_, SlotFilesMode::kRead, UINT64_MAX,
                                    &opened.contents));
  return opened;
}

std::vector<ModelBeside> DiskModel::ReadOthers() const {
  std::vector<ModelBeside> others;
  size_t num_names = 0;
  for (const auto& file : directory_.List()) {
    const auto fingerprint = DiskDirectory::SlabOf(file.name);
    if (!fingerprint.has_value() || *fingerprint == header_.fingerprint) continue;
    const auto header = SlotFiles::Identify(*ops_, directory_, *fingerprint);
    if (!header.has_value()) continue;
    SlotContents contents;
    const auto files =
        SlotFiles::Open(*ops_, directory_, *header, SlotFilesMode::kRead, UINT64_MAX, &contents);
    if (!files.ok()) continue;
    ModelBeside other = {.fingerprint = *fingerprint,
                         .difference = DifferenceBetween(header->ingredients, header_.ingredients)};
    for (const auto& entry : contents.entries) {
      if (!entry.has_value() || entry->group != 0 || num_names >= kMaxNamesBeside) continue;
      other.names.push_back(entry->name);
      ++num_names;
    }
    std::sort(other.names.begin(), other.names.end());
    if (!other.names.empty()) others.push_back(std::move(other));
  }
  return others;
}

}  // namespace quire
