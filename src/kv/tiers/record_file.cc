#include "kv/tiers/record_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kv/tiers/record_layout.h"

namespace quire {
namespace {

constexpr std::array<uint8_t, 8> kFileMagic = {0x89, 'Q', 'K', 'X', '\r', '\n', 0x1a, '\n'};
constexpr uint32_t kFileVersion = 1;
constexpr uint32_t kFileSealed = 1;
// Before the digest of a file where it is sealed, so that no record's MAC can stand for it.
constexpr std::string_view kFilePurpose = "quire kv file 1";

struct FileHead {
  std::array<uint8_t, 8> magic = kFileMagic;
  uint32_t version = kFileVersion;
  uint32_t flags = 0;
  KeyId key{};
  uint64_t unused = 0;
};
static_assert(sizeof(FileHead) == 32);

// Stands where a record's length would: no record has that length.
constexpr uint64_t kEndMark = 0;

struct FileEnd {
  uint64_t num_records = 0;
  Digest proof{};  // of everything before it
};
static_assert(sizeof(FileEnd) == 40);

template <typename T>
std::span<const std::byte> BytesOf(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

// SHA-256 of all bytes before, or with a key a MAC over that.
Digest ProofOf(const Digest& digest, const KeyRing* keys, const KeyId& key) {
  if (keys == nullptr) return digest;
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(kFilePurpose)),
                                              std::as_bytes(std::span(digest))};
  return keys->Mac(key, parts);
}

Error SystemError(const std::filesystem::path& path, std::string_view what, int number) {
  const ErrorCode code = number == ENOENT                       ? ErrorCode::kNotFound
                         : number == ENOSPC || number == EDQUOT ? ErrorCode::kResourceExhausted
                                                                : ErrorCode::kIo;
  return MakeError(code, "{}: cannot {}: {}", path.string(), what, std::strerror(number));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { Close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }
  int Close() {
    const int result = fd_ < 0 ? 0 : ::close(fd_);
    fd_ = -1;
    return result;
  }

 private:
  int fd_;
};

class Writer : public RecordFileWriter {
 public:
  Writer(std::filesystem::path path, std::filesystem::path temporary, int fd,
         std::shared_ptr<const KeyRing> keys)
      : path_(std::move(path)),
        temporary_(std::move(temporary)),
        file_(fd),
        keys_(std::move(keys)) {}
  ~Writer() override {
    if (!is_published_) ::unlink(temporary_.c_str());
  }

  Status Begin() {
    FileHead head;
    if (keys_ != nullptr) {
      head.flags = kFileSealed;
      head.key = keys_->id();
    }
    return Append(BytesOf(head));
  }

  Status Add(std::span<const std::byte> record) override {
    RecordHead head;
    const RecordFault fault = ReadHead(record, &head);
    if (fault != RecordFault::kNone || record.size() != kRecordHeaderBytes + head.body_bytes) {
      return MakeError(ErrorCode::kInvalidArgument, "{}: {} bytes that are no record ({})",
                       path_.string(), record.size(), quire::NameOf(fault));
    }
    if (keys_ != nullptr && !head.is_sealed) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "{}: a record without a seal in a sealed file; seal it first",
                       path_.string());
    }
    const uint64_t length = record.size();
    QUIRE_RETURN_IF_ERROR(Append(BytesOf(length)));
    QUIRE_RETURN_IF_ERROR(Append(record));
    ++num_records_;
    return {};
  }

  Status Finish() override {
    QUIRE_RETURN_IF_ERROR(Append(BytesOf(kEndMark)));
    QUIRE_RETURN_IF_ERROR(Append(BytesOf(num_records_)));
    const Digest proof = ProofOf(digest_.Finish(), keys_.get(), keys_ ? keys_->id() : KeyId{});
    QUIRE_RETURN_IF_ERROR(Write(BytesOf(proof)));
    if (::fsync(file_.get()) != 0) return SystemError(path_, "write", errno);
    if (file_.Close() != 0) return SystemError(path_, "write", errno);
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
      return SystemError(path_, "give the file its name", errno);
    }
    is_published_ = true;
    // The name, too, is to outlast the machine.
    const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
    const Descriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory.get() >= 0) ::fsync(directory.get());
    return {};
  }

 private:
  Status Append(std::span<const std::byte> bytes) {
    QUIRE_CHECK(file_.get() >= 0, "a file that is finished");
    digest_.Add(bytes);
    return Write(bytes);
  }

  Status Write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return SystemError(path_, "write", written < 0 ? errno : EIO);
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return {};
  }

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  Descriptor file_;
  std::shared_ptr<const KeyRing> keys_;
  Sha256 digest_;
  uint64_t num_records_ = 0;
  bool is_published_ = false;
};

// Reads a file from front to back, and hashes what it has read.
class Reader {
 public:
  Reader(const std::filesystem::path& path, int fd, uint64_t size)
      : path_(path), file_(fd), left_(size) {}

  uint64_t left() const { return left_; }

