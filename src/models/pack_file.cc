// The pack file of models/pack.h; docs/pack-format.md describes the bytes.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/bytes.h"
#include "base/thread_pool.h"
#include "models/pack.h"

namespace quire {
namespace {

constexpr std::string_view kMagic = "QUIREPK1";
constexpr size_t kDataAlignment = 4096;
constexpr size_t kPieceBytes = size_t{8} << 20;

// Closes on destruction.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

Error SystemError(const std::filesystem::path& path, std::string_view action) {
  const ErrorCode code = errno == ENOENT   ? ErrorCode::kNotFound
                         : errno == ENOSPC ? ErrorCode::kResourceExhausted
                                           : ErrorCode::kIo;
  return MakeError(code, "{}: cannot {}: {}", path.string(), action, std::strerror(errno));
}

template <typename T>
void Append(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Everything that says which tensors the data holds and where: equal plans, equal bytes.
std::string Directory(const WeightPlan& plan) {
  std::string out;
  Append(out, static_cast<uint64_t>(plan.weights.size()));
  for (const PlannedWeight& weight : plan.weights) {
    Append(out, static_cast<uint32_t>(weight.name.size()));
    out += weight.name;
    Append(out, static_cast<uint32_t>(weight.dtype));
    Append(out, static_cast<uint64_t>(weight.num_rows));
    Append(out, static_cast<uint64_t>(weight.num_cols));
    Append(out, static_cast<uint64_t>(weight.offset));
    Append(out, static_cast<uint64_t>(weight.packed_bytes));
  }
  return out;
}

// The whole header, padded to where the data starts.
std::string Header(const WeightPlan& plan, const Pack& pack) {
  const std::string directory = Directory(plan);
  const size_t fixed_bytes = kMagic.size() + 4 + 8 + 8 + 8;
  const size_t header_bytes =
      fixed_bytes + directory.size() + (pack.tensor_digests.size() + 2) * sizeof(Digest);
  std::string out(kMagic);
  Append(out, kPackLayoutVersion);
  Append(out, static_cast<uint64_t>(header_bytes));
  Append(out, static_cast<uint64_t>(AlignUp(header_bytes, kDataAlignment)));
  Append(out, static_cast<uint64_t>(plan.packed_bytes));
  out += directory;
  for (const Digest& digest : pack.tensor_digests) Append(out, digest);
  Append(out, pack.digest);
  Append(out, Sha256().Add(out).Finish());
  out.resize(AlignUp(header_bytes, kDataAlignment));
  return out;
}

Status WriteAll(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path,
                const std::function<bool()>& cancelled) {
  while (!bytes.empty()) {
    if (cancelled()) return MakeError(ErrorCode::kInterrupted, "{}: cancelled", path.string());
    const ssize_t written = ::write(fd, bytes.data(), std::min(bytes.size(), kPieceBytes));
    if (written < 0) {
      if (errno == EINTR) continue;
      return SystemError(path, "write");
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

bool ReadAll(int fd, std::byte* out, size_t size, size_t offset) {
  while (size > 0) {
    const ssize_t count = ::pread(fd, out, size, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    out += count;
    offset += static_cast<size_t>(count);
    size -= static_cast<size_t>(count);
  }
  return true;
}

}  // namespace

uint64_t PackFileBytes(const WeightPlan& plan) {
  Pack pack;
  pack.tensor_digests.resize(plan.weights.size());
  return Header(plan, pack).size() + plan.packed_bytes;
}

Status WritePackFile(const std::filesystem::path& path, const WeightPlan& plan, const Pack& pack,
                     const std::function<bool()>& cancelled) {
  const std::filesystem::path temporary =
      path.string() + fmt::format(".{}.part", static_cast<long>(::getpid()));
  const auto write = [&]() -> Status {
    const FileDescriptor file(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (file.get() < 0) return SystemError(temporary, "create");
    const std::string header = Header(plan, pack);
    QUIRE_RETURN_IF_ERROR(
        WriteAll(file.get(), std::as_bytes(std::span(header)), temporary, cancelled));
    QUIRE_RETURN_IF_ERROR(WriteAll(file.get(), pack.memory.bytes(), temporary, cancelled));
    if (::fdatasync(file.get()) != 0) return SystemError(temporary, "sync");
    if (::rename(temporary.c_str(), path.c_str()) != 0) return SystemError(path, "publish");
    return {};
  };
  const Status status = write();
  if (!status.ok()) ::unlink(temporary.c_str());
  return status;
}

Result<Pack> ReadPackFile(const std::filesystem::path& path, const WeightPlan& plan,
                          ThreadPool& pool) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return SystemError(path, "open");
  const auto corrupt = [&](std::string_view what) {
    return MakeError(ErrorCode::kCorrupt, "{}: {}", path.string(), what);
  };

  // The header of an intact pack of this plan differs from an expected one in its digests alone.
  Pack pack;
  pack.tensor_digests.resize(plan.weights.size());
  const std::string expected = Header(plan, pack);
  std::string header(expected.size(), '\0');
  if (!ReadAll(file.get(), reinterpret_cast<std::byte*>(header.data()), header.size(), 0)) {
    return corrupt("the header is cut off");
  }
  const size_t digests_offset = kMagic.size() + 4 + 8 + 8 + 8 + Directory(plan).size();
  if (std::string_view(header).substr(0, digests_offset) !=
      std::string_view(expected).substr(0, digests_offset)) {
    return corrupt("a pack of another layout or of other tensors");
  }
  size_t position = digests_offset;
  const auto take_digest = [&] {
    Digest digest;
    std::memcpy(digest.data(), header.data() + position, sizeof(digest));
    position += sizeof(digest);
    return digest;
  };
  for (Digest& digest : pack.tensor_digests) digest = take_digest();
  pack.digest = take_digest();
  const Digest header_digest = Sha256().Add(std::string_view(header).substr(0, position)).Finish();
  if (take_digest() != header_digest) return corrupt("the header's checksum is wrong");

  struct stat info{};
  if (::fstat(file.get(), &info) != 0 ||
      static_cast<uint64_t>(info.st_size) != header.size() + plan.packed_bytes) {
    return corrupt("the data is cut off");
  }
  QUIRE_ASSIGN_OR_RETURN(pack.memory, HugeBuffer::Allocate(plan.packed_bytes));
  std::atomic<bool> failed{false};
  const size_t num_pieces = (plan.packed_bytes + kPieceBytes - 1) / kPieceBytes;
  pool.ParallelFor(num_pieces, 1, [&](size_t begin, size_t end, int) {
    for (size_t i = begin; i < end; ++i) {
      const size_t offset = i * kPieceBytes;
      const size_t size = std::min(kPieceBytes, plan.packed_bytes - offset);
      if (!ReadAll(file.get(), pack.memory.data() + offset, size, header.size() + offset)) {
        failed = true;
      }
    }
  });
  if (failed) return corrupt("cannot read the data");
  return pack;
}

}  // namespace quire
