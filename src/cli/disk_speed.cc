#include "cli/disk_speed.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "cli/posix_file.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr size_t kFirstBytes = size_t{16} << 10;
constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr int kFirstReads = 9;
constexpr size_t kLatencyBytes = kFirstReads * kPieceBytes;

double MsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

Error FaultOf(const fs::path& path, const char* verb) {
  const ErrorCode code =
      errno == ENOSPC || errno == EDQUOT ? ErrorCode::kResourceExhausted : ErrorCode::kIo;
  return MakeError(code, "{}: cannot {} a file to measure with: {}", path.string(), verb,
                   std::strerror(errno));
}

Status CheckDirectory(const fs::path& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    return MakeError(ErrorCode::kNotFound, "{}: no such directory", directory.string());
  }
  const fs::space_info room = fs::space(directory, error);
  if (error || room.available >= 2 * kDiskSpeedBytes) return {};
  return MakeError(ErrorCode::kResourceExhausted,
                   "{}: measuring takes a file of {} MiB, and {} MiB are free; so little is no "
                   "place for keys and values",
                   directory.string(), kDiskSpeedBytes >> 20, room.available >> 20);
}

// Bytes that a file system cannot make smaller.
void Fill(std::vector<std::byte>& piece, uint64_t& state) {
  for (size_t i = 0; i + sizeof(state) <= piece.size(); i += sizeof(state)) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::memcpy(piece.data() + i, &state, sizeof(state));
  }
}

Status Write(int fd, const fs::path& directory) {
  std::vector<std::byte> piece(kPieceBytes);
  uint64_t state = 0x9e3779b97f4a7c15;
  for (size_t done = 0; done < kDiskSpeedBytes;) {
    const size_t offset = done % kPieceBytes;
    if (offset == 0) Fill(piece, state);
    const ssize_t written = write(fd, piece.data() + offset, kPieceBytes - offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return FaultOf(directory, "write");
    done += static_cast<size_t>(written);
  }
  if (fsync(fd) != 0) return FaultOf(directory, "write");
  // Advice: where it is not taken, memory is what is measured.
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  return {};
}

Status Read(int fd, size_t offset, size_t num_bytes, const fs::path& directory) {
  std::vector<std::byte> piece(std::min(num_bytes, kPieceBytes));
  while (num_bytes > 0) {
    const ssize_t got =
        pread(fd, piece.data(), std::min(num_bytes, piece.size()), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FaultOf(directory, "read");
    if (got == 0) return MakeError(ErrorCode::kIo, "{}: a file ended early", directory.string());
    offset += static_cast<size_t>(got);
    num_bytes -= static_cast<size_t>(got);
  }
  return {};
}

// The median of single reads in the first kLatencyBytes, without reading ahead.
Result<double> LatencyMs(int fd, const fs::path& directory) {
  posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
  std::array<double, kFirstReads> times_ms;
  for (int i = 0; i < kFirstReads; ++i) {
    const auto start = std::chrono::steady_clock::now();
    QUIRE_RETURN_IF_ERROR(Read(fd, i * kPieceBytes, kFirstBytes, directory));
    times_ms[i] = MsSince(start);
  }
  posix_fadvise(fd, 0, 0, POSIX_FADV_NORMAL);
  std::ranges::nth_element(times_ms, times_ms.begin() + kFirstReads / 2);
  return times_ms[kFirstReads / 2];
}

}  // namespace

Result<TierSpeed> MeasureDiskSpeed(const fs::path& directory) {
  QUIRE_RETURN_IF_ERROR(CheckDirectory(directory));
  std::string name = (directory / "quire-speed-XXXXXX").string();
  const Descriptor file(mkostemp(name.data(), O_CLOEXEC));
  if (file.fd() < 0) return FaultOf(directory, "make");
  unlink(name.c_str());
  QUIRE_RETURN_IF_ERROR(Write(file.fd(), directory));

  QUIRE_ASSIGN_OR_RETURN(const double latency_ms, LatencyMs(file.fd(), directory));
  const auto then = std::chrono::steady_clock::now();
  QUIRE_RETURN_IF_ERROR(Read(file.fd(), kLatencyBytes, kDiskSpeedBytes - kLatencyBytes, directory));
  const double rest_ms = std::max(MsSince(then), 1e-3);
  return TierSpeed{.latency_ms = latency_ms,
                   .bytes_per_ms = static_cast<double>(kDiskSpeedBytes - kLatencyBytes) / rest_ms};
}

}  // namespace quire