  // False: the file ends before. It may shrink while it is read.
  Result<bool> Read(std::span<std::byte> bytes) {
    if (bytes.size() > left_) return false;
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t got = ::read(file_.get(), bytes.data() + done, bytes.size() - done);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return SystemError(path_, "read", errno);
      if (got == 0) return false;
      done += static_cast<size_t>(got);
    }
    left_ -= bytes.size();
    return true;
  }

  // As Read, of what the proof at the end covers.
  Result<bool> ReadProven(std::span<std::byte> bytes) {
    auto is_there = Read(bytes);
    if (is_there.ok() && *is_there) digest_.Add(bytes);
    return is_there;
  }

  Digest FinishDigest() { return digest_.Finish(); }

 private:
  const std::filesystem::path& path_;
  Descriptor file_;
  uint64_t left_;
  Sha256 digest_;
};

template <typename T>
std::span<std::byte> RoomOf(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

Status CheckFileHead(const std::filesystem::path& path, const FileHead& head, const KeyRing* keys) {
  if (head.magic != kFileMagic) {
    return MakeError(ErrorCode::kCorrupt, "{}: not a file that quire cache export wrote",
                     path.string());
  }
  if (head.version != kFileVersion || (head.flags & ~kFileSealed) != 0 || head.unused != 0) {
    return MakeError(ErrorCode::kUnsupported,
                     "{}: version {} (flags {:#x}) of the format; this program reads version {}",
                     path.string(), head.version, head.flags, kFileVersion);
  }
  const bool is_sealed = (head.flags & kFileSealed) != 0;
  if (is_sealed && keys != nullptr && !keys->Knows(head.key)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{}: sealed with a key that is not in the key file; add that key to it",
                     path.string());
  }
  return {};
}

// Whether the end fits what came before; `num_records` as counted.
Result<bool> CheckEnd(Reader& reader, const FileHead& head, uint64_t num_records,
                      const KeyRing* keys) {
  FileEnd end;
  QUIRE_ASSIGN_OR_RETURN(const bool has_count, reader.ReadProven(RoomOf(end.num_records)));
  QUIRE_ASSIGN_OR_RETURN(const bool has_proof, reader.Read(RoomOf(end.proof)));
  if (!has_count || !has_proof || reader.left() != 0 || end.num_records != num_records) {
    return false;
  }
  const bool is_sealed = (head.flags & kFileSealed) != 0;
  if (is_sealed && keys == nullptr) return true;  // as far as can be told without the key
  if (!is_sealed && keys != nullptr) return false;
  return KeyRing::Equal(ProofOf(reader.FinishDigest(), keys, head.key), end.proof);
}

}  // namespace

Result<std::unique_ptr<RecordFileWriter>> RecordFileWriter::Create(
    const std::filesystem::path& path, std::shared_ptr<const KeyRing> keys) {
  // A name that nobody else takes, in the same folder: only there can it be renamed in one piece.
  std::string temporary = path.string() + ".XXXXXX";
  const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return SystemError(path, "create a file beside it", errno);
  auto writer = std::make_unique<Writer>(path, temporary, fd, std::move(keys));
  QUIRE_RETURN_IF_ERROR(writer->Begin());
  return std::unique_ptr<RecordFileWriter>(std::move(writer));
}

Result<RecordFileSummary> ReadRecordFile(
    const std::filesystem::path& path, const KeyRing* keys, SealDemand demand,
    const std::function<bool(std::span<const std::byte> record)>& take) {
  // Not waiting: a pipe has no end to be proven.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return SystemError(path, "open", errno);
  struct stat status{};
  const bool is_file = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  Reader reader(path, fd, is_file ? static_cast<uint64_t>(status.st_size) : 0);
  if (!is_file) {
    return MakeError(ErrorCode::kInvalidArgument, "{}: expected an ordinary file", path.string());
  }
  FileHead head;
  QUIRE_ASSIGN_OR_RETURN(const bool has_head, reader.ReadProven(RoomOf(head)));
  if (!has_head) head.magic = {};
  QUIRE_RETURN_IF_ERROR(CheckFileHead(path, head, keys));
  // Whoever has a key takes nothing that is not sealed.
  if (keys != nullptr) demand = SealDemand::kDemanded;

  RecordFileSummary summary;
  std::vector<std::byte> record;
  while (true) {
    uint64_t length = 0;
    QUIRE_ASSIGN_OR_RETURN(const bool has_length, reader.ReadProven(RoomOf(length)));
    if (!has_length) return summary;
    if (length == kEndMark) break;
    // Nothing tells where the next record begins.
    if (length < kRecordHeaderBytes || length > kMaxRecordBytes || length > reader.left()) {
      ++summary.num_bad;
      return summary;
    }
    record.resize(length);
    QUIRE_ASSIGN_OR_RETURN(const bool is_there, reader.ReadProven(record));
    if (!is_there) return summary;
    if (VerifyRecord(record, keys, demand) != RecordFault::kNone) {
      ++summary.num_bad;
      continue;
    }
    ++summary.num_records;
    if (!take(record)) return summary;
  }
  const auto num_all = static_cast<uint64_t>(summary.num_records + summary.num_bad);
  QUIRE_ASSIGN_OR_RETURN(summary.is_whole, CheckEnd(reader, head, num_all, keys));
  return summary;
}

}  // namespace quire
