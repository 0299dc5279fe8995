#include "kv/tiers/disk/slot_files.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "kv/tiers/record_codec.h"

namespace quire {
namespace {

// Entries are read and written so many at once.
constexpr int64_t kEntriesAtOnce = 8192;
// A gibibyte of a file whose index is gone is looked through for a record.
constexpr int kIdentifyProbes = 1 << 18;

uint64_t IndexBytes(int64_t num_slots) {
  return kIndexHeaderBytes + static_cast<uint64_t>(num_slots) * kIndexEntryBytes;
}
uint64_t EntryOffset(int64_t slot) { return IndexBytes(slot); }

Error FileError(const std::filesystem::path& path, std::string_view what, int fault) {
  return MakeError(ErrorCode::kIo, "{}: cannot be {}: {}", path.string(), what,
                   fault == kShortFile ? "too short" : std::strerror(fault));
}

// Not through a link, and never waiting: what is not a plain file is refused.
Result<OpenFile> OpenPlain(FileOps& ops, const std::filesystem::path& path, int flags) {
  OpenFile file(ops, ops.Open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  struct stat facts{};
  if (!file.is_open() || ops.Stat(file.fd(), &facts) != 0) {
    const int fault = errno;
    if (fault == ENOENT) return MakeError(ErrorCode::kNotFound, "{}: not there", path.string());
    return FileError(path, "opened", fault);
  }
  if (!S_ISREG(facts.st_mode)) {
    return MakeError(ErrorCode::kIo, "{}: not a plain file; move it away", path.string());
  }
  return file;
}

std::optional<IndexHeader> ReadIndexHeader(FileOps& ops, int fd, FaultCounts* faults) {
  std::vector<std::byte> bytes(kIndexHeaderBytes);
  const iovec part = PartOf(std::span<std::byte>(bytes));
  const int fault = ReadFully(ops, fd, {&part, 1}, 0);
  if (fault > 0 && faults != nullptr) ++(*faults)[static_cast<size_t>(RecordFault::kIo)];
  if (fault != 0) return std::nullopt;
  return DecodeIndexHeader(bytes);
}

}  // namespace

uint64_t SlotFiles::BytesFor(int64_t num_slots, uint64_t slot_bytes) {
  return IndexBytes(num_slots) + static_cast<uint64_t>(num_slots) * slot_bytes;
}

Status SlotFiles::OpenBoth(const DiskDirectory& directory, SlotFilesMode mode) {
  const int flags = mode == SlotFilesMode::kWrite ? O_RDWR | O_CREAT : O_RDONLY;
  slab_path_ = directory.SlabPath(header_.fingerprint);
  QUIRE_ASSIGN_OR_RETURN(slab_, OpenPlain(ops_, slab_path_, flags));
  index_path_ = directory.IndexPath(header_.fingerprint);
  auto index = OpenPlain(ops_, index_path_, flags);
  if (index.ok()) {
    index_ = std::move(*index);
  } else if (mode == SlotFilesMode::kWrite || index.error().code != ErrorCode::kNotFound) {
    return index.error();
  }
  return {};
}

Result<int64_t> SlotFiles::CountSlots(SlotFilesMode mode, uint64_t max_slab_bytes) {
  struct stat facts{};
  if (ops_.Stat(slab_.fd(), &facts) != 0) return FileError(slab_path_, "looked at", errno);
  const auto length = static_cast<uint64_t>(std::max<off_t>(facts.st_size, 0));
  const uint64_t usable = std::min(length, max_slab_bytes);
  const auto num_slots =
      static_cast<int64_t>(std::min(usable / slot_bytes(), static_cast<uint64_t>(kMaxSlots)));
  const uint64_t whole = static_cast<uint64_t>(num_slots) * slot_bytes();
  if (mode == SlotFilesMode::kWrite && whole != length &&
      ops_.Truncate(slab_.fd(), static_cast<off_t>(whole)) != 0) {
    return FileError(slab_path_, "cut", errno);
  }
  return num_slots;
}

std::optional<IndexEntry> SlotFiles::EntryOfSlot(int64_t slot, double last_use_s,
                                                 FaultCounts* faults) const {
  std::array<std::byte, kRecordHeaderBytes> bytes;
  const iovec part = PartOf(std::span<std::byte>(bytes));
  RecordFault fault = Read(slot, {&part, 1});
  const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
  if (fault == RecordFault::kNone && std::all_of(bytes.begin(), bytes.end(), is_zero)) {
    return std::nullopt;
  }
  RecordHead head;
  if (fault == RecordFault::kNone) fault = ReadHead(bytes, &head);
  if (fault == RecordFault::kNone && head.fingerprint != header_.fingerprint) {
    fault = RecordFault::kOtherModel;
  }
  if (fault == RecordFault::kNone && head.body_bytes > slot_bytes() - kRecordHeaderBytes) {
    fault = RecordFault::kTruncated;
  }
  if (fault != RecordFault::kNone) {
    ++(*faults)[static_cast<size_t>(fault)];
    return std::nullopt;
  }
  return IndexEntry{.name = head.name,
                    .parent = {},
                    .tenant = head.tenant,
                    .group = head.group,
                    .entry = head.entry,
                    .last_use_s = last_use_s,
                    .record_bytes = static_cast<uint32_t>(kRecordHeaderBytes + head.body_bytes)};
}

void SlotFiles::ReadEntries(int64_t num_slots, bool has_header, SlotContents* contents) const {
  struct stat facts{};
  const bool is_known = ops_.Stat(slab_.fd(), &facts) == 0;
  const double slab_time_s = is_known ? static_cast<double>(facts.st_mtim.tv_sec) : 0;
  contents->entries.assign(static_cast<size_t>(num_slots), std::nullopt);
  std::vector<std::byte> bytes;
  for (int64_t begin = 0; begin < num_slots; begin += kEntriesAtOnce) {
    const int64_t end = std::min(num_slots, begin + kEntriesAtOnce);
    bytes.assign(static_cast<size_t>(end - begin) * kIndexEntryBytes, std::byte{0xFF});
    const iovec part = PartOf(std::span<std::byte>(bytes));
    // What lies beyond the end, or cannot be read, stays as bytes that are no entry.
    if (has_header && ReadFully(ops_, index_.fd(), {&part, 1}, EntryOffset(begin)) > 0) {
      ++contents->faults[static_cast<size_t>(RecordFault::kIo)];
    }
    for (int64_t slot = begin; slot < end; ++slot) {
      const std::span<const std::byte, kIndexEntryBytes> entry_bytes(
          bytes.data() + static_cast<size_t>(slot - begin) * kIndexEntryBytes, kIndexEntryBytes);
      std::optional<IndexEntry>& entry = contents->entries[static_cast<size_t>(slot)];
      IndexEntry listed;
      EntryState state = DecodeIndexEntry(entry_bytes, header_.fingerprint, slot, &listed);
      if (state == EntryState::kListed && listed.record_bytes > slot_bytes()) {
        state = EntryState::kDamaged;
      }
      if (state == EntryState::kListed) entry = listed;
      if (state != EntryState::kDamaged) continue;
      if (has_header) ++contents->faults[static_cast<size_t>(RecordFault::kChecksum)];
      entry = EntryOfSlot(slot, slab_time_s, &contents->faults);
      contents->unwritten.push_back(slot);
    }
  }
}

Status SlotFiles::WriteAnew(int64_t num_slots, SlotContents* contents) {
  // Without a header the entries do not count: it comes last.
  const std::filesystem::path& path = index_path_;
  if (ops_.Truncate(index_.fd(), 0) != 0) return FileError(path, "written", errno);
  const auto length = static_cast<off_t>(IndexBytes(num_slots));
  if (const int fault = ops_.Allocate(index_.fd(), 0, length); fault != 0) {
    return FileError(path, "written", fault);
  }
  for (int64_t slot = 0; slot < num_slots; ++slot) {
    const auto& entry = contents->entries[static_cast<size_t>(slot)];
    if (!entry.has_value()) continue;
    if (const int fault = WriteEntry(slot, &*entry); fault != 0) {
      return FileError(path, "written", fault);
    }
  }
  contents->unwritten.clear();
  std::vector<std::byte> bytes(kIndexHeaderBytes);
  EncodeIndexHeader(header_, std::span<std::byte, kIndexHeaderBytes>(bytes));
  const iovec part = PartOf(std::span<const std::byte>(bytes));
  if (const int fault = WriteFully(ops_, index_.fd(), {&part, 1}, 0); fault != 0) {
    return FileError(path, "written", fault);
  }
  // Of another beginning than that of the index before it, which a reader may have seen.
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  generation_ = static_cast<uint64_t>(now.count());
  if (const int fault = NextGeneration(); fault != 0) return FileError(path, "written", fault);
  return {};
}

// An index that was harmed or cut says again what the slots hold, and is as long as they need.
Status SlotFiles::Mend(int64_t num_slots, SlotContents* contents) {
  // In ascending order: what lies behind its end is known to be unknown.
  std::vector<int64_t> unwritten;
  int fault = 0;
  for (const int64_t slot : contents->unwritten) {
    const auto& entry = contents->entries[static_cast<size_t>(slot)];
    if (fault == 0) fault = WriteEntry(slot, entry.has_value() ? &*entry : nullptr);
    if (fault != 0) unwritten.push_back(slot);
  }
  contents->unwritten = std::move(unwritten);
  struct stat index{};
  if (ops_.Stat(index_.fd(), &index) != 0) return FileError(index_path_, "looked at", errno);
  const auto length = static_cast<off_t>(IndexBytes(num_slots));
  if (index.st_size > length && ops_.Truncate(index_.fd(), length) != 0) {
    return FileError(index_path_, "cut", errno);
  }
  // One that could not be mended stays short, so that the next to open it knows.
  if (fault != 0) return {};
  fault = Grow(num_slots, num_slots);
  if (fault != 0) return FileError(index_path_, "extended", fault);
  return {};
}

Result<std::shared_ptr<SlotFiles>> SlotFiles::Open(FileOps& ops, const DiskDirectory& directory,
                                                   const IndexHeader& wanted, SlotFilesMode mode,
                                                   uint64_t max_slab_bytes,
                                                   SlotContents* contents) {
  *contents = {};
  std::shared_ptr<SlotFiles> files(new SlotFiles(ops, wanted));
  QUIRE_RETURN_IF_ERROR(files->OpenBoth(directory, mode));
  const auto header = files->has_index()
                          ? ReadIndexHeader(ops, files->index_.fd(), &contents->faults)
                          : std::nullopt;
  bool has_header = header.has_value() && header->fingerprint == wanted.fingerprint;
  if (has_header && header->slot_bytes < wanted.slot_bytes) {
    // Slots too small for this model's records: nothing in them is of use.
    if (mode == SlotFilesMode::kRead) return MakeError(ErrorCode::kCorrupt, "slots too small");
    max_slab_bytes = 0;
    has_header = false;
  }
  if (has_header) files->header_ = *header;
  QUIRE_ASSIGN_OR_RETURN(const int64_t num_slots, files->CountSlots(mode, max_slab_bytes));
  files->ReadEntries(num_slots, has_header, contents);
  if (mode == SlotFilesMode::kWrite) {
    const Status status =
        has_header ? files->Mend(num_slots, contents) : files->WriteAnew(num_slots, contents);
    if (!status.ok()) return status.error();
  }
  if (files->has_index()) files->generation_ = files->Generation().value_or(0);
  return files;
}

std::optional<IndexHeader> SlotFiles::Identify(FileOps& ops, const DiskDirectory& directory,
                                               const Digest& fingerprint) {
  auto index = OpenPlain(ops, directory.IndexPath(fingerprint), O_RDONLY);
  if (index.ok()) {
    const auto header = ReadIndexHeader(ops, index->fd(), nullptr);
    if (header.has_value() && header->fingerprint == fingerprint) return header;
  }
  const auto slab = OpenPlain(ops, directory.SlabPath(fingerprint), O_RDONLY);
  if (!slab.ok()) return std::nullopt;
  std::array<std::byte, kRecordHeaderBytes> bytes;
  const iovec part = PartOf(std::span<std::byte>(bytes));
  RecordHead head;
  // The first slots may be free: slots begin at multiples of kSlotAlignment, whatever their size.
  for (int probe = 0; probe < kIdentifyProbes; ++probe) {
    const auto offset = static_cast<off_t>(probe) * static_cast<off_t>(kSlotAlignment);
    if (ReadFully(ops, slab->fd(), {&part, 1}, offset) != 0) return std::nullopt;
    if (ReadHead(bytes, &head) != RecordFault::kNone) continue;
    const bool is_sane = head.fingerprint == fingerprint &&
                         FingerprintOf(head.ingredients) == fingerprint &&
                         head.payload_bytes < kMaxSlotBytes - kRecordHeaderBytes;
    if (!is_sane) continue;
    return IndexHeader{.fingerprint = fingerprint,
                       .ingredients = head.ingredients,
                       .type = head.type,
                       .slot_bytes = SlotBytesFor(kRecordHeaderBytes + head.payload_bytes)};
  }
  return std::nullopt;
}

int SlotFiles::GiveUp(FileOps& ops, const DiskDirectory& directory, const Digest& fingerprint,
                      uint64_t num_bytes) {
  const auto header = Identify(ops, directory, fingerprint);
  const std::filesystem::path slab_path = directory.SlabPath(fingerprint);
  if (header.has_value()) {
    SlotFiles files(ops, *header);
    struct stat facts{};
    const bool is_open = files.OpenBoth(directory, SlotFilesMode::kWrite).ok() &&
                         ops.Stat(files.slab_.fd(), &facts) == 0;
    const uint64_t slots_given = (num_bytes + header->slot_bytes - 1) / header->slot_bytes;
    const uint64_t num_slots = static_cast<uint64_t>(facts.st_size) / header->slot_bytes;
    if (is_open && num_slots > slots_given && num_slots < static_cast<uint64_t>(kMaxSlots)) {
      const int fault = files.Shrink(static_cast<int64_t>(num_slots - slots_given));
      // Nobody has used the model: its time stays.
      const timespec times[2] = {facts.st_atim, facts.st_mtim};
      (void)::utimensat(AT_FDCWD, slab_path.c_str(), times, AT_SYMLINK_NOFOLLOW);
      (void)::utimensat(AT_FDCWD, directory.IndexPath(fingerprint).c_str(), times,
                        AT_SYMLINK_NOFOLLOW);
      return fault;
    }
  }
  // The slab last: without it the index means nothing.
  const int index_fault = ops.Unlink(directory.IndexPath(fingerprint).c_str()) != 0 ? errno : 0;
  if (index_fault != 0 && index_fault != ENOENT) return index_fault;
  const int slab_fault = ops.Unlink(slab_path.c_str()) != 0 ? errno : 0;
  return slab_fault == ENOENT ? 0 : slab_fault;
}

SlotFiles::Condition SlotFiles::Look(int64_t num_slots, int64_t* num_whole) const {
  struct stat slab{};
  struct stat index{};
  *num_whole = 0;
  if (ops_.Stat(slab_.fd(), &slab) != 0 || ops_.Stat(index_.fd(), &index) != 0) {
    return Condition::kGone;
  }
  if (slab.st_nlink == 0 || index.st_nlink == 0) return Condition::kGone;
  const auto length = static_cast<uint64_t>(std::max<off_t>(slab.st_size, 0));
  *num_whole = std::min(num_slots, static_cast<int64_t>(length / slot_bytes()));
  const auto index_length = static_cast<uint64_t>(std::max<off_t>(index.st_size, 0));
  if (index_length < IndexBytes(num_slots) || *num_whole < num_slots) return Condition::kCut;
  const bool is_long = index_length > IndexBytes(num_slots) ||
                       length > static_cast<uint64_t>(num_slots) * slot_bytes();
  return is_long ? Condition::kLong : Condition::kWhole;
}

bool SlotFiles::IsInPlace() const {
  const auto is_same = [](int fd, const std::filesystem::path& path) {
    struct stat open{};
    struct stat there{};
    return ::fstat(fd, &open) == 0 && ::lstat(path.c_str(), &there) == 0 &&
           open.st_ino == there.st_ino && open.st_dev == there.st_dev;
  };
  return is_same(slab_.fd(), slab_path_) && is_same(index_.fd(), index_path_);
}

std::optional<uint64_t> SlotFiles::Generation() const {
  uint64_t generation = 0;
  const iovec part = {.iov_base = &generation, .iov_len = sizeof(generation)};
  const int fault = ReadFully(ops_, index_.fd(), {&part, 1}, kIndexGenerationOffset);
  return fault == 0 ? std::optional(generation) : std::nullopt;
}

RecordFault SlotFiles::Read(int64_t slot, std::span<const iovec> parts) const {
  const int fault = ReadFully(ops_, slab_.fd(), parts, static_cast<uint64_t>(slot) * slot_bytes());
  if (fault == kShortFile) return RecordFault::kTruncated;
  return fault == 0 ? RecordFault::kNone : RecordFault::kIo;
}

int SlotFiles::Write(int64_t slot, std::span<const std::byte> record) {
  return Write(slot, record, {});
}

int SlotFiles::Write(int64_t slot, std::span<const std::byte> header,
                     std::span<const std::byte> body) {
  static constexpr std::array<std::byte, kSlotAlignment> kZeros{};
  const size_t size = header.size() + body.size();
  QUIRE_CHECK(size <= slot_bytes(), "{} bytes in a slot of {}", size, slot_bytes());
  // To the end of its last page, so that the system need not read what was there.
  const size_t padding = (kSlotAlignment - size % kSlotAlignment) % kSlotAlignment;
  const std::array<iovec, 3> parts = {PartOf(header), PartOf(body),
                                      PartOf(std::span<const std::byte>(kZeros).first(padding))};
  return WriteFully(ops_, slab_.fd(), parts, static_cast<uint64_t>(slot) * slot_bytes());
}

int SlotFiles::WriteEntry(int64_t slot, const IndexEntry* entry) {
  std::array<std::byte, kIndexEntryBytes> bytes{};
  if (entry != nullptr) EncodeIndexEntry(*entry, header_.fingerprint, slot, bytes);
  const iovec part = PartOf(std::span<const std::byte>(bytes));
  return WriteFully(ops_, index_.fd(), {&part, 1}, EntryOffset(slot));
}

int SlotFiles::NextGeneration() {
  ++generation_;
  const iovec part = {.iov_base = &generation_, .iov_len = sizeof(generation_)};
  return WriteFully(ops_, index_.fd(), {&part, 1}, kIndexGenerationOffset);
}

int SlotFiles::Sync() {
  if (ops_.Sync(slab_.fd()) != 0) return errno;
  return ops_.Sync(index_.fd()) != 0 ? errno : 0;
}

int SlotFiles::Grow(int64_t from, int64_t to) {
  QUIRE_CHECK(from <= to, "from {} slots to {}", from, to);
  struct stat index{};
  if (ops_.Stat(index_.fd(), &index) != 0) return errno;
  // The index first: it has an entry for each slot at any moment.
  const uint64_t index_bytes = IndexBytes(to);
  if (static_cast<uint64_t>(index.st_size) < index_bytes) {
    const off_t added = static_cast<off_t>(index_bytes) - index.st_size;
    if (const int fault = ops_.Allocate(index_.fd(), index.st_size, added); fault != 0) {
      if (ops_.Truncate(index_.fd(), index.st_size) != 0) return errno;
      return fault;
    }
  }
  if (from == to) return 0;
  const auto begin = static_cast<off_t>(static_cast<uint64_t>(from) * slot_bytes());
  const auto length = static_cast<off_t>(static_cast<uint64_t>(to - from) * slot_bytes());
  if (const int fault = ops_.Allocate(slab_.fd(), begin, length); fault != 0) {
    if (ops_.Truncate(slab_.fd(), begin) != 0) return errno;
    (void)ops_.Truncate(index_.fd(), index.st_size);
    return fault;
  }
  return 0;
}

int SlotFiles::Shrink(int64_t to) {
  if (ops_.Truncate(index_.fd(), static_cast<off_t>(IndexBytes(to))) != 0) return errno;
  const auto length = static_cast<off_t>(static_cast<uint64_t>(to) * slot_bytes());
  return ops_.Truncate(slab_.fd(), length) != 0 ? errno : 0;
}

}  // namespace quire
