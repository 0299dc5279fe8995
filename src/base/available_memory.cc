#include "base/available_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

namespace quire {
namespace {

std::optional<uint64_t> ReadNumber(const char* path) {
  std::ifstream in(path);
  uint64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;  // not there, or "max"
}

uint64_t SystemAvailable() {
  std::ifstream in("/proc/meminfo");
  std::string key;
  uint64_t kibibytes = 0;
  std::string unit;
  while (in >> key >> kibibytes) {
    if (key == "MemAvailable:") return kibibytes * 1024;
    std::getline(in, unit);
  }
  return 0;
}

}  // namespace

uint64_t AvailableMemory() {
  const uint64_t system = SystemAvailable();
  const auto limit = ReadNumber("/sys/fs/cgroup/memory.max");
  const auto used = ReadNumber("/sys/fs/cgroup/memory.current");
  if (!limit || !used) return system;
  const uint64_t left = *limit > *used ? *limit - *used : 0;
  return system == 0 ? left : std::min(system, left);
}

}  // namespace quire
