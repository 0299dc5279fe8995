#include "cli/process_memory.h"

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

namespace quire {
namespace {

// "VmHWM:     1724 kB" of a file of such lines.
Result<uint64_t> ReadField(const char* path, std::string_view name) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with(name)) continue;
    const size_t first = line.find_first_of("0123456789", name.size());
    uint64_t kib = 0;
    if (first == std::string::npos) break;
    const char* end = line.data() + line.size();
    if (std::from_chars(line.data() + first, end, kib).ec != std::errc()) break;
    return kib * 1024;
  }
  return MakeError(ErrorCode::kIo,
                   "{} does not say {}: this system does not tell what memory a "
                   "process holds",
                   path, name);
}

// A file descriptor that is closed.
class PageMap {
 public:
  PageMap() : descriptor_(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) {}
  ~PageMap() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  PageMap(const PageMap&) = delete;
  PageMap& operator=(const PageMap&) = delete;

  // Entries of the pages from `first` on; how many were read, 0 where the system does not say.
  size_t Read(uint64_t first, std::span<uint64_t> entries) const {
    if (descriptor_ < 0) return 0;
    const ssize_t size = ::pread(descriptor_, entries.data(), entries.size_bytes(),
                                 static_cast<off_t>(first * sizeof(uint64_t)));
    return size < 0 ? 0 : static_cast<size_t>(size) / sizeof(uint64_t);
  }

 private:
  int descriptor_;
};

constexpr uint64_t kIsPresent = uint64_t{1} << 63;  // proc(5), /proc/pid/pagemap

}  // namespace

Result<uint64_t> ResidentBytes() {
  // Exact, where VmRSS is a sum of counters that lag.
  const auto exact = ReadField("/proc/self/smaps_rollup", "Rss:");
  return exact.ok() ? exact : ReadField("/proc/self/status", "VmRSS:");
}

Result<uint64_t> PeakResidentBytes() { return ReadField("/proc/self/status", "VmHWM:"); }

Result<uint64_t> ResidentBytes(std::span<const std::byte> range) {
  if (range.empty()) return uint64_t{0};
  const PageMap map;
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uint64_t>(range.data());
  const uint64_t end = begin + range.size();
  std::array<uint64_t, 4096> entries{};
  uint64_t resident = 0;
  for (uint64_t first = begin / page; first * page < end;) {
    const uint64_t wanted = std::min<uint64_t>(entries.size(), (end + page - 1) / page - first);
    const size_t count = map.Read(first, std::span(entries).first(wanted));
    if (count == 0) {
      return MakeError(ErrorCode::kIo,
                       "/proc/self/pagemap does not tell which pages are in memory");
    }
    for (size_t i = 0; i < count; ++i) {
      if ((entries[i] & kIsPresent) == 0) continue;
      const uint64_t address = (first + i) * page;
      resident += std::min(end, address + page) - std::max(begin, address);
    }
    first += count;
  }
  return resident;
}

void TrimHeap() { ::malloc_trim(0); }

uint64_t HeapBytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

}  // namespace quire
